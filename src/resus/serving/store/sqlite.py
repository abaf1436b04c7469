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
from resus.serving.store.protocol import Event, Outcome, UserRecord, refuse_too_many

WAIT_SECONDS = 30  # for other processes
WIPE_SECONDS = 2  # for them to let a wipe pass; those that write wait as long
APPLICATION = 0x72657375  # marks a file as ours
FORMAT = 1
SCHEMA = (
    "CREATE TABLE users (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL) STRICT",
    """CREATE TABLE events (
        user INTEGER NOT NULL, time REAL NOT NULL, id TEXT NOT NULL, label REAL NOT NULL, features TEXT NOT NULL,
        PRIMARY KEY (user, time, id), UNIQUE (user, id)
    ) STRICT, WITHOUT ROWID""",
    # `version` is the last one given, `unwiped` that at a deletion whose bytes may still be in the files, else 0
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
    """Write-ahead log with a full sync per transaction; one connection writes and one reads, so that no reader waits
    for the disk.

    `delete` writes the whole file anew, so that no byte of the user stays, nor of an event forgotten before. Where
    other processes hold that up for `WIPE_SECONDS`, a warning says so and the next `delete` or opening does it.
    """

    def __init__(self, path: Path, *, capacity: int) -> None:
        assert capacity > 0
        self._path = path.absolute()  # a name such as ':memory:' is a file like any other
        self._capacity = capacity
        self._writing, self._reading, self._wiping = (threading.Lock() for _ in range(3))
        lock = self._path.with_name(f".{self._path.name}.lock")
        with locked(lock), self._in_one_sentence(), contextlib.ExitStack() as opened:
            with storage_errors(path):
                self._path.touch(mode=0o600)  # what users did is nobody else's business
            self._writer = opened.enter_context(contextlib.closing(self._connection(WAIT_SECONDS)))
            self._reader = opened.enter_context(contextlib.closing(self._connection(WAIT_SECONDS)))
            _prepare(self._writer, path)
            self._wipe()  # what another process forgot, or was killed in deleting
            self._opened = opened.pop_all()

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[Outcome]:
        refuse_too_many(batch)
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

    def _add(self, user: str, event: Event, features: str) -> Outcome:
        run = self._writer.execute
        number = self._number_of(user)
        known = run("SELECT label FROM events WHERE user = ? AND id = ?", (number, event.id)).fetchall()
        if known and known[0][0] == event.label:
            return "known"
        if known:
            run("UPDATE events SET label = ? WHERE user = ? AND id = ?", (event.label, number, event.id))
            run("UPDATE users SET version = ? WHERE number = ?", (self._next_version(), number))
            return "corrected"
        in_the_way = run(  # the oldest of a full user
            "SELECT time, id FROM events WHERE user = ? ORDER BY time DESC, id DESC LIMIT 1 OFFSET ?",
            (number, self._capacity - 1),
        ).fetchall()
        if in_the_way:
            if (event.time, event.id) < in_the_way[0]:
                return "too old"
            run("DELETE FROM events WHERE user = ? AND (time, id) <= (?, ?)", (number, *in_the_way[0]))
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
        """By a connection of its own, so that our threads wait no longer than other processes."""
        with self._wiping, self._in_one_sentence(), contextlib.closing(self._connection(WIPE_SECONDS)) as connection:
            if not _wiped(connection):
                log.warning(
                    "%s still holds bytes of what was deleted, as another process uses it: "
                    "the next deletion of a user or opening of the store wipes them",
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
            advice = ADVICE.get(_code(error), "see to its space and permissions or choose another place")
            raise StorageError(f"cannot use the store {self._path}: {error}; {advice}") from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """A new file gets its tables; another program's is left as it is."""
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
    """Deleted bytes leave the files; False where others held that up. Zeroing deleted rows is not enough: a B-tree that
    moved a row to another page leaves a copy behind, so the file is written anew."""
    (unwiped,) = connection.execute("SELECT unwiped FROM latest").fetchall()[0]
    if not unwiped:
        return True
    try:
        if not _log_emptied(connection):  # a reader of the old log would make it grow by the whole file
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
    """SQLite waits for others that read, but not for one that is at the same."""
    deadline = time.monotonic() + WIPE_SECONDS
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _code(error: sqlite3.Error) -> int:
    """The primary one of an extended code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
