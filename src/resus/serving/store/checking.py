"""What is readable in a store, whatever happened to it.

A SQLite file is read through its tables first. If these are damaged, its bytes are searched as well: each event is
whole by itself and has a checksum.
"""

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from urllib.parse import quote

from resus.errors import StorageError
from resus.extras import need
from resus.serving.limits import MAX_EVENTS
from resus.serving.store import open_store
from resus.serving.store.protocol import Event
from resus.serving.store.slots import APPLICATION, FORMAT, SLOT_MARK, DamagedError, events_named, unpacked

EVERYTHING = 1 << 30  # events per user
SHOWN = 10  # findings of SQLite
Taker = Callable[[Sequence[tuple[str, Event]]], object]


@dataclass
class Findings:
    """`problems` are sentences; without any, the store is whole."""

    events: int = 0
    users: int = 0
    unreadable: int = 0
    outside: int = 0
    problems: list[str] = field(default_factory=list)


def check(place: str, take: Taker = lambda _: None) -> Findings:
    """Read everything that is readable in a store, and hand it to `take` in batches."""
    if re.match(r"(redis|rediss|unix):", place):
        return _check_redis(place, take)
    path = Path(place.removeprefix("sqlite:"))
    if not path.is_file():
        raise StorageError(f"{path} is not a file: name the SQLite file of a store, or the address of a Redis")
    return _check_sqlite(path, take)


def salvage(place: str, out: Path) -> Findings:
    """Copy everything that is readable in a store to a new SQLite store."""
    if out.exists():
        raise StorageError(f"{out} exists: name a new file")
    with contextlib.closing(open_store(str(out), capacity=EVERYTHING)) as store:
        return check(place, store.add)


def _check_sqlite(path: Path, take: Taker) -> Findings:
    found, seen = Findings(), set[tuple[str, str]]()
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
        _hand_over(_in_tables(connection, found), take, seen)
        if not found.problems:
            with _as_problem(found):
                named = sum(events_named(row) for (row,) in connection.execute("SELECT entries FROM directory"))
                if named != len(seen):
                    found.problems.append(f"its users have {named:,} events")
    if found.problems:
        found.outside = -len(seen)
        _hand_over(_in_bytes(path), take, seen)
        found.outside += len(seen)
    found.events, found.users = len(seen), len({user for user, _ in seen})
    return found


def _in_tables(connection: sqlite3.Connection, found: Findings) -> Iterator[tuple[str, Event]]:
    last = number = 0
    with _as_problem(found):
        marks = [connection.execute(f"PRAGMA {mark}").fetchall()[0][0] for mark in ("application_id", "user_version")]
        if marks != [APPLICATION, FORMAT]:
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
                    event = unpacked(body)
                except (DamagedError, ValueError):
                    found.unreadable += 1
                    continue
                yield event
            break
        except sqlite3.Error:
            number += 1
    if found.unreadable:
        found.problems.append(f"{found.unreadable:,} events do not match their checksums")


def _in_bytes(path: Path) -> Iterator[tuple[str, Event]]:
    """Events anywhere in the file; one that is longer than a page cannot be found this way."""
    if not path.stat().st_size:
        return
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
        at = content.find(SLOT_MARK)
        while at >= 0:
            with contextlib.suppress(DamagedError, ValueError):
                yield unpacked(content[at : at + (1 << 16)])
            at = content.find(SLOT_MARK, at + 1)


def _check_redis(url: str, take: Taker) -> Findings:
    need("redis", "a store in Redis")
    from resus.serving.store.redis import RedisStore

    found, seen = Findings(), set[tuple[str, str]]()
    with contextlib.closing(RedisStore(url, capacity=EVERYTHING)) as store:

        def readable() -> Iterator[tuple[str, Event]]:
            for user, event in store.everything():
                if event is None:
                    found.unreadable += 1
                else:
                    yield user, event

        _hand_over(readable(), take, seen)
    if found.unreadable:
        found.problems.append(f"{found.unreadable:,} events cannot be read")
    found.events, found.users = len(seen), len({user for user, _ in seen})
    return found


def _hand_over(events: Iterator[tuple[str, Event]], take: Taker, seen: set[tuple[str, str]]) -> None:
    """Hand over in batches what was not seen before."""
    batch: list[tuple[str, Event]] = []
    for user, event in events:
        if (user, event.id) in seen:
            continue
        seen.add((user, event.id))
        batch.append((user, event))
        if len(batch) == MAX_EVENTS:
            take(batch)
            batch = []
    if batch:
        take(batch)


@contextlib.contextmanager
def _as_problem(found: Findings) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, DamagedError) as error:
        found.problems.append(str(error))
