"""The draws, p-values, corrections and counts of the proving ground against loops that do the same naively."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.proving.cells import ProvedCell, Values
from benchmarks.proving.compare import Comparison, Share, best_shares, compare_all, corrected, holm, over_seeds, shares
from benchmarks.proving.draws import BINS, binned_auc, draws_of_cell
from resus.arrays import Doubles
from resus.evaluation.intervals import drawn_users
from resus.evaluation.metrics import auc, gauc, logloss, resampled_auc
from resus.evaluation.population import ScoredQueries
from resus.paper.cells.records import Seconds
from resus.randomness import Purpose, generator

STAGES = {"I": [1, 2], "II": [3]}
SIZES = (0, 1, 2, 3)


def naive_holm(p_values: list[float]) -> list[float]:
    """The smallest p times m, the next times m − 1, ..., and never below an earlier one."""
    adjusted, least = [0.0] * len(p_values), 0.0
    for place, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, p_values[number] * (len(p_values) - place)))
        adjusted[number] = least
    return adjusted


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_is_the_step_down_loop(p_values: list[float]) -> None:
    assert list(holm(np.array(p_values))) == pytest.approx(naive_holm(p_values))


def test_holm_of_a_textbook_example() -> None:
    assert list(holm(np.array([0.01, 0.04, 0.03, 0.005]))) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_binned_auc_is_exact_when_every_score_has_its_bin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users = np.sort(rng.integers(0, 6, rng.integers(1, BINS)))
    labels = (rng.random(len(users)) < 0.4).astype(np.float32)
    scores = rng.normal(size=len(users)).round(1).astype(np.float32)
    weights = drawn_users(6, 5, rng)
    exact = resampled_auc(labels, scores, users, weights)
    np.testing.assert_allclose(binned_auc(labels, scores, users, weights), exact, atol=1e-12)


def test_binned_auc_of_many_scores_is_close() -> None:
    rng = np.random.default_rng(4)
    users = np.sort(rng.integers(0, 50, 20_000))
    truth = rng.normal(size=len(users)) + rng.normal(size=50)[users]
    labels = (truth + rng.logistic(size=len(users)) > 0).astype(np.float32)
    weights = drawn_users(50, 20, rng)
    exact = resampled_auc(labels, truth.astype(np.float32), users, weights)
    assert np.ptp(exact) > 0.01
    np.testing.assert_allclose(binned_auc(labels, truth.astype(np.float32), users, weights), exact, atol=1e-4)


def scored_users(users: list[int], seed: int) -> ScoredQueries:
    rng = np.random.default_rng([seed, *users])
    lengths = rng.integers(8, 20, len(users))
    owners, positions = np.repeat(users, lengths), np.concatenate([np.arange(length) for length in lengths])
    logits = rng.normal(size=(len(owners), len(SIZES))).round(1).astype(np.float32)
    labels = (rng.random(len(owners)) < 0.5).astype(np.float32)
    return ScoredQueries(labels=labels, users=owners, positions=positions, sizes=SIZES, logits={"any": logits})


def test_draws_are_those_of_a_loop_that_copies_the_rows_of_drawn_users() -> None:
    everyone, users, draws = 12, [1, 3, 4, 7, 8, 11], 5
    scored = scored_users(users, seed=2)
    found = draws_of_cell(scored, n_users=everyone, stages=STAGES, draws=draws)
    drawn = drawn_users(everyone, draws, generator(Purpose.METHOD_BOOTSTRAP, 0))
    for number, counts in enumerate([np.ones(everyone, dtype=np.int64), *drawn]):
        blocks = [np.flatnonzero(scored.users == user) for user in users for _ in range(counts[user])]
        rows, copies = np.concatenate(blocks), np.repeat(np.arange(len(blocks)), list(map(len, blocks)))
        for stage, members in STAGES.items():
            values = []
            for k in members:
                asked = scored.positions[rows] >= k
                labels, logits = scored.labels[rows[asked]], scored.logits["any"][rows[asked], SIZES.index(k)]
                values.append([auc(labels, logits), gauc(labels, logits, copies[asked]), logloss(labels, logits)])
            expected = np.mean(values, axis=0)
            assert [found[stage, metric][number] for metric in ("auc", "gauc", "logloss")] == pytest.approx(expected)


def test_a_draw_of_several_seeds_is_the_mean_of_their_differences() -> None:
    rng = np.random.default_rng(0)
    pairs = [({("I", "auc"): rng.normal(0.1, 1, 41)}, {("I", "auc"): rng.normal(size=41)}) for _ in range(3)]
    found = over_seeds(pairs)["I", "auc"]
    means = [sum(ours["I", "auc"][draw] - theirs["I", "auc"][draw] for ours, theirs in pairs) / 3 for draw in range(41)]
    assert found.observed == pytest.approx(means[0])
    as_far = sum(abs(mean - means[0]) >= abs(means[0]) for mean in means[1:])
    assert found.p_value() == pytest.approx((1 + as_far) / 41)


def comparison(data_set: str, stage: str, difference: float, p: float, metric: str = "auc") -> Comparison:
    return Comparison(
        data_set=data_set,
        training_users=None,
        against="din",
        stage=stage,
        metric=metric,
        seeds=(1,),
        difference=difference,
        low=None,
        high=None,
        p=p,
    )


def test_the_correction_is_over_one_data_set_and_metric() -> None:
    made = [comparison("a", "I", 0.1, 0.02), comparison("b", "I", 0.1, 0.02), comparison("a", "II", 0.1, 0.03)]
    assert [each.p_holm for each in corrected(made)] == pytest.approx([0.04, 0.02, 0.04])


def test_wins_are_counted_in_the_direction_of_the_metric() -> None:
    made = corrected(
        [
            comparison("a", "I", 0.1, 0.001),
            comparison("a", "II", -0.1, 0.001),
            comparison("a", "III", 0.1, 0.5),
            comparison("a", "I", -0.1, 0.001, "logloss"),
            comparison("a", "II", 0.1, 0.001, "logloss"),
        ]
    )
    found = shares(made)
    assert found["din", "auc"] == Share(compared=3, won=2, certainly_won=1, certainly_lost=1)
    assert found["din", "logloss"] == Share(compared=2, won=1, certainly_won=1, certainly_lost=1)


def cell(method: str, data_set: str, seed: int, value: float) -> ProvedCell:
    return ProvedCell(
        data_set=data_set,
        training_users=None,
        method=method,
        seed=seed,
        mark="0",
        test_users=5,
        stages={"I": Values(auc=value, gauc=None, logloss=value)},
        sizes={5: Values(auc=value, gauc=None, logloss=value)},
        seconds=Seconds(pretraining=1, training=2, scoring=3),
        elapsed=6,
        cpu=5,
        peak_bytes=1,
        threads=1,
    )


def test_the_best_row_is_found_by_means_over_shared_seeds_without_variants_of_plus() -> None:
    cells = [
        cell("deepfm", "a", 1, 0.6),
        cell("deepfm", "a", 2, 0.6),
        cell("deepfm", "a", 3, 0.99),  # a seed that the others lack
        cell("resus-plus", "a", 1, 0.5),
        cell("resus-plus", "a", 2, 0.9),
        cell("resus-plus-without-taste", "a", 1, 0.95),
        cell("resus-plus-without-taste", "a", 2, 0.95),
        cell("deepfm", "b", 1, 0.7),
        cell("resus-plus", "b", 1, 0.7),
    ]
    found = best_shares(cells)
    assert (found["deepfm", "auc"], found["resus-plus", "auc"]) == ((1, 2), (2, 2))  # equal means are both best
    assert (found["deepfm", "logloss"], found["resus-plus", "logloss"]) == ((2, 2), (1, 2))
    assert found["deepfm", "gauc"] == (0, 0)
    assert ("resus-plus-without-taste", "auc") not in found


def test_without_draws_there_is_no_comparison(tmp_path: Path) -> None:
    assert compare_all(tmp_path, [cell("deepfm", "a", 1, 0.6), cell("resus-plus", "a", 1, 0.7)]) == []


def test_equal_rows_are_never_certain() -> None:
    same: Doubles = np.full(41, 0.7)
    assert over_seeds([({("I", "auc"): same}, {("I", "auc"): same})])["I", "auc"].p_value() == 1.0
