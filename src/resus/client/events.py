"""Events before they are sent: each gets an id and a time, and large batches are split."""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from resus.client.calls import Call, as_json
from resus.client.messages import EventResult, EventsAnswer, PostedEvent
from resus.errors import DataError, ServiceError

MAX_EVENTS = 1000  # that the service takes in one request
MAX_BYTES = (1 << 20) - 64  # of a request, without the brackets around the events
MAX_WARNINGS = 10
TICK = 1e-6  # seconds between events that are given without a time


def prepared(events: Iterable[PostedEvent | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Events with ids and times, so that sending one again is the same event. Those without a time stay in order."""
    if isinstance(events, Mapping):
        raise DataError("add_events takes a list of events: put the event into a list")
    now, ready = time.time(), []
    for place, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise DataError(f"events[{place}] is a {type(event).__name__}: give a dictionary with user, item and label")
        one: dict[str, Any] = dict(event)
        if one.get("id") is None:
            one["id"] = uuid.uuid4().hex
        if one.get("time") is None:
            one["time"] = now + TICK * place
        ready.append(one)
    return ready


@dataclass
class Batches:
    """The requests that store many events, one after the other, and what they were answered."""

    events: Sequence[dict[str, Any]]
    stored: int = 0
    results: list[EventResult] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def calls(self) -> Iterator[Call[EventsAnswer]]:
        """Each request within the bounds of the service."""
        waiting: list[bytes] = []
        size = 0
        for event in self.events:
            written = as_json(event)
            if waiting and (len(waiting) == MAX_EVENTS or size + len(written) > MAX_BYTES):
                yield _call(waiting)
                waiting, size = [], 0
            waiting.append(written)
            size += len(written) + 1
        if waiting:
            yield _call(waiting)

    def take(self, answer: EventsAnswer) -> None:
        self.stored += len(answer.results)
        self.results += answer.results
        self.warnings += [warning for warning in answer.warnings or [] if warning not in self.warnings]

    def failed(self, error: ServiceError) -> ServiceError:
        """The error, with the events that are not known to be stored: sending them again is safe."""
        error.unacknowledged = tuple(self.events[self.stored :])
        return error

    def answer(self) -> EventsAnswer:
        return EventsAnswer(results=self.results, warnings=self.warnings[:MAX_WARNINGS] or None)


def _call(written: Sequence[bytes]) -> Call[EventsAnswer]:
    return Call("POST", "/v1/events", EventsAnswer, body=b'{"events":[' + b",".join(written) + b"]}")
