"""The shelf of a comparison: RESUS+ and its variants share one Ψ and one set of cross-fitted logits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_models import TINY, small_log

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.config.resolve import resolve
from resus.episodes.prefixes import OrderedUsers
from resus.history import History
from resus.paper.rivals import METHODS
from resus.paper.rivals.residual import Residual
from resus.progress import Progress, silent

WITHOUT = "predictor without fold"


def task(shelf: Path | None = None, progress: Progress = silent, **changes: Any) -> Task:
    fast = {"predictor.learning_rate": 0.05, "predictor.epochs": 4, "encoder.epochs": 1}
    return Task(small_log(), resolve(TINY | fast | changes), shelf=shelf, progress=progress)


def answers(method: Residual, given: Task) -> Floats:
    ordered = OrderedUsers.of(given.log, given.split.test, seed=1)
    return method.score_prefixes(given.log, ordered, (0, 2, 6))


def fitted(name: str, given: Task) -> tuple[Floats, History]:
    method = METHODS[name].build()
    assert isinstance(method, Residual)
    history = method.fit(given)
    return answers(method, given), history


def naming(stages: set[str]) -> Progress:
    """Progress that adds the names of stages to a set."""
    return lambda task, *_: stages.add(task.partition(",")[0])


def folds_among(stages: set[str]) -> set[str]:
    return {stage for stage in stages if stage.startswith(WITHOUT)}


def folds_of(history: History) -> History:
    return [line for line in history if line.stage.startswith(WITHOUT)]


def test_folds_are_trained_once_for_all_variants(tmp_path: Path) -> None:
    first: set[str] = set()
    again: set[str] = set()
    _, history = fitted("resus-plus", task(tmp_path, naming(first)))
    assert len(folds_among(first)) == 4
    assert len({line.stage for line in folds_of(history)}) == 4
    for name in ("resus-plus-without-taste", "resus-plus-without-bias", "resus-plus"):
        _, other = fitted(name, task(tmp_path, naming(again)))
        assert folds_of(other) == folds_of(history)
    assert "factors" in again
    assert "predictor" not in again
    assert not folds_among(again)
    _, without = fitted("resus-plus-without-folds", task(tmp_path))
    assert not folds_of(without)
    assert len(list(tmp_path.glob("*.npy"))) == 1


@pytest.mark.parametrize("name", ["resus-plus", "resus-plus-without-steps", "resus-plus-lightgbm"])
def test_a_shelf_changes_no_number(name: str, tmp_path: Path) -> None:
    alone, history = fitted(name, task())
    for _ in range(2):
        found, told = fitted(name, task(tmp_path))
        np.testing.assert_array_equal(found, alone)
        assert told == history


def test_other_seeds_folds_and_predictors_lie_apart(tmp_path: Path) -> None:
    fitted("resus-plus", task(tmp_path))
    fitted("resus-plus", task(tmp_path, seed=2))
    fitted("resus-plus-lr", task(tmp_path))
    Residual(learner="plus", changes={"training.folds": 2}).fit(task(tmp_path))
    fitted("resus-plus", task(tmp_path, silent, **{"predictor.epochs": 1}))
    assert len(list(tmp_path.glob("*.npy"))) == len(list(tmp_path.glob("*.json"))) == 5


class StoppedError(Exception):
    pass


def test_a_stopped_cross_fit_resumes(tmp_path: Path) -> None:
    def stop(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith(f"{WITHOUT} 3"):
            raise StoppedError

    with pytest.raises(StoppedError):
        fitted("resus-plus", task(tmp_path, stop))
    resumed: set[str] = set()
    found, told = fitted("resus-plus", task(tmp_path, naming(resumed)))
    assert folds_among(resumed) == {f"{WITHOUT} 3 of 4", f"{WITHOUT} 4 of 4"}
    alone, history = fitted("resus-plus", task())
    np.testing.assert_array_equal(found, alone)
    assert told == history


def test_without_a_predictor_there_is_nothing_to_fold(tmp_path: Path) -> None:
    method = Residual(learner="plus", predictor="none")
    history = method.fit(task(tmp_path))
    assert {line.stage for line in history} == {"factors", "scales", "evidence", "final scales"}
    assert not list(tmp_path.iterdir())
    expected = Residual(learner="plus", predictor="none")
    expected.fit(task())
    np.testing.assert_array_equal(answers(method, task()), answers(expected, task()))
