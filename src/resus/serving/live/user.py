"""One live user: events by their ids, in the order in which they happened, and what they make of new candidates."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from resus.episodes.tensors import Features
from resus.model.learners.answer import Answer, fused
from resus.model.learners.live import LiveState, live_state
from resus.model.learners.plus.posterior import PosteriorLearner
from resus.model.personalizer import ResidualModel
from resus.model.predictors.neural import Predictor


@dataclass(frozen=True, eq=False)
class Scores:
    """Per candidate: P(click) = σ(basis + residual); `parts` says how much each of `events` moved the score."""

    probability: Tensor  # [N]
    basis: Tensor  # [N]
    residual: Tensor  # [N]
    deviation: Tensor | None  # [N], none for nearest neighbour and for ridge without events
    events: tuple[str, ...]
    parts: Tensor  # [N, k]


@dataclass(frozen=True, order=True)
class Moment:
    """When an event happened; events of one time are in the order of their ids, whatever order they came in."""

    time: float
    event: str


class LiveUser:
    """Grows with each event. Whatever the sequence of events, corrections and deletions, the scores are those that the
    model gives offline on the same support.

    Only the latest `capacity` events are kept: an older one that comes late to a full user is not taken in.
    """

    def __init__(self, predictor: Predictor, model: ResidualModel, *, width: int, capacity: int) -> None:
        assert capacity > 0
        self._predictor = predictor
        self._model = model
        self._capacity = capacity
        self._state: LiveState = live_state(model, width)
        self._ids: list[str] = []
        self._moments: list[Moment] = []
        self._basis: list[float] = []  # Ψ's logits, so that a corrected label gives its outcome

    @torch.no_grad()
    def start_from(self, events: Sequence[tuple[str, float, float]], features: Features) -> None:
        """An empty user takes in a whole history in one pass: (id, label, time) of each event, the oldest first."""
        assert not len(self)
        assert len(events) <= self._capacity
        if not events:
            return
        basis = self._predictor.logits(features)
        labels = torch.tensor([label for _, label, _ in events])
        self._state.fill(self._model.encoder(features), self._outcomes(labels, basis))
        self._ids = [event for event, _, _ in events]
        self._moments = [Moment(time, event) for event, _, time in events]
        self._basis = basis.tolist()

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def events(self) -> tuple[str, ...]:
        """Ids of the events that count, the oldest first."""
        return tuple(self._ids)

    @torch.no_grad()
    def observe(self, event: str, features: Features, label: float, time: float) -> None:
        """One event (`features` of one row). An id seen before is the same event again: its label is taken anew."""
        if event in self._ids:
            self.correct(event, label)
            return
        moment = Moment(time, event)
        place = bisect.bisect(self._moments, moment)
        full = len(self) == self._capacity
        if full and place == 0:
            return
        basis = self._predictor.logits(features).squeeze(0)  # may refuse the row, before anything is dropped for it
        encoded = self._model.encoder(features).squeeze(0)
        outcome = self._outcomes(torch.tensor(label), basis)
        if full:
            self._drop(0)
            place -= 1
        if place == len(self):
            self._state.append(encoded, outcome)
        else:
            self._state.insert(place, encoded, outcome)
        self._ids.insert(place, event)
        self._moments.insert(place, moment)
        self._basis.insert(place, float(basis))

    def correct(self, event: str, label: float) -> None:
        """Another label for a known event; an unknown one is nothing to correct."""
        if event in self._ids:
            place = self._ids.index(event)
            self._state.correct(place, self._outcomes(torch.tensor(label), torch.tensor(self._basis[place])))

    def forget(self, event: str) -> None:
        """As if the event had never been."""
        if event in self._ids:
            self._drop(self._ids.index(event))

    @torch.no_grad()
    def score(self, candidates: Features) -> Scores:
        """N candidates at once. Without an event the answer is Ψ's; RESUS+ knows by its prior how far users deviate."""
        basis = self._predictor.logits(candidates)
        if len(self) or isinstance(self._model.learner, PosteriorLearner):
            answer = fused(self._model.fusion, self._state.answer(self._model.encoder(candidates)), len(self))
        else:
            answer = Answer(torch.zeros_like(basis), basis.new_zeros(len(basis), 0), None)
        return Scores(
            probability=(basis + answer.residual).sigmoid(),
            basis=basis,
            residual=answer.residual,
            deviation=answer.deviation,
            events=self.events,
            parts=answer.parts,
        )

    def _drop(self, place: int) -> None:
        self._state.remove(place)
        del self._ids[place], self._moments[place], self._basis[place]

    def _outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        return self._model.learner.outcomes(labels, basis)  # type: ignore[operator,no-any-return]
