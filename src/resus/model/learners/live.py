"""What the model knows of one user while events come in: a base-learner's state that grows with each event.

Only the latest `capacity` events count, so memory and time per event are bounded.
"""

from typing import Protocol

from torch import Tensor

from resus.model.learners.answer import Answer
from resus.model.learners.nearest.learner import NearestLearner
from resus.model.learners.nearest.live import LiveNearest
from resus.model.learners.plus.live import LivePosterior
from resus.model.learners.plus.posterior import PosteriorLearner
from resus.model.learners.ridge.learner import RidgeLearner
from resus.model.learners.ridge.live import LiveRidge
from resus.model.personalizer import ResidualModel


class LiveState(Protocol):
    """A user's events as the learner keeps them, the oldest first."""

    def __len__(self) -> int: ...

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        """All events at once, `[k, K]` and `[k, …]`, in place of what was there."""

    def append(self, encoded: Tensor, outcome: Tensor) -> None:
        """One more event: its Φ(x) `[K]` and what the learner takes of its outcome."""

    def insert(self, place: int, encoded: Tensor, outcome: Tensor) -> None:
        """An event that came late."""

    def correct(self, place: int, outcome: Tensor) -> None:
        """Another label for an event."""

    def remove(self, place: int) -> None:
        """As if the event had never been."""

    def answer(self, encoded: Tensor) -> Answer:
        """Candidates `[N, K]`, before fusion."""


def live_state(model: ResidualModel, width: int) -> LiveState:
    """An empty state for a model's learner; `width` is K."""
    if isinstance(model.learner, RidgeLearner):
        return LiveRidge(model.learner, width)
    if isinstance(model.learner, PosteriorLearner):
        return LivePosterior(model.learner, width)
    assert isinstance(model.learner, NearestLearner)
    return LiveNearest(model.learner, width)
