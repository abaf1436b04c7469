"""Metrics against scikit-learn, against counting pairs, and against their own symmetries; and their records."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from resus.arrays import Floats, Integers
from resus.errors import DataError
from resus.evaluation.metrics import (
    AUC,
    CALIBRATION,
    GAP_CLOSED,
    LOGLOSS,
    Aucs,
    Measure,
    auc,
    calibration_error,
    gauc,
    logloss,
    rela_impr,
    users_with_both_labels,
)

# few distinct values, both zeros and both infinities: ties and edges are the rule
SCORES = st.sampled_from([-np.inf, -2.5, -1e-40, -0.0, 0.0, 1e-40, 0.25, 3.0, np.inf])
ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans(), SCORES), min_size=1, max_size=40)


def arrays(rows: list[tuple[int, bool, float]]) -> tuple[Integers, Floats, Floats]:
    rows = sorted(rows, key=lambda row: row[0])
    users, labels, scores = zip(*rows, strict=True)
    return np.array(users), np.array(labels, dtype=np.float32), np.array(scores, dtype=np.float32)


def pair_count(labels: Floats, scores: Floats) -> float:
    clicked, others = scores[labels == 1], scores[labels == 0]
    if len(clicked) == 0 or len(others) == 0:
        return float("nan")
    wins = sum(1.0 if c > o else 0.5 if c == o else 0.0 for c in clicked for o in others)
    return wins / (len(clicked) * len(others))


@given(ROWS)
def test_auc_is_the_share_of_pairs_ranked_right(rows: list[tuple[int, bool, float]]) -> None:
    _, labels, scores = arrays(rows)
    assert auc(labels, scores) == pytest.approx(pair_count(labels, scores), abs=1e-12, nan_ok=True)


@given(ROWS)
def test_gauc_is_the_mean_of_user_aucs_weighted_by_rows(rows: list[tuple[int, bool, float]]) -> None:
    users, labels, scores = arrays(rows)
    each = {u: pair_count(labels[users == u], scores[users == u]) for u in np.unique(users)}
    counted = [u for u, value in each.items() if not np.isnan(value)]
    weights = [int((users == u).sum()) for u in counted]
    expected = np.average([each[u] for u in counted], weights=weights) if counted else float("nan")
    assert gauc(labels, scores, users) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert users_with_both_labels(labels, users) == len(counted)


@pytest.mark.parametrize("decimals", [1, 2, 7])
def test_auc_and_logloss_agree_with_scikit_learn(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    logits = rng.normal(0, 2, 5000).round(decimals).astype(np.float32)
    labels = (rng.random(5000) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    assert auc(labels, logits) == pytest.approx(roc_auc_score(labels, logits), abs=1e-12)
    probabilities = 1 / (1 + np.exp(-logits.astype(np.float64)))
    assert logloss(labels, logits) == pytest.approx(log_loss(labels, probabilities), rel=1e-6)


def test_gauc_does_not_see_what_moves_all_scores_of_a_user() -> None:
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(50), 20)
    scores = rng.integers(-20, 20, 1000).astype(np.float32)
    labels = (rng.random(1000) < 0.4).astype(np.float32)
    shifted = scores + rng.integers(-100, 100, 50).astype(np.float32)[users]
    assert gauc(labels, scores, users) == gauc(labels, shifted, users)
    assert auc(labels, scores) != auc(labels, shifted)


def test_a_user_is_a_block_of_rows_with_any_number() -> None:
    labels = np.array([1, 0, 1, 0], dtype=np.float32)
    scores = np.array([2, 1, 1, 2], dtype=np.float32)
    assert gauc(labels, scores, np.array([7, 7, 3, 3])) == 0.5


def test_logloss_of_a_sure_and_wrong_prediction_is_finite() -> None:
    assert logloss(np.array([1, 0], dtype=np.float32), np.array([-200, 200], dtype=np.float32)) == pytest.approx(200)


@pytest.mark.parametrize(("labels", "scores"), [([], []), ([1, 1], [0.1, 0.2]), ([0], [0.3])])
def test_a_ranking_metric_without_two_classes_is_nan(labels: list[float], scores: list[float]) -> None:
    y, s = np.array(labels, dtype=np.float32), np.array(scores, dtype=np.float32)
    users = np.zeros(len(y), dtype=np.int64)
    assert np.isnan(auc(y, s))
    assert np.isnan(gauc(y, s, users))
    assert users_with_both_labels(y, users) == 0
    assert np.isnan([logloss(y, s), calibration_error(y, s)]).all() == (not labels)


def test_a_score_that_is_not_a_number_is_refused_with_its_row() -> None:
    with pytest.raises(DataError, match="row 1 is not a number"):
        auc(np.array([0, 1], dtype=np.float32), np.array([0.1, np.nan], dtype=np.float32))


def test_calibration_error_of_bins_counted_by_hand() -> None:
    probabilities = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
    labels = np.array([0, 0, 1, 0, 1, 1, 0, 1])
    expected = (abs(0.3 - 0) + abs(0.7 - 1) + abs(1.3 - 2) + abs(1.7 - 1)) / 8
    assert calibration_error(labels, probabilities, bins=4) == pytest.approx(expected)


@given(ROWS, st.integers(1, 8), st.randoms(use_true_random=False))
def test_calibration_error_does_not_depend_on_row_order(
    rows: list[tuple[int, bool, float]], bins: int, random: Random
) -> None:
    _, labels, scores = arrays(rows)
    probabilities = 1 / (1 + np.exp(-scores.astype(np.float64)))
    order = list(range(len(rows)))
    random.shuffle(order)
    value = calibration_error(labels, probabilities, bins)
    assert value == pytest.approx(calibration_error(labels[order], probabilities[order], bins), abs=1e-12)
    assert abs((probabilities - labels).mean()) - 1e-12 <= value <= np.abs(probabilities - labels).mean() + 1e-12


def test_calibration_error_of_the_truth_is_small_and_of_a_constant_its_distance() -> None:
    rng = np.random.default_rng(2)
    probabilities = rng.random(200_000)
    labels = (rng.random(200_000) < probabilities).astype(np.float32)
    assert calibration_error(labels, probabilities) < 0.01
    constant = np.full(len(labels), 0.9)
    assert calibration_error(labels, constant) == pytest.approx(0.9 - labels.mean())


def test_rela_impr_of_the_papers_table() -> None:
    assert rela_impr(0.7302, 0.7216) == pytest.approx(3.9, abs=0.05)
    assert rela_impr(0.7, 0.7) == 0
    assert np.isnan(rela_impr(0.7, 0.5))


def test_gap_closed_is_0_for_the_crowd_and_1_for_the_oracle() -> None:
    found = [GAP_CLOSED.function(Aucs(own, base=0.6, crowd=0.7, oracle=0.9)) for own in (0.7, 0.8, 0.9)]
    assert found == pytest.approx([0, 0.5, 1])
    assert np.isnan(GAP_CLOSED.function(Aucs(0.8, base=0.6, crowd=0.7, oracle=0.7)))
    assert np.isnan(GAP_CLOSED.function(Aucs(0.8, base=0.6, crowd=float("nan"), oracle=float("nan"))))


def test_the_calibration_record_takes_logits_without_overflow() -> None:
    logits = np.array([-200, 0, 200], dtype=np.float32)
    labels, users = np.array([0, 1, 1], dtype=np.float32), np.zeros(3, dtype=np.int64)
    assert CALIBRATION.function(labels, logits, users) == pytest.approx(0.5 / 3)


@pytest.mark.parametrize(("measure", "best"), [(AUC, {"b"}), (LOGLOSS, {"a"})])
def test_the_best_rival_has_the_highest_value_or_the_lowest_loss(measure: Measure, best: set[str]) -> None:
    assert measure.best({"a": 0.5, "b": 0.7, "oracle": 0.9}, ["a", "b"]) == best


def test_equal_digits_are_both_best_and_a_lone_value_is_not() -> None:
    assert AUC.best({"a": 0.70001, "b": 0.70002, "c": 0.6}, ["a", "b", "c"]) == {"a", "b"}
    assert AUC.best({"a": 0.7, "b": None}, ["a", "b"]) == set()
    assert AUC.show(None) == "–"
