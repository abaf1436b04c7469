"""One live user: events with ids, in their order, and the scores of new candidates that follow from them."""

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np

from resus.arrays import Floats
from resus.model.inference.model import Inference, Scores
from resus.model.inference.parts import Crowd, Rows
from resus.serving.kept import KeptRows
from resus.serving.store import Event, Moment


class LiveUser:
    """Grows with each event. After any sequence of events, corrections and deletions, the scores are those that the
    model gives offline for the same events.

    Keeps the latest `capacity` events. An older event that arrives late at a full user is ignored.
    """

    def __init__(self, model: Inference, *, capacity: int) -> None:
        assert capacity > 0
        self._capacity = capacity
        self.support = model.live_support()
        self._moments: list[Moment] = []
        self._scores: tuple[Any, KeptRows] | None = None  # of the events as they are, and what they are scores in

    def start_from(self, events: Sequence[Event], features: Rows) -> None:
        """Give an empty user a whole history in one pass: events in their order, and the rows of their features."""
        assert not len(self)
        assert len(events) <= self._capacity
        self._scores = None
        if events:
            self.support.fill(features, np.array([event.label for event in events]))
            self._moments = [event.moment for event in events]

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def nbytes(self) -> int:
        """The memory that its arrays take."""
        return self.support.nbytes + (0 if self._scores is None else self._scores[1].nbytes)

    @property
    def events(self) -> tuple[str, ...]:
        """Ids of the events that count, oldest first."""
        return tuple(moment.id for moment in self._moments)

    def observe(self, event: str, features: Rows, label: float, time: float, *, encoded: Crowd | None = None) -> None:
        """Take in one event (`features` of one row). A known id is the same event again: only its label may change.

        `encoded` is what the model makes of the row, if it is known already.
        """
        if self._place_of(event) is not None:
            self.correct(event, label)
            return
        moment = Moment(time, event)
        place = bisect.bisect(self._moments, moment)
        full = len(self) == self._capacity
        if full and place == 0:
            return
        self._scores = None
        self.support.insert(place, features, label, drop_oldest=full, encoded=encoded)
        self._moments.insert(place, moment)
        if full:
            del self._moments[0]

    def correct(self, event: str, label: float) -> None:
        """Change the label of a known event; ignore an unknown one."""
        place = self._place_of(event)
        if place is not None:
            self._scores = None
            self.support.correct(place, label)

    def forget(self, event: str) -> None:
        """Remove an event; ignore an unknown one."""
        place = self._place_of(event)
        if place is not None:
            self._scores = None
            self.support.remove(place)
            del self._moments[place]

    def kept_scores(self, key: Any, items: int) -> KeptRows:
        """Basis and residual of items of a catalogue, `[N, 2]`, until an event comes or the key is another one."""
        if self._scores is None or self._scores[0] != key:
            self._scores = key, KeptRows(items, 2)
        return self._scores[1]

    def score(self, candidates: Rows, *, deviation: bool = True, explain: bool = False) -> Scores:
        return self.support.score(candidates, deviation=deviation, explain=explain)

    def score_encoded(self, crowd: Floats, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Scores:
        """The same for candidates that the model has encoded already."""
        return self.support.score_encoded(crowd, encoded, deviation=deviation, explain=explain)

    def _place_of(self, event: str) -> int | None:
        return next((place for place, moment in enumerate(self._moments) if moment.id == event), None)
