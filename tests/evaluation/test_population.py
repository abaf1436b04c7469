"""Results by size and stage against a plain loop over sizes, and the file they are kept in."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from resus.errors import ArtifactError, DataError
from resus.evaluation.population import ScoredQueries, staged_results
from resus.evaluation.results import LogFacts, Results

SIZES = (0, 1, 2, 4, 6)
STAGES = {"I": [1, 2], "II": [4, 6]}


def scored_queries(lengths: list[int], seed: int = 0) -> ScoredQueries:
    """A base that ignores the support, a model that learns each user's bias with k, and the truth of both."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(len(lengths)) * 3 + 5, lengths)
    positions = np.concatenate([np.arange(length) for length in lengths])
    item = rng.normal(0, 1, len(users))
    bias = np.repeat(rng.normal(0, 1, len(lengths)), lengths)
    labels = rng.random(len(users)) < 1 / (1 + np.exp(-item - bias))
    learned = np.array(SIZES) / (np.array(SIZES) + 3)
    logits = {
        "base": (item + rng.normal(0, 0.3, len(users)))[:, None],
        "model": item[:, None] + bias[:, None] * learned,
        "oracle": (item + bias)[:, None],
        "crowd": item[:, None],
    }
    return ScoredQueries(
        labels=labels.astype(np.float32),
        users=users,
        positions=positions,
        sizes=SIZES,
        logits={name: values.astype(np.float32) for name, values in logits.items()},
    )


def results_of(scored: ScoredQueries) -> Results:
    return Results(
        log=LogFacts(name="planted", hash="0f", rows=len(scored.labels), users=len(np.unique(scored.users))),
        protocol="paper",
        seed=7,
        part="test",
        base="base",
        oracle="oracle",
        crowd="crowd",
        sizes=list(scored.sizes),
        stages=STAGES,
        models=staged_results(scored, stages=STAGES, base="base", oracle="oracle", crowd="crowd"),
    )


def auc_of(scored: ScoredQueries, model: str, k: int, queries: npt.NDArray[np.bool_]) -> float:
    logits = scored.logits[model][:, SIZES.index(k) if model == "model" else 0]
    return float(roc_auc_score(scored.labels[queries], logits[queries]))


def test_every_size_is_the_metric_of_the_rows_after_the_support() -> None:
    scored = scored_queries([3, 9, 5, 12, 7, 8] * 10)
    results = staged_results(scored, stages=STAGES, base="base", oracle="oracle", crowd="crowd")
    for column, k in enumerate(SIZES):
        queries = scored.positions >= k
        aucs = {model: auc_of(scored, model, k, queries) for model in scored.logits}
        found = results["model"].sizes[k]
        probabilities = 1 / (1 + np.exp(-scored.logits["model"][queries, column].astype(np.float64)))
        assert found.auc == pytest.approx(aucs["model"], abs=1e-9)
        assert found.logloss == pytest.approx(log_loss(scored.labels[queries], probabilities), rel=1e-5)
        assert found.rela_impr == pytest.approx(((aucs["model"] - 0.5) / (aucs["base"] - 0.5) - 1) * 100)
        assert found.gap_closed == pytest.approx(
            (aucs["model"] - aucs["crowd"]) / (aucs["oracle"] - aucs["crowd"]), abs=1e-9
        )
        assert found.users == len(np.unique(scored.users[queries]))
        assert found.queries == queries.sum()
        assert 0 < found.gauc_users <= found.users
        assert results["oracle"].sizes[k].gap_closed == 1
        assert results["crowd"].sizes[k].gap_closed == 0
        assert results["base"].sizes[k].rela_impr == 0


def test_a_stage_is_the_plain_mean_of_its_sizes_and_its_rela_impr_that_of_the_means() -> None:
    results = staged_results(scored_queries([9, 12, 7, 8] * 10), stages=STAGES, base="base")
    for stage, members in STAGES.items():
        for metric in ("auc", "gauc", "logloss", "calibration_error"):
            mean = np.mean([getattr(results["model"].sizes[k], metric) for k in members])
            assert getattr(results["model"].stages[stage], metric) == pytest.approx(mean)
        model, base = results["model"].stages[stage], results["base"].stages[stage]
        assert model.auc is not None
        assert base.auc is not None
        assert model.rela_impr == pytest.approx(((model.auc - 0.5) / (base.auc - 0.5) - 1) * 100)
        assert model.gap_closed is None
        assert model.sizes == members


def test_the_fixed_population_has_the_same_queries_at_every_size() -> None:
    scored = scored_queries([3, 9, 5, 12, 7, 8] * 10)
    results = staged_results(scored, stages=STAGES, base="base")
    long_enough = scored.positions >= SIZES[-1]
    for model in scored.logits:
        fixed = results[model].fixed_population
        assert fixed is not None
        assert (fixed.users, fixed.queries) == (40, long_enough.sum())
        assert {(at_k.users, at_k.queries) for at_k in fixed.sizes.values()} == {(40, long_enough.sum())}
        for k in SIZES:
            assert fixed.sizes[k].auc == pytest.approx(auc_of(scored, model, k, long_enough), abs=1e-9)
        assert fixed.sizes[SIZES[-1]] == results[model].sizes[SIZES[-1]]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 10), min_size=1, max_size=12), st.integers(0, 2**16))
def test_support_rows_of_a_size_never_reach_its_metrics(lengths: list[int], seed: int) -> None:
    scored = scored_queries(lengths, seed)
    logits = scored.logits["model"].copy()
    logits[scored.positions[:, None] < np.array(SIZES)] = 77.0
    spoiled = ScoredQueries(
        scored.labels, scored.users, scored.positions, scored.sizes, scored.logits | {"model": logits}
    )
    expected = staged_results(scored, stages=STAGES, base="base")["model"]
    found = staged_results(spoiled, stages=STAGES, base="base")["model"]
    assert found.sizes == expected.sizes
    assert found.stages == expected.stages


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 10), min_size=1, max_size=12), st.integers(0, 2**16))
def test_any_results_survive_the_file(lengths: list[int], seed: int) -> None:
    results = results_of(scored_queries(lengths, seed))
    text = json.dumps(results.model_dump(mode="json"), allow_nan=False)
    assert Results.model_validate(json.loads(text)) == results


def test_a_size_without_queries_is_visible_and_no_stage_counts_it() -> None:
    results = staged_results(scored_queries([5, 5, 6, 5] * 5), stages=STAGES, base="base")["model"]
    last = results.sizes[6]
    assert (set(last.metrics.values()), last.users, last.queries, last.gauc_users) == ({None}, 0, 0, 0)
    assert results.stages["II"].sizes == [4]
    assert results.stages["II"].auc == results.sizes[4].auc
    assert results.fixed_population is None


def test_a_stage_without_any_query_has_no_metric() -> None:
    stage = staged_results(scored_queries([3, 4, 3] * 5), stages=STAGES, base="base")["model"].stages["II"]
    assert (stage.sizes, set(stage.metrics.values())) == ([], {None})


def test_a_logit_that_is_not_finite_is_refused_with_its_place() -> None:
    scored = scored_queries([3, 9, 5])
    scored.logits["model"][6, 1] = np.nan
    with pytest.raises(DataError, match=r"model gives row 6 the logit nan at support size 1"):
        staged_results(scored, stages=STAGES, base="base")


@pytest.mark.parametrize(
    ("users", "positions"),
    [([1, 1, 2, 1], [0, 1, 0, 2]), ([1, 1, 2, 2], [0, 1, 1, 2]), ([1, 1, 2, 2], [1, 0, 0, 1])],
)
def test_rows_out_of_their_users_order_are_refused(users: list[int], positions: list[int]) -> None:
    with pytest.raises(AssertionError):
        ScoredQueries(np.zeros(4, np.float32), np.array(users), np.array(positions), (0, 1), {})


def test_results_come_back_from_their_file_as_they_were(tmp_path: Path) -> None:
    results = results_of(scored_queries([5, 5, 6, 5]))
    with pytest.raises(ArtifactError, match=r"results.json does not exist"):
        Results.read(tmp_path / "results.json")
    results.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == results
    stage = json.loads((tmp_path / "results.json").read_text())["models"]["model"]["stages"]["I"]
    assert {"auc", "gauc", "logloss", "rela_impr"} <= stage.keys()
    assert results.contenders == ["model"]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda text: text[:-40], "not valid JSON"),
        (lambda text: text[:0] + "[]", "not a results file of format 1"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "not a results file of format 1"),
        (lambda text: text.replace('"seed"', '"sead"'), "unknown key 'sead', did you mean 'seed'"),
    ],
)
def test_a_damaged_or_foreign_file_is_named(tmp_path: Path, damage: object, sentence: str) -> None:
    path = tmp_path / "results.json"
    results_of(scored_queries([5, 5, 6, 5])).write(path)
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    with pytest.raises(ArtifactError, match=sentence) as caught:
        Results.read(path)
    assert str(path) in str(caught.value)
