"""`resus tune` looks at validation users only, loses no trial to a kill, and writes a config that `train` reads."""

import csv
import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from resus_process import refused_here, succeed_here
from test_killed_runs import stop_when

from resus import InteractionLog, Resus, load
from resus.arrays import Integers
from resus.config.resolve import resolve
from resus.episodes.prefixes import OrderedUsers
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor
from resus.tuning.suggestions import Suggestions

pytestmark = pytest.mark.integration

FIXED = {"evaluation.max_size": 6, "training.epochs": 1, "predictor.epochs": 1, "encoder.hidden_units": "[8]"}
QUICK = [word for key, value in FIXED.items() for word in ("--set", f"{key}={value}")]
NARROW = ["--learners", "ridge", "--predictors", "lr,fm", *QUICK]


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open() as file:
        return [row | {"seconds": ""} for row in csv.DictReader(file)]


def test_a_search_that_was_killed_loses_no_trial_and_never_scores_a_test_user(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = workplace / "log"
    words = ["tune", log, "--trials", 3, *NARROW]
    code, said = stop_when(
        "residuals, epoch 1 ", signal.SIGKILL, list(map(str, [*words, "--out", "killed"])), tmp_path, 0.0
    )
    assert code == -signal.SIGKILL, said

    opened = InteractionLog.open(log)
    hidden = set(opened.rows_of(resolve({"seed": 1}).user_split(opened.n_users).test).tolist())
    scored, basis, prefixes = set(), Predictor.logits_of_rows, Personalizer.score_prefixes

    def logits_of_rows(self: Predictor, log: InteractionLog, rows: Integers | None = None, **rest: Any) -> Any:
        scored.update((np.arange(log.n_rows) if rows is None else rows).tolist())
        return basis(self, log, rows, **rest)

    def score_prefixes(self: Personalizer, log: InteractionLog, ordered: OrderedUsers, *rest: Any, **more: Any) -> Any:
        scored.update(ordered.rows.tolist())
        return prefixes(self, log, ordered, *rest, **more)

    monkeypatch.setattr(Predictor, "logits_of_rows", logits_of_rows)
    monkeypatch.setattr(Personalizer, "score_prefixes", score_prefixes)
    assert "continue it with --resume" in refused_here(*words, "--out", "killed", cwd=tmp_path)
    other = refused_here(*words, "--metric", "gauc", "--out", "killed", "--resume", cwd=tmp_path)
    assert "other options" in other
    said = succeed_here(*words, "--out", "killed", "--resume", cwd=tmp_path)
    assert "3 of 3 trials" in said
    assert scored
    assert not scored & hidden

    succeed_here(*words, "--out", "calm", cwd=tmp_path)
    calm, killed = rows(tmp_path / "calm"), rows(tmp_path / "killed")
    assert [row | {"trial": ""} for row in killed] == [row | {"trial": ""} for row in calm]
    assert len(calm) == 3
    assert (tmp_path / "calm" / "best.yaml").read_text().splitlines()[1:] == (
        (tmp_path / "killed" / "best.yaml").read_text().splitlines()[1:]
    )
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        ".lock",
        "best.yaml",
        "trials.csv",
        "trials.db",
    ]

    succeed_here("train", log, "--config", "calm/best.yaml", "--out", "run", cwd=tmp_path)
    results = load(tmp_path / "run").evaluate(opened, part="validation", draws=0)
    aucs = [stage.auc for stage in results.models["RESUS-RR"].stages.values()]
    assert max(float(row["auc"]) for row in calm) == pytest.approx(np.mean([auc for auc in aucs if auc is not None]))


def test_time_is_bounded_and_the_rest_comes_later(workplace: Path, tmp_path: Path) -> None:
    words = ("tune", workplace / "log", "--trials", 1, *NARROW, "--out", "short")
    said = succeed_here(*words, "--timeout", 0, cwd=tmp_path)
    assert "0 of 1 trials; the same command with --resume continues" in said
    assert "1 of 1 trials" in succeed_here(*words, "--resume", cwd=tmp_path)


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("not positive"), torch.linalg.LinAlgError("singular")])  # type: ignore[attr-defined]
def test_a_trial_that_fails_is_recorded_and_the_search_goes_on_at_any_path(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fit, calls = Resus.fit, []

    def failing(self: Resus, *words: Any, **options: Any) -> Resus:
        calls.append(self)
        if len(calls) == 2:
            raise error
        return fit(self, *words, **options)

    monkeypatch.setattr(Resus, "fit", failing)
    folder = "50% a?b&{c}#d"
    words = ("tune", workplace / "log", *NARROW, "--out", folder)
    said = succeed_here(*words, "--trials", 2, cwd=tmp_path)
    assert f"trial 1: fail ({error})" in said
    assert "3 of 3 trials" in succeed_here(*words, "--trials", 3, "--resume", cwd=tmp_path)
    assert [(row["state"], row["reason"]) for row in rows(tmp_path / folder)] == [
        ("complete", ""),
        ("fail", str(error)),
        ("complete", ""),
    ]
    assert [path.name for path in tmp_path.iterdir()] == [folder]


def test_every_kind_has_a_bounded_space_of_its_own() -> None:
    """A trial that always takes the first value of a space gives settings that resolve, for all kinds."""

    class First:
        def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
            return low

        def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
            return low

        def suggest_categorical(self, name: str, choices: Any) -> Any:
            return choices[0]

    for learner in ("plus", "ridge", "nearest"):
        for predictor in ("lr", "fm", "wide-deep", "deepfm", "xdeepfm", "lightgbm"):
            suggestions = Suggestions((learner,), (predictor,), {"seed": 3, "predictor.epochs": 1})
            config = suggestions.config_of(suggestions.settings_of(First()))
            assert (config.learner.kind, config.predictor.kind, config.seed) == (learner, predictor, 3)
            assert {"learner.kind", "predictor.kind"} <= suggestions.defaults().keys()
            assert json.dumps(suggestions.defaults())


def test_mistakes_get_one_sentence(workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune = ("tune", workplace / "log", "--out", "bad")
    assert "unknown 'learner.kind' 'rigde', did you mean 'ridge'?" in refused_here(
        *tune, "--learners", "rigde", cwd=tmp_path
    )
    assert "--metric is 'f1': choose auc, gauc, logloss" in refused_here(*tune, "--metric", "f1", cwd=tmp_path)
    assert "did you mean 'training.epochs'?" in refused_here(*tune, "--set", "training.epoch=1", cwd=tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    told = refused_here(*tune, cwd=tmp_path)
    assert told == "resus tune needs optuna, which is not installed: pip install 'resus[tune]'"
    assert list(tmp_path.iterdir()) == []
