"""Where live users' events are kept: one protocol, a SQLite file by default, Redis for several hosts."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from resus.errors import ConfigError, DataError

Outcome = Literal["added", "known", "corrected", "too old"]
MOST_IN_A_BATCH = 1000  # events
PLACES = "PATH, sqlite:PATH, redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:/SOCKET?db=DB"


@dataclass(frozen=True)
class Event:
    """What a user did and when; `features` are raw values by field name, as JSON knows them."""

    id: str
    time: float
    label: float
    features: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, value in (("time", self.time), ("label", self.label)):
            if not math.isfinite(value):
                raise DataError(f"event {self.id!r}: {name} is {value}; give a finite number")

    def features_as_json(self) -> str:
        try:
            return json.dumps(dict(self.features), allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise DataError(f"event {self.id!r}: its features are not JSON ({error}); mend them") from None


@dataclass(frozen=True)
class UserRecord:
    """A user's latest events by time and then by id, the oldest first; version 0 is a user without any."""

    version: int
    events: tuple[Event, ...]


class EventStore(Protocol):
    """Each call is one atomic transaction, durable when it returns; any thread and any process may call.

    A user is known while an event of theirs is kept; only the latest `capacity` events by (time, id) are, in whatever
    order they came. What was deleted is in no answer from then on; each store says when its bytes leave the disk.
    """

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[Outcome]:
        """All (user, event) of a batch or none, at most `MOST_IN_A_BATCH`. An id that its user has already is the same
        event again: "known", or "corrected" where the label differs; an event before all those of a full user is
        "too old" and left out."""

    def version(self, user: str) -> int:
        """Grows with every change and is never given twice, not even after a deletion; 0 for an unknown user."""

    def read(self, user: str) -> UserRecord: ...

    def forget(self, user: str, event_id: str) -> bool:
        """As if the event had never been; False where there is none."""

    def delete(self, user: str) -> bool:
        """Leaves nothing of the user; False where there is none."""

    def users(self) -> int: ...

    def close(self) -> None: ...


def refuse_too_many(batch: Sequence[tuple[str, Event]]) -> None:
    if len(batch) > MOST_IN_A_BATCH:
        raise DataError(f"a batch of {len(batch)} events is too large: send at most {MOST_IN_A_BATCH} at a time")


def open_store(url: str, *, capacity: int) -> EventStore:
    """The store at one of `PLACES`; `?durable=no` takes a Redis that may lose what it has acknowledged."""
    from resus.serving.store.sqlite import SqliteStore  # the stores import this module

    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", url)
    scheme = found[1].lower() if found else "sqlite"
    if scheme in ("redis", "rediss", "unix"):
        try:
            from resus.serving.store.redis import RedisStore
        except ModuleNotFoundError as error:
            if error.name != "redis":
                raise
            raise ConfigError("a Redis store needs the redis package: pip install 'resus[redis]'") from None
        return RedisStore(url, capacity=capacity)
    path = url[found.end() :] if found else url
    if scheme != "sqlite" or not path:
        raise ConfigError(f"'{scheme}:' is no place for a store: write {PLACES}")
    return SqliteStore(Path(path), capacity=capacity)
