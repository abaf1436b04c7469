"""Is a new model better? The same models tie, a model that knows more wins, and users that trained one are left out."""

import json
from pathlib import Path

import pytest
from newer_logs import earlier, newer
from planted_models import tiny

import resus
from resus import ConfigError, Resus
from resus.evaluation.comparison import verdict_of
from resus.evaluation.results import Gain, StageGains


def gains(**metrics: tuple[float, float | None, float | None]) -> StageGains:
    found = {name: Gain(difference=one, low=low, high=high, draws=200) for name, (one, low, high) in metrics.items()}
    return StageGains.model_validate(found)


def test_the_verdict_names_metrics_and_stages_and_knows_that_a_lower_logloss_is_better() -> None:
    up, flat, down = (0.1, 0.05, 0.2), (0.1, -0.1, 0.2), (-0.1, -0.2, -0.05)
    said = verdict_of("a", "b", {"I": gains(auc=up, logloss=down), "II": gains(auc=up, logloss=up)})
    assert said == "b is better than a in AUC (I, II) and Logloss (I), and worse in Logloss (II)."
    said = verdict_of("a", "b", {"I": gains(auc=down, gauc=flat), "II": gains(auc=down, gauc=(0.1, None, None))})
    assert said == "b is worse than a in AUC (I, II); undecided in GAUC (I); too few users for GAUC (II)."
    assert "every interval includes 0" in verdict_of("a", "b", {"I": gains(auc=flat)})
    assert "too few users" in verdict_of("a", "b", {"I": gains(auc=(0.1, None, None))})


def test_two_runs_of_different_logs_are_measured_on_users_that_neither_has_seen(tmp_path: Path) -> None:
    old = tiny().fit(earlier())
    new = Resus().fit(newer(), warm_start=old)
    found = resus.compare(old, new, newer(), names=("may", "june"), draws=40)
    mine, theirs = new._fitted().users, old._fitted().users
    assert mine is not None
    assert theirs is not None
    assert found.users == len(mine.test)
    assert list(found.news) == ["may"], "only the old model does not know this log"
    alone = old.evaluate(newer(), users="all", draws=0).models["RESUS-RR"].stages["I"].auc
    assert resus.compare(old, new, newer(), users="all", draws=40).models["the old model"]["I"].auc == alone
    for stage, gain in found.gains.items():
        values = [found.models[name][stage].auc for name in ("june", "may")]
        assert values[0] is not None
        assert values[1] is not None
        assert gain.auc.difference == pytest.approx(values[0] - values[1])
    found.write(tmp_path / "found.json")
    assert resus.Comparison.model_validate(json.loads((tmp_path / "found.json").read_text())) == found


def test_a_model_ties_with_itself() -> None:
    one = tiny().fit(earlier())
    found = resus.compare(one, one, newer(), draws=40)
    assert all(gain.difference == 0 for each in found.gains.values() for gain in each.metrics.values())
    assert "No difference" in found.verdict
    with pytest.raises(ConfigError, match="both models are named 'x'"):
        resus.compare(one, one, newer(), names=("x", "x"))
    with pytest.raises(ConfigError, match="needs draws"):
        resus.compare(one, one, newer(), draws=0)
