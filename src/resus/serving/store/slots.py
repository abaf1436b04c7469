"""How events lie in a SQLite file, so that deleting a user costs what the user has and leaves no byte behind.

A B-tree that moves a row to another page leaves a copy of it in the old page, even with `secure_delete`. So nothing
that a user said is ever moved:

- `slots` holds the events and profiles. A slot is appended at the end or overwritten in place by as many bytes. SQLite
  moves no row of such a table. An unused slot holds zeros and is used again by an event or profile of its size.
- `directory` maps a keyed hash of the user's id to a number, see `directory.py`.
- The other tables hold only numbers, times and hashes that nothing connects with a user once the directory has
  forgotten the user.

Each event and each row of the directory has a checksum. An event is whole by itself, so that it can be salvaged.
"""

import json
import secrets
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from resus.serving.store.directory import DamagedError, Directory, Entry
from resus.serving.store.protocol import Added, Event, EventStatus, Moment, UserRecord, as_json

PAGE = 4096
APPLICATION = 0x72657375  # marks a file as a store of resus
FORMAT = 3
BEFORE = 2  # the format without profiles
PROFILES = (
    "CREATE TABLE profiles (user INTEGER PRIMARY KEY, slot INTEGER NOT NULL) STRICT",
    f"PRAGMA user_version = {FORMAT}",
)
SCHEMA = (
    "CREATE TABLE slots (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
    "CREATE TABLE unused (size INTEGER, slot INTEGER, PRIMARY KEY (size, slot)) STRICT, WITHOUT ROWID",
    "CREATE TABLE directory (number INTEGER PRIMARY KEY, entries BLOB NOT NULL) STRICT",
    """CREATE TABLE events (
        user INTEGER NOT NULL, time REAL NOT NULL, slot INTEGER NOT NULL, mark INTEGER NOT NULL,
        PRIMARY KEY (user, time, slot)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX marks ON events (user, mark)",
    # `version` and `number` are the last ones given; `unwiped` is the version of a deletion whose bytes may still be in
    # the log, else 0; `key` is that of the hashes
    """CREATE TABLE latest (
        version INTEGER NOT NULL, number INTEGER NOT NULL, users INTEGER NOT NULL, unwiped INTEGER NOT NULL,
        key BLOB NOT NULL
    ) STRICT""",
    f"PRAGMA application_id = {APPLICATION}",
    *PROFILES,
)

SLOT_MARK = b"resE"
PROFILE_MARK = b"resP"
_HEAD = struct.Struct("<4sIIHHdd")  # mark, checksum, length, lengths of the user's and the event's id, time, label
_AFTER_CHECKSUM = struct.Struct("<IHHdd")


@dataclass(frozen=True)
class Latest:
    """What the file knows about itself."""

    version: int
    number: int
    users: int
    unwiped: int


@dataclass(frozen=True)
class _Row:
    """An event in the table of events."""

    time: float
    slot: int


def create(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file."""
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO latest VALUES (0, 0, 0, 0, ?)", (secrets.token_bytes(32),))


def add_profiles(connection: sqlite3.Connection) -> None:
    """Bring a file of the format before to this one."""
    for statement in PROFILES:
        connection.execute(statement)


def packed(user: str, event_id: str, time: float, label: float, features: str, kind: bytes = SLOT_MARK) -> bytes:
    """An event as bytes of one of a few sizes."""
    named, id_, rest = user.encode(), event_id.encode(), features.encode()
    length = _HEAD.size + len(named) + len(id_) + len(rest)
    # adding 0.0 turns -0.0 into 0.0
    content = _AFTER_CHECKSUM.pack(length, len(named), len(id_), time + 0.0, label + 0.0) + named + id_ + rest
    step = 32 if length <= 512 else 512
    return kind + zlib.crc32(content).to_bytes(4, "little") + content + bytes(-length % step)


def packed_profile(user: str, fields: str) -> bytes:
    """A profile as bytes, laid out like an event."""
    return packed(user, "", 0.0, 0.0, fields, PROFILE_MARK)


def unpacked_profile(body: Any) -> tuple[str, dict[str, Any]]:
    """The user and the fields of the profile in a slot."""
    user, found = unpacked(body, PROFILE_MARK)
    return user, dict(found.features)


def unpacked(body: Any, kind: bytes = SLOT_MARK) -> tuple[str, Event]:
    """The user and the event in a slot."""
    try:
        mark, checksum, length, user_length, id_length, time, label = _HEAD.unpack_from(body)
        if mark != kind or not _HEAD.size <= length <= len(body) or zlib.crc32(body[8:length]) != checksum:
            raise DamagedError("an event does not match its checksum")
    except (struct.error, TypeError):
        raise DamagedError("an event does not match its checksum") from None
    id_at = _HEAD.size + user_length
    features_at = id_at + id_length
    user, id_ = body[_HEAD.size : id_at].decode(), body[id_at:features_at].decode()
    return user, Event(id_, time, label, json.loads(body[features_at:length]))


class Slots:
    """The tables of one connection, within a transaction of the caller."""

    def __init__(self, connection: sqlite3.Connection, *, capacity: int) -> None:
        self._run, self._run_all = connection.execute, connection.executemany
        self.capacity = capacity
        self.directory = Directory(connection.execute)
        self._key = _one(self._run("SELECT key FROM latest").fetchall(), bytes)
        self.latest = self._written = self._read_latest()

    def begin(self) -> None:
        """Another process may have written since."""
        self.latest = self._written = self._read_latest()

    def end(self) -> None:
        """Write what changed about the file itself."""
        if self.latest != self._written:
            now = self.latest
            self._run(
                "UPDATE latest SET version = ?, number = ?, users = ?, unwiped = ?",
                (now.version, now.number, now.users, now.unwiped),
            )

    def add(self, user: str, event: Event, features: str) -> Added:
        hashed = self.hash(user)
        entry = self.directory.find(hashed)
        status = self._added(hashed, entry, user, event, features)
        if entry is None or entry.events > self.capacity or status not in ("added", "corrected"):
            return Added(status)
        return Added(status, entry.version, self.latest.version)

    def _added(self, hashed: bytes, entry: Entry | None, user: str, event: Event, features: str) -> EventStatus:
        number = entry.number if entry else self.latest.number + 1
        mark = self._mark(number, event.id)
        if entry:
            found = self._known(number, mark, event.id)
            if found:
                return self._corrected(entry, user, event, *found)
            pushed_out = self._pushed_out(entry, event.moment)
            if pushed_out is None:
                return "too old"
            for row in pushed_out:
                self._remove(number, row)
            self.change(entry, entry.events - len(pushed_out) + 1)
        else:
            self.enter(hashed, number, events=1)
        slot = self._store(packed(user, event.id, event.time, event.label, features))
        self._run("INSERT INTO events VALUES (?, ?, ?, ?)", (number, event.time, slot, mark))
        return "added"

    def version(self, user: str) -> int:
        entry = self.find(user)
        return entry.version if entry else 0

    def read(self, user: str) -> UserRecord:
        entry = self.find(user)
        if not entry:
            return UserRecord(0, ())
        bodies = self._run(
            "SELECT body FROM events JOIN slots ON number = slot WHERE user = ? ORDER BY time DESC", (entry.number,)
        )
        events = []
        for (body,) in bodies:
            owner, event = unpacked(body)
            if owner != user:
                raise DamagedError("an event belongs to another user")
            events.append(event)
        if len(events) != entry.events:
            raise DamagedError("events of a user are gone")
        events.sort(key=lambda event: event.moment)
        return UserRecord(entry.version, tuple(events[-self.capacity :]), self._profile(user, entry.number)[1])

    def set_profile(self, user: str, fields: str | None) -> None:
        """`fields` as JSON; None for no profile."""
        hashed = self.hash(user)
        entry = self.directory.find(hashed)
        slot, before = self._profile(user, entry.number) if entry else (None, {})
        if fields == (as_json(before, "the fields of a profile") if before else None):
            return
        number = entry.number if entry else self.latest.number + 1
        if slot is not None:
            self._clear(slot)
            self._run("DELETE FROM profiles WHERE user = ?", (number,))
        if entry is None:
            self.enter(hashed, number, events=0)
        elif fields or entry.events:
            self.change(entry, entry.events)
        else:
            self._leave(entry)
        if fields:
            self._run("INSERT INTO profiles VALUES (?, ?)", (number, self._store(packed_profile(user, fields))))
        else:
            self.latest = replace(self.latest, unwiped=self.next_version())

    def forget(self, user: str, event_id: str) -> bool:
        entry = self.find(user)
        if not entry:
            return False
        found = self._known(entry.number, self._mark(entry.number, event_id), event_id)
        if not found:
            return False
        self._remove(entry.number, found[0])
        if entry.events > 1 or self._profile_slot(entry.number) is not None:
            self.change(entry, entry.events - 1)
        else:
            self._leave(entry)
        self.latest = replace(self.latest, unwiped=self.next_version())
        return True

    def delete(self, user: str) -> bool:
        entry = self.find(user)
        if not entry:
            return False
        for row in self._rows("WHERE user = ?", entry.number):
            self._clear(row.slot)
        self._run("DELETE FROM events WHERE user = ?", (entry.number,))
        profile = self._profile_slot(entry.number)
        if profile is not None:
            self._clear(profile)
            self._run("DELETE FROM profiles WHERE user = ?", (entry.number,))
        self._leave(entry)
        self.latest = replace(self.latest, unwiped=self.next_version())
        return True

    def oldest(self, after: int, before: float, *, look: int) -> tuple[list[str], int]:
        """Of the next `look` users by number, those with an event before a time, and where to go on; 0 at the end."""
        found, number = list[str](), after
        for _ in range(look):
            rows = self._run(
                "SELECT user, time, slot FROM events WHERE user > ? ORDER BY user, time LIMIT 1", (number,)
            ).fetchall()
            if not rows:
                return found, 0
            number, time, slot = rows[0]
            if time < before:
                found.append(unpacked(self._body(slot))[0])
        return found, number

    def expire(self, users: Sequence[str], before: float, *, limit: int) -> tuple[int, int, int]:
        """Delete up to `limit` events of these users before a time, the oldest first; and who has no others.

        How many of the users need no further call, and the numbers of events and of users that were deleted.
        """
        done = events = gone = 0
        with self.directory.together():
            for user in users:
                deleted, is_gone = self._expire(user, before, limit - events)
                events, gone = events + deleted, gone + is_gone
                if events == limit and not is_gone:
                    break
                done += 1
        if events:
            self.latest = replace(self.latest, unwiped=self.next_version())
        return done, events, gone

    def _expire(self, user: str, before: float, limit: int) -> tuple[int, bool]:
        entry = self.find(user)
        if not entry:
            return 0, False
        rows = self._rows("WHERE user = ? AND time < ? ORDER BY time LIMIT ?", entry.number, before, limit)
        if rows and len(rows) == entry.events:
            return len(rows), self.delete(user)
        for row in rows:
            self._remove(entry.number, row)
        if rows:
            self.change(entry, entry.events - len(rows))
        return len(rows), False

    def place(self, bodies: Sequence[bytes]) -> Sequence[int]:
        """The slots in which packed events are stored: unused ones of their sizes first, then new ones."""
        reused = self._reused(bodies)
        (last,) = self._run("SELECT ifnull(max(number), 0) FROM slots").fetchall()[0]
        fresh = range(last + 1, last + 1 + len(bodies) - len(reused))
        new = [body for place, body in enumerate(bodies) if place not in reused] if reused else bodies
        self._run_all("INSERT INTO slots VALUES (?, ?)", zip(fresh, new, strict=True))
        if not reused:
            return fresh
        numbers = iter(fresh)
        return [reused[place] if place in reused else next(numbers) for place in range(len(bodies))]

    def _reused(self, bodies: Sequence[bytes]) -> dict[int, int]:
        """Overwrite unused slots: by the place of a body, its slot."""
        reused: dict[int, int] = {}
        if not self._run("SELECT 1 FROM unused LIMIT 1").fetchall():
            return reused
        by_size: dict[int, list[int]] = {}
        for place, body in enumerate(bodies):
            by_size.setdefault(len(body), []).append(place)
        for size, places in by_size.items():
            unused = self._run("SELECT slot FROM unused WHERE size = ? LIMIT ?", (size, len(places))).fetchall()
            for place, (slot,) in zip(places, unused, strict=False):
                self._run("DELETE FROM unused WHERE size = ? AND slot = ?", (size, slot))
                self._overwrite(slot, bodies[place])
                reused[place] = slot
        return reused

    def index(self, rows: Iterable[tuple[int, float, int, int]]) -> None:
        """Write user, time, slot and mark of events."""
        self._run_all("INSERT INTO events VALUES (?, ?, ?, ?)", rows)

    def has_any(self, number: int, marks: Sequence[int]) -> bool:
        """Whether a user may have one of these events."""
        known = self._run("SELECT mark FROM events WHERE user = ?", (number,)).fetchall()
        return not {mark for (mark,) in known}.isdisjoint(marks)

    def wiped(self, version: int) -> None:
        """Nothing that was deleted up to a version is left in the log."""
        if self.latest.unwiped == version:
            self.latest = replace(self.latest, unwiped=0)

    def _read_latest(self) -> Latest:
        rows = self._run("SELECT version, number, users, unwiped FROM latest").fetchall()
        if len(rows) != 1 or not all(isinstance(value, int) for value in rows[0]):
            raise DamagedError("its version is missing")
        return Latest(*rows[0])

    def next_version(self) -> int:
        self.latest = replace(self.latest, version=self.latest.version + 1)
        return self.latest.version

    def find(self, user: str) -> Entry | None:
        return self.directory.find(self.hash(user))

    def enter(self, hashed: bytes, number: int, *, events: int) -> None:
        """Give a new user a number, the next one, and a version."""
        self.directory.enter(hashed, number, events=events, version=self.next_version())
        self.latest = replace(self.latest, number=number, users=self.latest.users + 1)

    def change(self, entry: Entry, events: int) -> None:
        """Give a user a new version."""
        self.directory.change(entry, events=events, version=self.next_version())

    def _leave(self, entry: Entry) -> None:
        self.directory.leave(entry)
        self.latest = replace(self.latest, users=self.latest.users - 1)

    def hash(self, user: str) -> bytes:
        return blake2b(user.encode(), key=self._key, digest_size=16).digest()

    def _mark(self, number: int, event_id: str) -> int:
        return self.marks(number, [event_id])[0]

    def marks(self, number: int, event_ids: Sequence[str]) -> list[int]:
        """The hashes of ids of events, which differ from user to user."""
        empty = blake2b(key=self._key, salt=number.to_bytes(8, "little"), digest_size=4)
        digests = []
        for event_id in event_ids:
            hashed = empty.copy()
            hashed.update(event_id.encode())
            digests.append(hashed.digest())
        return list(struct.unpack(f"<{len(digests)}I", b"".join(digests)))

    def _known(self, number: int, mark: int, event_id: str) -> tuple[_Row, Event] | None:
        for row in self._rows("WHERE user = ? AND mark = ?", number, mark):
            event = self._event(row.slot)
            if event.id == event_id:
                return row, event
        return None

    def _corrected(self, entry: Entry, user: str, new: Event, row: _Row, old: Event) -> EventStatus:
        if (old.time, old.label) == (new.time, new.label):
            return "known"
        moved = replace(old, time=new.time, label=new.label)
        self._overwrite(row.slot, packed(user, moved.id, moved.time, moved.label, moved.features_as_json()))
        self._run(
            "UPDATE events SET time = ? WHERE user = ? AND time = ? AND slot = ?",
            (new.time, entry.number, row.time, row.slot),
        )
        self.change(entry, entry.events)
        return "corrected"

    def _pushed_out(self, entry: Entry, new: Moment) -> list[_Row] | None:
        """What a new event pushes out; None if the new event is older than all that a full user keeps."""
        surplus = entry.events - self.capacity
        if surplus < 0:
            return []
        oldest = self._rows("WHERE user = ? ORDER BY time LIMIT ?", entry.number, surplus + 2)
        if len(oldest) <= surplus:
            raise DamagedError("events of a user are gone")
        bound = oldest[surplus].time
        if new.time < bound:
            return None
        if new.time > bound and (len(oldest) == surplus + 1 or oldest[-1].time > bound):
            return oldest[: surplus + 1]
        rows = self._rows("WHERE user = ? AND time <= ?", entry.number, bound)  # ids decide between events of one time
        moments = sorted((Moment(row.time, self._event(row.slot).id), row.slot) for row in rows)
        if new < moments[surplus][0]:
            return None
        return [_Row(moment.time, slot) for moment, slot in moments[: surplus + 1]]

    def _remove(self, number: int, row: _Row) -> None:
        self._clear(row.slot)
        self._run("DELETE FROM events WHERE user = ? AND time = ? AND slot = ?", (number, row.time, row.slot))

    def _rows(self, where: str, *values: float) -> list[_Row]:
        query = f"SELECT time, slot FROM events {where}"  # noqa: S608  # no value is in the text
        rows = [_Row(*found) for found in self._run(query, values).fetchall()]
        if not all(isinstance(row.time, float) and isinstance(row.slot, int) for row in rows):
            raise DamagedError("the place of an event is wrong")
        return rows

    def _event(self, slot: int) -> Event:
        return unpacked(self._body(slot))[1]

    def _body(self, slot: int) -> bytes:
        return _one(self._run("SELECT body FROM slots WHERE number = ?", (slot,)).fetchall(), bytes)

    def _profile_slot(self, number: int) -> int | None:
        found = self._run("SELECT slot FROM profiles WHERE user = ?", (number,)).fetchall()
        return int(found[0][0]) if found else None

    def _profile(self, user: str, number: int) -> tuple[int | None, dict[str, Any]]:
        """The slot of a user's profile and what it holds."""
        slot = self._profile_slot(number)
        if slot is None:
            return None, {}
        owner, fields = unpacked_profile(self._body(slot))
        if owner != user:
            raise DamagedError("a profile belongs to another user")
        return slot, fields

    def _store(self, body: bytes) -> int:
        unused = self._run("SELECT slot FROM unused WHERE size = ? LIMIT 1", (len(body),)).fetchall()
        if not unused:
            return int(self._run("INSERT INTO slots (body) VALUES (?)", (body,)).lastrowid or 0)
        (slot,) = unused[0]
        self._run("DELETE FROM unused WHERE size = ? AND slot = ?", (len(body), slot))
        self._overwrite(slot, body)
        return int(slot)

    def _overwrite(self, slot: int, body: bytes) -> None:
        changed = self._run("UPDATE slots SET body = ? WHERE number = ? AND length(body) = ?", (body, slot, len(body)))
        if changed.rowcount != 1:
            raise DamagedError("an event is not where it should be")

    def _clear(self, slot: int) -> None:
        if self._run("UPDATE slots SET body = zeroblob(length(body)) WHERE number = ?", (slot,)).rowcount != 1:
            raise DamagedError("an event is not where it should be")
        self._run("INSERT INTO unused SELECT length(body), number FROM slots WHERE number = ?", (slot,))


def _one(rows: list[Any], kind: type[bytes]) -> bytes:
    if len(rows) != 1 or not isinstance(rows[0][0], kind):
        raise DamagedError("a row is missing or wrong")
    return rows[0][0]
