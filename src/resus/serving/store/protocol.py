"""Events of live users, and what every store of them promises."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from resus.errors import DataError
from resus.serving.limits import MAX_EVENTS

TURN_SECONDS = 30.0  # that a process may be silent before another one deletes old events
EventStatus = Literal["added", "known", "corrected", "too old"]


class Moment(NamedTuple):
    """The order of a user's events: by time, then by id, whatever order they arrive in."""

    time: float
    id: str


@dataclass(frozen=True)
class Event:
    """What a user did and when. `features` maps field names to raw JSON values."""

    id: str
    time: float
    label: float
    features: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, value in (("time", self.time), ("label", self.label)):
            if not math.isfinite(value):
                raise DataError(f"event {self.id!r}: {name} is {value}; give a finite number")

    @property
    def moment(self) -> Moment:
        return Moment(self.time, self.id)

    def features_as_json(self) -> str:
        return as_json(self.features, f"event {self.id!r}: its features")


def as_json(fields: Mapping[str, Any], what: str) -> str:
    """Fields as a store keeps them; DataError if they are not JSON."""
    try:
        return json.dumps(dict(fields), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are not JSON ({error}); correct them") from None


@dataclass(frozen=True)
class UserRecord:
    """A user's latest events by `Moment`, oldest first, and profile. A user who has neither has version 0."""

    version: int
    events: tuple[Event, ...]
    profile: Mapping[str, Any] = field(default_factory=dict)


class EventStore(Protocol):
    """Each call is one atomic transaction, durable when it returns. Any thread and any process may call.

    A store knows a user as long as it keeps an event or a profile of theirs. It keeps the latest `capacity` events by
    `Moment`, in whatever order they arrive. Deleted events and profiles appear in no later answer; each store documents
    when their bytes leave the disk. A store that cannot do what it promises raises a `StorageError`.
    """

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[EventStatus]:
        """Add all (user, event) pairs of a batch, at most `MAX_EVENTS`, or none.

        An id that the user already has is the same event again: "known", or "corrected" if its label or time differs.
        An event that is older than all events of a full user is "too old" and is not kept.
        """

    def version(self, user: str) -> int:
        """Grows with every change and never repeats, not even after a deletion; 0 for an unknown user."""

    def read(self, user: str) -> UserRecord: ...

    def set_profile(self, user: str, profile: Mapping[str, Any]) -> None:
        """Replace the fields that describe a user; without any, the user has no profile."""

    def forget(self, user: str, event_id: str) -> bool:
        """Delete one event; False if there is none."""

    def delete(self, user: str) -> bool:
        """Delete everything about a user; False if there is nothing."""

    def users(self) -> int: ...

    def close(self) -> None: ...


class Added(NamedTuple):
    """What became of an event, and the versions of its user before and after it.

    Both are 0 unless the event is the only change between them, of a user with at most `capacity` events.
    """

    status: EventStatus
    before: int = 0
    after: int = 0


@runtime_checkable
class TracedStore(Protocol):
    """A store that says where an event took its user, so that a live user can follow without reading all events."""

    def add_traced(self, batch: Sequence[tuple[str, Event]]) -> list[Added]:
        """The same as `add`, with versions."""


def add_traced(store: EventStore, batch: Sequence[tuple[str, Event]]) -> list[Added]:
    """Add a batch to any store."""
    return store.add_traced(batch) if isinstance(store, TracedStore) else [Added(one) for one in store.add(batch)]


@dataclass(frozen=True)
class Bulk:
    """Many events in columns: by user, the events of a user by `Moment`, each id of a user once.

    `features` are those of `Event.features_as_json`.
    """

    users: Sequence[str]
    ids: Sequence[str]
    times: Sequence[float]
    labels: Sequence[float]
    features: Sequence[str]

    def __len__(self) -> int:
        return len(self.users)

    def runs(self) -> Iterator[tuple[str, int, int]]:
        """Each user, and where the user's events begin and end."""
        start = 0
        for user, its in itertools.groupby(self.users):
            end = start + sum(1 for _ in its)
            yield user, start, end
            start = end

    def event(self, place: int) -> Event:
        return Event(self.ids[place], self.times[place], self.labels[place], json.loads(self.features[place]))


@runtime_checkable
class BulkStore(Protocol):
    """A store that takes many events faster than batch by batch."""

    def add_bulk(self, bulk: Bulk) -> Counter[EventStatus]:
        """What `add` does with all of these events. It may commit some of them before the others.

        An event that a later one of the same call pushes out counts as "too old".
        """

    def bulk_order(self, users: Sequence[str]) -> Sequence[int]:
        """A number for each user. Bulks are added fastest in the order of these numbers; any order is right."""


def bulk_order(store: EventStore, users: Sequence[str]) -> Sequence[int]:
    """The same for any store."""
    return store.bulk_order(users) if isinstance(store, BulkStore) else [0] * len(users)


def add_bulk(store: EventStore, bulk: Bulk) -> Counter[EventStatus]:
    """Add many events to any store."""
    if isinstance(store, BulkStore):
        return store.add_bulk(bulk)
    found: Counter[EventStatus] = Counter()
    for start in range(0, len(bulk), MAX_EVENTS):
        places = range(start, min(start + MAX_EVENTS, len(bulk)))
        found.update(store.add([(bulk.users[place], bulk.event(place)) for place in places]))
    return found


class Expired(NamedTuple):
    """What a step of an expiry deleted, and where the next one begins; "" after the last."""

    events: int
    users: int
    cursor: str


@runtime_checkable
class ExpiringStore(Protocol):
    """A store that deletes old events of all users, step by step. Each step is so small that nobody waits for it."""

    def expire(self, before: float, cursor: str = "") -> Expired:
        """Delete some of the events with an earlier time, and users, with their profiles, who thereby lose their last.

        A user who never had an event stays. The bytes leave the disk after the last step, as those of deleted users.
        """

    def is_turn_to_expire(self) -> bool:
        """Whether this process is the one of all that delete old events; it becomes it if there is none. For the call
        to hold, it must be repeated at least every `TURN_SECONDS`."""


@runtime_checkable
class PromptStore(Protocol):
    """A store on this host, which can say the version of a user without waiting, unless it is busy."""

    def version_at_once(self, user: str) -> int | None:
        """What `version` says; None if it would have to wait."""


def version_at_once(store: EventStore) -> Callable[[str], int | None]:
    """How any store says the version of a user without waiting; most say None."""
    return store.version_at_once if isinstance(store, PromptStore) else lambda _user: None


@runtime_checkable
class CheckedStore(Protocol):
    """A store that can say whether it works now. `/readyz` asks it; of other stores it reads a version."""

    def check(self) -> None:
        """Raise a `StorageError` unless events can be read and written."""


def check_store(store: EventStore) -> None:
    """Raise a `StorageError` if the store does not work."""
    if isinstance(store, CheckedStore):
        store.check()
    else:
        store.version("")


def check_batch(batch: Sequence[tuple[str, Event]]) -> None:
    if len(batch) > MAX_EVENTS:
        raise DataError(f"a batch of {len(batch)} events is too large: send at most {MAX_EVENTS} at a time")
