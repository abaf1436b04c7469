"""One live user: events by their ids, in the order in which they happened, and what they make of new candidates."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from resus.episodes.tensors import Features
from resus.model.personalizer import Personalizer, Scores


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

    def __init__(self, model: Personalizer, *, capacity: int) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._support = model.live_support()
        self._ids: list[str] = []
        self._moments: list[Moment] = []

    def start_from(self, events: Sequence[tuple[str, float, float]], features: Features) -> None:
        """An empty user takes in a whole history in one pass: (id, label, time) of each event, the oldest first."""
        assert not len(self)
        assert len(events) <= self._capacity
        if not events:
            return
        self._support.fill(features, torch.tensor([label for _, label, _ in events]))
        self._ids = [event for event, _, _ in events]
        self._moments = [Moment(time, event) for event, _, time in events]

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def events(self) -> tuple[str, ...]:
        """Ids of the events that count, the oldest first."""
        return tuple(self._ids)

    def observe(self, event: str, features: Features, label: float, time: float) -> None:
        """One event (`features` of one row). An id seen before is the same event again: its label is replaced."""
        if event in self._ids:
            self.correct(event, label)
            return
        moment = Moment(time, event)
        place = bisect.bisect(self._moments, moment)
        full = len(self) == self._capacity
        if full and place == 0:
            return
        self._support.insert(place, features, label, drop_oldest=full)
        self._ids.insert(place, event)
        self._moments.insert(place, moment)
        if full:
            del self._ids[0], self._moments[0]

    def correct(self, event: str, label: float) -> None:
        """Another label for a known event; nothing happens for an unknown one."""
        if event in self._ids:
            self._support.correct(self._ids.index(event), label)

    def forget(self, event: str) -> None:
        """As if the event had never been."""
        if event in self._ids:
            place = self._ids.index(event)
            self._support.remove(place)
            del self._ids[place], self._moments[place]

    def score(self, candidates: Features) -> Scores:
        """N candidates at once."""
        return self._support.score(candidates)
