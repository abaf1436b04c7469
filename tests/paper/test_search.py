"""Hyperparameters are chosen on validation users, once, and what was tried is kept."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from planted_models import TINY, events, log_of

from resus.baselines.method import Floats, Task
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.errors import TrainingError
from resus.history import EpochRecord, History
from resus.paper.cells.search import choose, read_searches
from resus.paper.rivals.catalogue import Entry
from resus.progress import silent

CONFIG = resolve(TINY)
tried: list[tuple[float, int]] = []


class Known:
    """A method whose validation AUC is known beforehand; it tells whom it was trained on."""

    def __init__(self, *, rate: float, steps: int = 1) -> None:
        self.rate = rate
        self.steps = steps

    def fit(self, task: Task) -> History:
        tried.append((self.rate, self.steps))
        assert not set(task.split.train) & set(task.split.test)
        assert task.config.seed == 1
        if self.rate > 1:
            raise TrainingError("diverged")
        reached = 0.9 - abs(self.rate - 0.1) + 0.01 * self.steps
        return [EpochRecord("known", 1, reached)]

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        raise AssertionError("a search never looks at test users")

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        raise AssertionError("a search never looks at test users")


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return log_of(events())


def test_the_best_point_on_validation_users_is_chosen_once(tmp_path: Path, log: InteractionLog) -> None:
    entry = Entry("known", Known, grid={"rate": (0.01, 0.1, 5.0), "steps": (1, 2)})
    tried.clear()
    for _ in range(2):
        chosen = choose(tmp_path, "known", entry, log, "mine", CONFIG.changed({"seed": 3}), silent)
        assert chosen == {"rate": 0.1, "steps": 2}
    assert len(tried) == 6
    lines = read_searches(tmp_path)
    assert len(lines) == 6
    assert {line["validation_auc"] for line in lines if line["point"]["rate"] == 5.0} == {0.0}
    choose(tmp_path, "known", entry, log, "other", CONFIG, silent)
    assert len(tried) == 12


def test_a_search_that_was_stopped_goes_on(tmp_path: Path, log: InteractionLog) -> None:
    entry = Entry("known", Known, grid={"rate": (0.01, 0.1)})
    tried.clear()
    choose(tmp_path, "known", Entry("known", Known, grid={"rate": (0.01,)}), log, "mine", CONFIG, silent)
    assert choose(tmp_path, "known", entry, log, "mine", CONFIG, silent) == {"rate": 0.1}
    assert tried == [(0.01, 1), (0.1, 1)]


def test_without_a_grid_nothing_is_searched(tmp_path: Path, log: InteractionLog) -> None:
    assert choose(tmp_path, "known", Entry("known", Known), log, "mine", CONFIG, silent) == {}
    assert not list(tmp_path.iterdir())


def test_fewer_training_users_leave_the_others_alone(log: InteractionLog) -> None:
    whole, part = Task(log, CONFIG).split, Task(log, CONFIG, every=3).split
    np.testing.assert_array_equal(part.train, whole.train[::3])
    np.testing.assert_array_equal(part.validation, whole.validation)
    np.testing.assert_array_equal(part.test, whole.test)
