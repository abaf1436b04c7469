"""One live user: events with ids, in their order, and the scores of new candidates that follow from them."""

import bisect
from collections.abc import Sequence

import torch

from resus.episodes.batch import Features
from resus.model.personalizer import Personalizer, Scores
from resus.serving.store import Event, Moment


class LiveUser:
    """Grows with each event. After any sequence of events, corrections and deletions, the scores are those that the
    model gives offline for the same events.

    Keeps the latest `capacity` events. An older event that arrives late at a full user is ignored.
    """

    def __init__(self, model: Personalizer, *, capacity: int) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._support = model.live_support()
        self._moments: list[Moment] = []

    def start_from(self, events: Sequence[Event], features: Features) -> None:
        """Give an empty user a whole history in one pass: events in their order, and the rows of their features."""
        assert not len(self)
        assert len(events) <= self._capacity
        if events:
            self._support.fill(features, torch.tensor([event.label for event in events]))
            self._moments = [event.moment for event in events]

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def events(self) -> tuple[str, ...]:
        """Ids of the events that count, oldest first."""
        return tuple(moment.id for moment in self._moments)

    def observe(self, event: str, features: Features, label: float, time: float) -> None:
        """Take in one event (`features` of one row). A known id is the same event again: only its label may change."""
        if self._place_of(event) is not None:
            self.correct(event, label)
            return
        moment = Moment(time, event)
        place = bisect.bisect(self._moments, moment)
        full = len(self) == self._capacity
        if full and place == 0:
            return
        self._support.insert(place, features, label, drop_oldest=full)
        self._moments.insert(place, moment)
        if full:
            del self._moments[0]

    def correct(self, event: str, label: float) -> None:
        """Change the label of a known event; ignore an unknown one."""
        place = self._place_of(event)
        if place is not None:
            self._support.correct(place, label)

    def forget(self, event: str) -> None:
        """Remove an event; ignore an unknown one."""
        place = self._place_of(event)
        if place is not None:
            self._support.remove(place)
            del self._moments[place]

    def score(self, candidates: Features, *, explain: bool = False) -> Scores:
        return self._support.score(candidates, explain=explain)

    def _place_of(self, event: str) -> int | None:
        return next((place for place, moment in enumerate(self._moments) if moment.id == event), None)
