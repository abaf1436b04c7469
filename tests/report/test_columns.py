"""Which model a column marks as the best."""

import pytest

from resus.evaluation.metrics import AUC, LOGLOSS, Measure


@pytest.mark.parametrize(("column", "best"), [(AUC, {"b"}), (LOGLOSS, {"a"})])
def test_the_best_is_the_highest_or_for_a_loss_the_lowest(column: Measure, best: set[str]) -> None:
    assert column.best({"a": 0.5, "b": 0.7, "oracle": 0.9}, ["a", "b"]) == best


def test_models_that_look_equal_are_both_marked() -> None:
    assert AUC.best({"a": 0.70001, "b": 0.70002, "c": 0.6}, ["a", "b", "c"]) == {"a", "b"}


def test_nobody_is_marked_without_a_rival() -> None:
    assert AUC.best({"a": 0.7, "b": None}, ["a", "b"]) == set()


def test_a_missing_metric_is_a_dash() -> None:
    assert AUC.show(None) == "–"
