"""The shelf of a comparison: RESUS+, its variants and the baselines share one Ψ and one set of cross-fitted logits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_models import TINY, small_log

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.baselines.shelf import cross_fitted_predictor
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


@pytest.mark.parametrize("average", ["auto", "always"])
@pytest.mark.parametrize("kind", ["deepfm", "lightgbm"])
def test_a_shelf_changes_no_number(kind: str, average: str, tmp_path: Path) -> None:
    def fit(task: Task) -> tuple[Floats, History]:
        method = Residual(learner="plus", predictor=kind, changes={"training.average": average})
        history = method.fit(task)
        return answers(method, task), history

    alone, history = fit(task())
    assert ("mean of all predictors" in {line.stage for line in history}) or average == "auto"
    for _ in range(2):
        found, told = fit(task(tmp_path))
        np.testing.assert_array_equal(found, alone)
        assert told == history


def test_other_seeds_folds_and_predictors_lie_apart(tmp_path: Path) -> None:
    fitted("resus-plus", task(tmp_path))
    fitted("resus-plus", task(tmp_path, seed=2))
    fitted("resus-plus-lr", task(tmp_path))
    Residual(learner="plus", changes={"training.folds": 2}).fit(task(tmp_path))
    fitted("resus-plus", task(tmp_path, silent, **{"predictor.epochs": 1}))
    assert len(list(tmp_path.glob("*.npy"))) == len(list(tmp_path.glob("*.json"))) == 5


def test_baselines_take_the_folds_of_plus(tmp_path: Path) -> None:
    first: set[str] = set()
    again: set[str] = set()
    given = task(tmp_path, naming(first))
    found = cross_fitted_predictor(given)
    alone = cross_fitted_predictor(task())
    assert len(folds_among(first)) == 4
    np.testing.assert_array_equal(found.logits, alone.logits)
    assert found.history == alone.history
    rows = {part: given.log.rows_of(getattr(given.split, part)) for part in ("train", "validation", "test")}
    own = {part: found.predictor.logits_of_rows(given.log, rows[part]) for part in rows}
    assert (found.logits[rows["train"]] != own["train"]).all(), "each comes from a predictor that never saw the user"
    np.testing.assert_array_equal(found.logits[rows["validation"]], own["validation"])
    assert np.isnan(found.logits[rows["test"]]).all()
    for name in ("resus-plus", "history-trees", "din"):
        METHODS[name].build().fit(task(tmp_path, naming(again)))
    assert not folds_among(again)
    assert len(list(tmp_path.glob("*.npy"))) == 1


def test_a_predictor_that_is_not_trained_has_no_folds() -> None:
    config = resolve(TINY | {"predictor.kind": "none"})
    given = Task(small_log(), config, predictor=config.predictor.build_predictor(small_log().features))
    found = cross_fitted_predictor(given)
    assert found.history == []
    known = small_log().rows_of(np.concatenate([given.split.train, given.split.validation]))
    assert (found.logits[known] == 0).all()
    assert np.isnan(np.delete(found.logits, known)).all()


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
    assert not any("folds" in line.stage or "predictor" in line.stage for line in history)
    assert not list(tmp_path.iterdir())
    expected = Residual(learner="plus", predictor="none")
    expected.fit(task())
    np.testing.assert_array_equal(answers(method, task()), answers(expected, task()))
