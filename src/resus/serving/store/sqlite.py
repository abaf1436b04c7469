"""Events in one SQLite file, for the workers of one host."""

import contextlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from resus.errors import StorageError
from resus.files import locked, storage_errors
from resus.serving.store.protocol import Event, EventStatus, Moment, UserRecord, check_batch

WAIT_SECONDS = 30  # for other processes that use the file
WIPE_SECONDS = 2  # for other processes to let a wipe start; writers wait as long
APPLICATION = 0x72657375  # marks a file as a store of resus
FORMAT = 1
SCHEMA = (
    "CREATE TABLE users (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL) STRICT",
    """CREATE TABLE events (
        user INTEGER NOT NULL, time REAL NOT NULL, id TEXT NOT NULL, label REAL NOT NULL, features TEXT NOT NULL,
        PRIMARY KEY (user, time, id), UNIQUE (user, id)
    ) STRICT, WITHOUT ROWID""",
    # `version` is the last one given; `unwiped` is that of a deletion whose bytes may still be in the files, else 0
    "CREATE TABLE latest (version INTEGER NOT NULL, unwiped INTEGER NOT NULL) STRICT",
    "INSERT INTO latest VALUES (0, 0)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
ADVICE = {
    sqlite3.SQLITE_BUSY: f"another process has held it for {WAIT_SECONDS} seconds; try again or stop that process",
    sqlite3.SQLITE_NOTADB: "choose another place",
    sqlite3.SQLITE_CORRUPT: "restore it from a backup or choose another place",
}

log = logging.getLogger("resus.serving")


class SqliteStore:
    """Uses a write-ahead log with a full sync per transaction. One connection writes and one reads, so that no reader
    waits for the disk.

    `delete` rewrites the whole file, so that no byte of the user stays, nor of events forgotten before. If other
    processes block the rewrite for `WIPE_SECONDS`, a warning says so, and the next `delete` or opening does it.
    """

    def __init__(self, url: str, *, capacity: int) -> None:
        assert capacity > 0
        path = Path(url.removeprefix("sqlite:"))
        self._path = path.absolute()  # so that ':memory:' is a file like any other
        self._capacity = capacity
        self._writing, self._reading, self._wiping = (threading.Lock() for _ in range(3))
        lock = self._path.with_name(f".{self._path.name}.lock")
        with locked(lock), self._in_one_sentence(), contextlib.ExitStack() as opened:
            with storage_errors(path):
                self._path.touch(mode=0o600)  # only the owner reads what users did
            self._writer = opened.enter_context(contextlib.closing(self._connection(WAIT_SECONDS)))
            self._reader = opened.enter_context(contextlib.closing(self._connection(WAIT_SECONDS)))
            _prepare(self._writer, path)
            self._wipe()  # after events were forgotten, or a process was killed during a deletion
            self._opened = opened.pop_all()

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[EventStatus]:
        check_batch(batch)
        rows = [(user, event, event.features_as_json()) for user, event in batch]
        with self._transaction():
            return [self._add(user, event, features) for user, event, features in rows]

    def version(self, user: str) -> int:
        found = self._read("SELECT version FROM users WHERE id = ?", user)
        return int(found[0][0]) if found else 0

    def read(self, user: str) -> UserRecord:
        rows = self._read(
            "SELECT version, events.id, time, label, features FROM users JOIN events ON user = number "
            "WHERE users.id = ? ORDER BY time DESC, events.id DESC LIMIT ?",
            user,
            self._capacity,
        )
        if not rows:
            return UserRecord(0, ())
        events = (Event(id_, time, label, json.loads(features)) for _, id_, time, label, features in reversed(rows))
        return UserRecord(rows[0][0], tuple(events))

    def forget(self, user: str, event_id: str) -> bool:
        with self._transaction() as connection:
            number = self._number_of(user)
            forgotten = connection.execute("DELETE FROM events WHERE user = ? AND id = ?", (number, event_id)).rowcount
            if not forgotten:
                return False
            version = self._next_version()
            connection.execute("UPDATE users SET version = ? WHERE number = ?", (version, number))
            connection.execute("UPDATE latest SET unwiped = ?", (version,))
            connection.execute(
                "DELETE FROM users WHERE number = ? AND NOT EXISTS (SELECT 1 FROM events WHERE user = number)",
                (number,),
            )
            return True

    def delete(self, user: str) -> bool:
        with self._transaction() as connection:
            number = self._number_of(user)
            if number is not None:
                connection.execute("DELETE FROM events WHERE user = ?", (number,))
                connection.execute("DELETE FROM users WHERE number = ?", (number,))
                connection.execute("UPDATE latest SET unwiped = ?", (self._next_version(),))
        self._wipe()
        return number is not None

    def users(self) -> int:
        return int(self._read("SELECT count(*) FROM users")[0][0])

    def close(self) -> None:
        with self._writing, self._reading, self._in_one_sentence():
            self._opened.close()

    def _add(self, user: str, event: Event, features: str) -> EventStatus:
        run = self._writer.execute
        number = self._number_of(user)
        known = run("SELECT label FROM events WHERE user = ? AND id = ?", (number, event.id)).fetchall()
        if known and known[0][0] == event.label:
            return "known"
        if known:
            run("UPDATE events SET label = ? WHERE user = ? AND id = ?", (event.label, number, event.id))
            run("UPDATE users SET version = ? WHERE number = ?", (self._next_version(), number))
            return "corrected"
        full = run(
            "SELECT time, id FROM events WHERE user = ? ORDER BY time DESC, id DESC LIMIT 1 OFFSET ?",
            (number, self._capacity - 1),
        ).fetchall()
        if full:
            oldest = Moment(*full[0])
            if event.moment < oldest:
                return "too old"
            run("DELETE FROM events WHERE user = ? AND (time, id) <= (?, ?)", (number, *oldest))
        version = self._next_version()
        if number is None:
            number = run("INSERT INTO users (id, version) VALUES (?, ?)", (user, version)).lastrowid
        else:
            run("UPDATE users SET version = ? WHERE number = ?", (version, number))
        run(
            "INSERT INTO events (user, time, id, label, features) VALUES (?, ?, ?, ?, ?)",
            (number, event.time, event.id, event.label, features),
        )
        return "added"

    def _number_of(self, user: str) -> int | None:
        found = self._writer.execute("SELECT number FROM users WHERE id = ?", (user,)).fetchall()
        return found[0][0] if found else None

    def _next_version(self) -> int:
        self._writer.execute("UPDATE latest SET version = version + 1")
        return int(self._writer.execute("SELECT version FROM latest").fetchall()[0][0])

    def _wipe(self) -> None:
        """Uses its own connection, so that threads of this process wait no longer than other processes."""
        with self._wiping, self._in_one_sentence(), contextlib.closing(self._connection(WIPE_SECONDS)) as connection:
            if not _wiped(connection):
                log.warning(
                    "%s still holds bytes of deleted events, because another process uses it: "
                    "the next deletion of a user or the next opening of the store wipes them",
                    self._path,
                )

    def _connection(self, wait: float) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=wait, isolation_level=None, check_same_thread=False)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing, self._in_one_sentence(), self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            yield self._writer

    def _read(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        with self._reading, self._in_one_sentence():
            return self._reader.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            advice = ADVICE.get(_code(error), "check its disk space and permissions, or choose another place")
            raise StorageError(f"cannot use the store {self._path}: {error}; {advice}") from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file; refuse the file of another program and leave it as it is."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0]
    marks = [connection.execute(f"PRAGMA {mark}").fetchall()[0][0] for mark in ("application_id", "user_version")]
    if tables and marks != [APPLICATION, FORMAT]:
        raise StorageError(f"{path} is not a store of this version of resus: choose another place")
    for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    if not tables:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                connection.execute(statement)


def _wiped(connection: sqlite3.Connection) -> bool:
    """Remove deleted bytes from the files; False if other processes block it.

    Zeroing deleted rows is not enough: a B-tree that moved a row to another page leaves a copy behind, so the whole
    file is rewritten.
    """
    (unwiped,) = connection.execute("SELECT unwiped FROM latest").fetchall()[0]
    if not unwiped:
        return True
    try:
        if not _log_emptied(connection):  # with a reader of the old log, the log would grow by the whole file
            return False
        connection.execute("VACUUM")
        if not _log_emptied(connection):
            return False
        connection.execute("UPDATE latest SET unwiped = 0 WHERE unwiped = ?", (unwiped,))
    except sqlite3.OperationalError as error:
        if _code(error) != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def _log_emptied(connection: sqlite3.Connection) -> bool:
    """SQLite waits for readers, but not for another process that empties the log."""
    deadline = time.monotonic() + WIPE_SECONDS
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _code(error: sqlite3.Error) -> int:
    """The primary code of an extended result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
