"""What is readable in a store, whatever happened to it.

A SQLite file is read through its tables first. If these are damaged, its bytes are searched as well: each event is
whole by itself and has a checksum.
"""

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any
from urllib.parse import quote

from resus.errors import StorageError
from resus.extras import need
from resus.serving.limits import MAX_EVENTS
from resus.serving.store import open_store
from resus.serving.store.directory import DamagedError, events_named
from resus.serving.store.protocol import Event
from resus.serving.store.slots import (
    APPLICATION,
    BEFORE,
    FORMAT,
    PROFILE_MARK,
    SLOT_MARK,
    unpacked,
    unpacked_profile,
)

EVERYTHING = 1 << 30  # events per user
SHOWN = 10  # findings of SQLite
Taker = Callable[[Sequence[tuple[str, Event]]], object]
ProfileTaker = Callable[[str, Mapping[str, Any]], object]
Found = tuple[str, Event | dict[str, Any]]  # an event or a profile, with its user


@dataclass
class Findings:
    """`problems` are sentences; without any, the store is whole."""

    events: int = 0
    profiles: int = 0
    users: int = 0
    unreadable: int = 0
    outside: int = 0
    problems: list[str] = field(default_factory=list)


def check(
    place: str, take: Taker = lambda _: None, take_profile: ProfileTaker = lambda _user, _profile: None
) -> Findings:
    """Read everything that is readable in a store; hand its events to `take`, in batches, and its profiles on."""
    takers = _Takers(take, take_profile)
    if re.match(r"(redis|rediss|unix):", place):
        return _check_redis(place, takers)
    path = Path(place.removeprefix("sqlite:"))
    if not path.is_file():
        raise StorageError(f"{path} is not a file: name the SQLite file of a store, or the address of a Redis")
    return _check_sqlite(path, takers)


def salvage(place: str, out: Path) -> Findings:
    """Copy everything that is readable in a store to a new SQLite store."""
    if out.exists():
        raise StorageError(f"{out} exists: name a new file")
    with contextlib.closing(open_store(str(out), capacity=EVERYTHING)) as store:
        return check(place, store.add, store.set_profile)


def _check_sqlite(path: Path, takers: "_Takers") -> Findings:
    found, seen = Findings(), takers.seen
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
        takers.hand_over(_in_tables(connection, found))
        if not found.problems:
            with _as_problem(found):
                named = sum(events_named(row) for (row,) in connection.execute("SELECT entries FROM directory"))
                if named != len(seen):
                    found.problems.append(f"its users have {named:,} events")
    if found.problems:
        found.outside = -len(seen)
        takers.hand_over(_in_bytes(path))
        found.outside += len(seen)
    takers.count(found)
    return found


def _in_tables(connection: sqlite3.Connection, found: Findings) -> Iterator[Found]:
    last = number = 0
    with _as_problem(found):
        marks = [connection.execute(f"PRAGMA {mark}").fetchall()[0][0] for mark in ("application_id", "user_version")]
        if marks not in ([APPLICATION, FORMAT], [APPLICATION, BEFORE]):
            found.problems.append("it is not marked as a store of this version of resus")
        connection.execute("BEGIN")  # what a running service writes meanwhile does not count
        told = [words for (words,) in connection.execute(f"PRAGMA integrity_check({SHOWN})")]
        found.problems += [on_one_line for words in told if (on_one_line := " ".join(words.split())) != "ok"]
        (last,) = connection.execute("SELECT max(number) FROM slots").fetchall()[0]
    while number < (last or 0):
        try:
            for row in connection.execute("SELECT number, body FROM slots WHERE number > ? ORDER BY number", (number,)):
                number, body = row
                if isinstance(body, bytes) and not body.strip(b"\0"):
                    continue
                try:
                    event = _either(body)
                except (DamagedError, ValueError):
                    found.unreadable += 1
                    continue
                yield event
            break
        except sqlite3.Error:
            number += 1
    if found.unreadable:
        found.problems.append(f"{found.unreadable:,} events do not match their checksums")


def _either(body: bytes) -> Found:
    return unpacked_profile(body) if body[: len(PROFILE_MARK)] == PROFILE_MARK else unpacked(body)


def _in_bytes(path: Path) -> Iterator[Found]:
    """Events and profiles anywhere in the file; one that is longer than a page cannot be found this way."""
    if not path.stat().st_size:
        return
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
        for mark in (SLOT_MARK, PROFILE_MARK):
            at = content.find(mark)
            while at >= 0:
                with contextlib.suppress(DamagedError, ValueError):
                    yield _either(content[at : at + (1 << 16)])
                at = content.find(mark, at + 1)


def _check_redis(url: str, takers: "_Takers") -> Findings:
    need("redis", "a store in Redis")
    from resus.serving.store.redis import RedisStore

    found = Findings()
    with contextlib.closing(RedisStore(url, capacity=EVERYTHING)) as store:

        def readable() -> Iterator[Found]:
            for user, event in store.everything():
                if event is None:
                    found.unreadable += 1
                else:
                    yield user, event

        takers.hand_over(readable())
    if found.unreadable:
        found.problems.append(f"{found.unreadable:,} events cannot be read")
    takers.count(found)
    return found


@dataclass
class _Takers:
    """Who takes what was found, and what was found so far."""

    take: Taker
    take_profile: ProfileTaker
    seen: set[tuple[str, str]] = field(default_factory=set)
    described: set[str] = field(default_factory=set)

    def hand_over(self, found: Iterator[Found]) -> None:
        """Hand over what was not seen before, the events in batches."""
        batch: list[tuple[str, Event]] = []
        for user, event in found:
            if not isinstance(event, Event):
                if user not in self.described:
                    self.described.add(user)
                    self.take_profile(user, event)
                continue
            if (user, event.id) in self.seen:
                continue
            self.seen.add((user, event.id))
            batch.append((user, event))
            if len(batch) == MAX_EVENTS:
                self.take(batch)
                batch = []
        if batch:
            self.take(batch)

    def count(self, found: Findings) -> None:
        found.events, found.profiles = len(self.seen), len(self.described)
        found.users = len({user for user, _ in self.seen} | self.described)


@contextlib.contextmanager
def _as_problem(found: Findings) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, DamagedError) as error:
        found.problems.append(str(error))
