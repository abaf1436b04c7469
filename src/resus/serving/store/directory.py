"""Where a user is in a SQLite file: rows of the directory map a keyed hash of the user's id to a number.

Each row fills a page of its own and keeps its size, so a row that moves is overwritten as a whole.
"""

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_ENTRY = struct.Struct("<16sIIQ")  # hash of the user's id, number, number of events, version
_ENTRIES = 124  # in a row of the directory, with its checksum more than half of a page
_BUCKETS = 2048  # a row of the directory holds one bucket; a full bucket continues at its number + `_BUCKETS`
_EMPTY = bytes(_ENTRY.size)


class DamagedError(Exception):
    """The file holds something that was not written into it."""


@dataclass(frozen=True)
class Entry:
    """Where the directory holds a user."""

    bucket: int
    at: int
    hashed: bytes
    number: int
    events: int
    version: int


class Directory:
    """The directory of one connection, within a transaction of the caller."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._held: dict[int, bytes | None] | None = None  # rows while they are changed together, without checksums
        self._changed: set[int] = set()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Read each row once, and write each that changes once, at the end."""
        self._held, self._changed = {}, set()
        try:
            yield
            for bucket in sorted(self._changed):
                self._store(bucket, self._held[bucket] or b"")
        finally:
            self._held = None

    def find(self, hashed: bytes) -> Entry | None:
        bucket = bucket_of(hashed)
        while (entries := self._entries(bucket)) is not None:
            at = entries.find(hashed)
            if at >= 0 and at % _ENTRY.size == 0:
                return Entry(bucket, at, *_ENTRY.unpack_from(entries, at))
            bucket += _BUCKETS
        return None

    def enter(self, hashed: bytes, number: int, *, events: int, version: int) -> None:
        bucket, entry = bucket_of(hashed), _ENTRY.pack(hashed, number, events, version)
        while (entries := self._entries(bucket)) is not None:
            at = _free_place(entries)
            if at >= 0:
                self._write(bucket, entries, at, entry)
                return
            bucket += _BUCKETS
        self._run("INSERT INTO directory VALUES (?, ?)", (bucket, _checked(_EMPTY * _ENTRIES)))
        self._write(bucket, _EMPTY * _ENTRIES, 0, entry)

    def change(self, entry: Entry, *, events: int, version: int) -> None:
        changed = _ENTRY.pack(entry.hashed, entry.number, events, version)
        self._write(entry.bucket, self._entries(entry.bucket) or b"", entry.at, changed)

    def leave(self, entry: Entry) -> None:
        self._write(entry.bucket, self._entries(entry.bucket) or b"", entry.at, _EMPTY)

    def _entries(self, bucket: int) -> bytes | None:
        if self._held is not None and bucket in self._held:
            return self._held[bucket]
        rows = self._run("SELECT entries FROM directory WHERE number = ?", (bucket,)).fetchall()
        entries = entries_in(rows[0][0]) if rows else None
        if self._held is not None:
            self._held[bucket] = entries
        return entries

    def _write(self, bucket: int, entries: bytes, at: int, entry: bytes) -> None:
        new = entries[:at] + entry + entries[at + len(entry) :]
        if self._held is not None:
            self._held[bucket] = new
            self._changed.add(bucket)
        else:
            self._store(bucket, new)

    def _store(self, bucket: int, entries: bytes) -> None:
        self._run("UPDATE directory SET entries = ? WHERE number = ?", (_checked(entries), bucket))


def entries_in(row: Any) -> bytes:
    """The entries in a row of the directory."""
    if not isinstance(row, bytes) or len(row) != _ENTRIES * _ENTRY.size + 4 or _checked(row[:-4]) != row:
        raise DamagedError("a part of the directory of users does not match its checksum")
    return row[:-4]


def events_named(row: Any) -> int:
    """The number of events of the users in a row of the directory."""
    return sum(events for _, _, events, _ in _ENTRY.iter_unpack(entries_in(row)))


def _free_place(entries: bytes) -> int:
    """Where the first empty entry begins; -1 if there is none."""
    at = entries.find(_EMPTY)
    while at >= 0:
        at += -at % _ENTRY.size  # zeros may begin in the entry before
        if entries.startswith(_EMPTY, at):
            return at
        at = entries.find(_EMPTY, at)
    return -1


def bucket_of(hashed: bytes) -> int:
    """The row of the directory in which a user is looked for first."""
    return int.from_bytes(hashed[:4], "little") % _BUCKETS


def _checked(entries: bytes) -> bytes:
    return entries + zlib.crc32(entries).to_bytes(4, "little")
