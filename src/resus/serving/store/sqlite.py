"""Events in one SQLite file, for the workers of one host."""

import contextlib
import functools
import itertools
import logging
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from resus.errors import StorageError
from resus.files import locked, storage_errors
from resus.serving.store.bulk_slots import add_to_slots
from resus.serving.store.directory import DamagedError, bucket_of
from resus.serving.store.group_commit import Call, GroupCommit
from resus.serving.store.proof import Proof
from resus.serving.store.protocol import Added, Bulk, Event, EventStatus, Expired, UserRecord, as_json, check_batch
from resus.serving.store.reserve import Reserve
from resus.serving.store.slots import APPLICATION, BEFORE, FORMAT, PAGE, Slots, add_profiles, create

WAIT_SECONDS = 10  # for other processes that use the file
WIPE_SECONDS = 2  # for other processes to let a wipe start
CHECK_SECONDS = 1.0  # a write within this time shows that the store can be written
PROOF_SECONDS = 0.5  # between two times at which events are read back from the disk before they are acknowledged
PROVED_USERS = 4  # whose events are read back
SHARE_SECONDS = 2.0  # after another process wrote
BREATH_SECONDS = 0.005  # between two transactions of many events, for others to begin
LOOKED_AT = 200  # users in a step of an expiry
EXPIRED = 100  # events in a transaction of an expiry
LEAST_BYTES = 256 << 10  # of free disk for a store that is ready
FULL = "its disk is full; free some space"
GONE = "its file or its log was deleted or replaced; restore it and start the service again"
CUT = "its file was cut short; stop the service and restore the file, or run 'resus store check'"
UNWRITABLE = "it cannot be written; check its permissions"
DAMAGED = "it is damaged; stop the service and run 'resus store check'"
REASONS = {
    sqlite3.SQLITE_BUSY: f"another process has held it for {WAIT_SECONDS} seconds; try again or stop that process",
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_READONLY: UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check its permissions, or choose another place",
    sqlite3.SQLITE_NOTADB: "it is not a store, or damaged; choose another place, or run 'resus store check'",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
}
SLOW = f"its disk has not answered for {WAIT_SECONDS} seconds; try again later"
OTHER_REASON = "its disk fails; check its disk space and permissions, or choose another place"
KINDS = {  # of failures, for metrics
    FULL: "full",
    UNWRITABLE: "not writable",
    GONE: "gone",
    CUT: "damaged",
    DAMAGED: "damaged",
    SLOW: "slow",
    REASONS[sqlite3.SQLITE_NOTADB]: "damaged",
    REASONS[sqlite3.SQLITE_BUSY]: "busy",
    REASONS[sqlite3.SQLITE_CANTOPEN]: "not writable",
}
Returned = TypeVar("Returned")

log = logging.getLogger("resus.serving")


class SqliteStore:
    """Uses a write-ahead log. What waits is committed together with one full sync. One connection writes and one
    reads, so that no reader waits for the disk.

    `delete` overwrites what the user has and empties the log, so that no byte of the user stays, nor of events
    forgotten before. If other processes keep the log for `WIPE_SECONDS`, a warning says so, and the next `delete` or
    opening empties it. The file does not shrink; later events use its space.

    A file that was deleted, replaced or overwritten from its start is noticed at the next call, other damage at the
    next proof. A small file beside the store reserves disk for deletions.
    """

    def __init__(self, url: str, *, capacity: int) -> None:
        assert capacity > 0
        path = Path(url.removeprefix("sqlite:"))
        self._path = path.absolute()  # so that ':memory:' is a file like any other
        self._capacity = capacity
        self._reading, self._proving = threading.Lock(), threading.Lock()
        self._written_at = 0.0
        self._reserve = Reserve(self._path)
        if self._path.exists() and not self._path.is_file():
            raise StorageError(f"{path} is not a regular file: choose another place for the store")
        lock = self._path.with_name(f".{self._path.name}.lock")
        with locked(lock), self._in_one_sentence(), contextlib.ExitStack() as opened:
            with storage_errors(path):
                self._path.touch(mode=0o600)  # only the owner reads what users did
            closed_last = opened.enter_context(contextlib.ExitStack())
            self._writer = opened.enter_context(contextlib.closing(self._connection()))
            self._reader = opened.enter_context(contextlib.closing(self._connection()))
            _prepare(self._writer, path)
            self._write_slots = Slots(self._writer, capacity=capacity)
            self._read_slots = Slots(self._reader, capacity=capacity)
            files = [self._path.with_name(self._path.name + end) for end in ("", "-wal", "-shm")]
            self._files = {file: _identity(file) for file in files}
            with storage_errors(path):
                self._proof = Proof(self._path)
            closed_last.callback(self._proof.close)
            self._prove_at, self._alarms = 0.0, 0
            self._doubted: tuple[str, ...] | None = None  # users of the last proof, if it failed
            self._refused: frozenset[str] = frozenset()  # users of a write that found damage, until one finds none
            self._least_bytes = 0
            self._others, self._share_until = 0, 0.0
            self._turn: contextlib.ExitStack | None = None  # to delete old events, if this process has it
            self._group: GroupCommit[Callable[[], Any]] = GroupCommit(
                self._commit, wait=WAIT_SECONDS, place=str(self._path)
            )
            self._reserve.fill()
            self._wipe()  # after events were forgotten, or a process was killed during a deletion
            self._opened = opened.pop_all()

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[EventStatus]:
        return [added.status for added in self.add_traced(batch)]

    def add_traced(self, batch: Sequence[tuple[str, Event]]) -> list[Added]:
        check_batch(batch)
        rows = [(user, event, event.features_as_json()) for user, event in batch]
        return self._write(lambda: [self._write_slots.add(*row) for row in rows], {user for user, _ in batch})

    def add_bulk(self, bulk: Bulk) -> Counter[EventStatus]:
        """In one transaction, for which all other writers wait. As long as others write, they get half of the time."""

        def add() -> tuple[Counter[EventStatus], int]:
            (others,) = self._writer.execute("PRAGMA data_version").fetchall()[0]  # changes as others write
            return add_to_slots(self._write_slots, bulk), others

        began = time.monotonic()
        found, others = self._write(add, bulk.users[:1])
        now = time.monotonic()
        if others != self._others:
            self._others, self._share_until = others, now + SHARE_SECONDS
        time.sleep(now - began if now < self._share_until else BREATH_SECONDS)
        return found

    def bulk_order(self, users: Sequence[str]) -> Sequence[int]:
        """By the row of the directory, which is then written once for all of its users."""
        return [bucket_of(self._write_slots.hash(user)) for user in users]

    def version(self, user: str) -> int:
        return self._read(lambda: self._read_slots.version(user))

    def version_at_once(self, user: str) -> int | None:
        """None while events are committed or read: a disk that hangs would hold up the caller."""
        if self._group.is_busy or not self._reading.acquire(blocking=False):
            return None
        try:
            return self._look(lambda: self._read_slots.version(user))
        finally:
            self._reading.release()

    def read(self, user: str) -> UserRecord:
        return self._read(lambda: self._read_slots.read(user))

    def set_profile(self, user: str, profile: Mapping[str, Any]) -> None:
        if profile:
            fields = as_json(profile, "the fields of a profile")
            self._write(lambda: self._write_slots.set_profile(user, fields), {user})
        else:
            self._reserve.spend(
                lambda: self._write(lambda: self._write_slots.set_profile(user, None), {user}), _is_out_of_space
            )

    def forget(self, user: str, event_id: str) -> bool:
        return self._reserve.spend(
            lambda: self._write(lambda: self._write_slots.forget(user, event_id), {user}), _is_out_of_space
        )

    def delete(self, user: str) -> bool:
        known = False

        def delete() -> None:
            nonlocal known
            known = self._write(lambda: self._write_slots.delete(user), {user}) or known
            self._wipe()

        self._reserve.spend(delete, _is_out_of_space)
        return known

    def expire(self, before: float, cursor: str = "") -> Expired:
        found, at = self._read(lambda: self._read_slots.oldest(int(cursor or 0), before, look=LOOKED_AT))
        events = users = 0
        while found:
            done, deleted, gone = self._reserve.spend(functools.partial(self._expire, found, before), _is_out_of_space)
            found, events, users = found[done:], events + deleted, users + gone
        if not at:
            self._wipe()
        return Expired(events, users, str(at or ""))

    def _expire(self, users: Sequence[str], before: float) -> tuple[int, int, int]:
        return self._write(lambda: self._write_slots.expire(users, before, limit=EXPIRED), users)

    def is_turn_to_expire(self) -> bool:
        """As long as this process has the store open: the system takes the turn from a process that is killed."""
        if self._turn is None:
            with contextlib.ExitStack() as stack, self._in_one_sentence():
                lock = self._path.with_name(f".{self._path.name}.expiry")
                if stack.enter_context(locked(lock, wait=False)):
                    self._turn = stack.pop_all()
        return self._turn is not None

    def users(self) -> int:
        def count() -> int:
            self._read_slots.begin()
            return self._read_slots.latest.users

        return self._read(count)

    def check(self) -> None:
        """Write as an event would be written, unless something was written within `CHECK_SECONDS`."""
        with self._in_one_sentence():
            self._check_files()
        if not all(os.access(file, os.W_OK) for file in (*self._files, self._path.parent)):  # the next start needs it
            raise self._error(UNWRITABLE)
        if self._refused:
            raise self._error(DAMAGED)
        if self._reserve.free_bytes() < LEAST_BYTES:
            raise self._error(FULL)
        if time.monotonic() - self._written_at > CHECK_SECONDS:
            self._write(lambda: self._writer.execute("UPDATE latest SET version = version").rowcount)
        self._prove()
        self.version("")

    def close(self) -> None:
        def close() -> None:
            with self._reading:
                self._opened.close()

        with self._in_one_sentence():
            self._group.alone(close)
        if self._turn is not None:
            self._turn.close()
        self._reserve.remove()

    def _write(self, work: Callable[[], Returned], users: Collection[str] = ()) -> Returned:
        """What `work` returns, once it is durable and can be read. Nothing is written while there is damage."""
        if self._doubted is not None:
            self._prove()
        try:
            with self._in_one_sentence():
                returned: Returned = self._group.run(work)
        except StorageError as error:
            if _is_damage(error.__cause__):
                self._refused = frozenset(users)
            raise
        self._prove(users)
        self._refused -= frozenset(users)
        return returned

    def _prove(self, users: Collection[str] = ()) -> None:
        """Compare the log with its checksums and read users without what SQLite has in memory, unless this was done
        within `PROOF_SECONDS` and found no damage. The users of a proof that failed are read again."""
        if self._is_proved():
            return
        with self._proving:
            if self._is_proved():  # another thread has just done it
                return
            alarms, read = self._alarms, self._doubted or tuple(itertools.islice(users, PROVED_USERS))
            try:
                with self._in_one_sentence():
                    self._proof.check_log(whole=self._doubted is not None)
                    self._read_back(read)
            except BaseException:
                self._doubted = read
                raise
            if self._alarms == alarms:  # else it may have looked before the damage
                self._doubted, self._prove_at = None, time.monotonic() + PROOF_SECONDS

    def _read_back(self, users: Sequence[str]) -> None:
        """Raise DamagedError if users cannot be read without what SQLite has in memory."""
        with contextlib.closing(self._connection()) as connection:
            connection.execute("BEGIN")
            slots = Slots(connection, capacity=self._capacity)
            gone = [user for user in users if not slots.read(user).version]
        if gone:  # deleted meanwhile, and maybe added again since, with a later version
            versions = self._group.run(lambda: [self._write_slots.version(user) for user in gone])
            if any(0 < version <= slots.latest.version for version in versions):
                raise DamagedError("a user is gone")

    def _is_proved(self) -> bool:
        return self._doubted is None and time.monotonic() < self._prove_at

    def _commit(self, group: Sequence[Call[Callable[[], Any]]]) -> None:
        """A call that fails takes nothing of the others back. If the disk refuses the whole, each is tried alone."""
        try:
            self._check_files()
            self._transact(group)
            self._check_files()  # what was written to a deleted file will not be there
            if any(call.error is None for call in group):
                self._written_at = time.monotonic()
        except Exception as error:
            busy = isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY
            alone = len(group) > 1 and not busy and not isinstance(error, StorageError)
            for call in group:
                if alone:
                    call.error = None
                    self._commit([call])
                else:
                    call.error = error

    def _transact(self, group: Sequence[Call[Callable[[], Any]]]) -> None:
        slots, execute = self._write_slots, self._writer.execute
        execute("BEGIN IMMEDIATE")
        try:
            self._notice_other_programs()
            slots.begin()
            for call in group:
                before = slots.latest
                execute("SAVEPOINT one")
                try:
                    call.outcome = call.work() if call.work else None
                except Exception as error:
                    if not self._writer.in_transaction:  # SQLite has taken back everything
                        raise
                    call.error = error
                    slots.latest = before
                    execute("ROLLBACK TO one")
                execute("RELEASE one")
            slots.end()
            execute("COMMIT")
            self._proof.was_touched()  # by this very transaction
        finally:
            if self._writer.in_transaction:
                execute("ROLLBACK")

    def _read(self, work: Callable[[], Returned]) -> Returned:
        if not self._reading.acquire(timeout=WAIT_SECONDS):
            raise self._error(SLOW)
        try:
            return self._look(work)
        finally:
            self._reading.release()

    def _look(self, work: Callable[[], Returned]) -> Returned:
        """What `work` reads. The caller holds `_reading`."""
        with self._in_one_sentence():
            self._check_files(1)
            self._reader.execute("BEGIN")
            try:
                return work()
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("COMMIT")

    def _wipe(self) -> None:
        with self._in_one_sentence():
            if not self._read(self._is_unwiped) or self._log_emptied():
                return
        log.warning(
            "%s still holds bytes of deleted events, because another process uses it: "
            "the next deletion of a user or the next opening of the store wipes them",
            self._path,
        )

    def _is_unwiped(self) -> int:
        self._read_slots.begin()
        return self._read_slots.latest.unwiped

    def _log_emptied(self) -> bool:
        """Copy the log into the file and empty it, as soon as nobody reads it; threads write between two tries."""
        deadline = time.monotonic() + WIPE_SECONDS
        while True:
            unwiped = self._read(self._is_unwiped)
            with contextlib.suppress(_BusyError):
                self._group.alone(functools.partial(_empty_log, self._writer))
                self._group.run(functools.partial(self._write_slots.wiped, unwiped))
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)

    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        for setting in ("synchronous = FULL", "secure_delete = ON"):
            connection.execute(f"PRAGMA {setting}").fetchall()
        return connection

    def _check_files(self, first: int = 3) -> None:
        """Notice that the file, its log or the log's index is not the one that was opened, or was cut or changed."""
        least = self._least_bytes  # before the look at the file, which other threads let grow meanwhile
        for file, opened in itertools.islice(self._files.items(), first):
            if _identity(file) != opened:
                raise self._error(GONE)
        size = self._proof.size()
        if size < least and self._proof.is_cut():
            raise self._error(CUT)
        self._least_bytes = size
        self._proof.check_heads()

    def _notice_other_programs(self) -> None:
        """Compare the log now, and read back what is written next, if another program wrote to the files. In a
        transaction, so that no other worker writes meanwhile."""
        if self._proof.was_touched():
            self._alarms += 1
            self._prove_at = 0.0
            try:
                with self._in_one_sentence():
                    self._proof.check_log(whole=True)
            except StorageError:
                self._doubted = self._doubted or ()
                raise

    @contextlib.contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(REASONS.get(_code(error), OTHER_REASON), error) from error
        except DamagedError as error:
            raise self._error(DAMAGED, error) from error
        except OSError as error:
            raise self._error(OTHER_REASON, error) from error

    def _error(self, reason: str, error: Exception | None = None) -> StorageError:
        what = f"{error}; {reason}" if error else reason
        public, kind = f"cannot use the store: {reason}", KINDS.get(reason, "disk")
        return StorageError(f"cannot use the store {self._path}: {what}", public=public, kind=kind)


class _BusyError(Exception):
    """Another process uses the log."""


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file; refuse the file of another program and leave it as it is."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0]
    marks = [connection.execute(f"PRAGMA {mark}").fetchall()[0][0] for mark in ("application_id", "user_version")]
    older = marks == [APPLICATION, BEFORE]
    if tables and not older and marks != [APPLICATION, FORMAT]:
        raise StorageError(f"{path} is not a store of this version of resus: choose another place")
    for setting in (f"page_size = {PAGE}", "journal_mode = WAL"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    if not tables or older:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            (add_profiles if older else create)(connection)


def _empty_log(connection: sqlite3.Connection) -> None:
    """At once or not at all."""
    try:
        connection.execute("PRAGMA busy_timeout = 0").fetchall()
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    except sqlite3.OperationalError as error:
        busy = _code(error) == sqlite3.SQLITE_BUSY
        if not busy:
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {1000 * WAIT_SECONDS}").fetchall()
    if busy:
        raise _BusyError


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_damage(error: BaseException | None) -> bool:
    damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, DamagedError) or (isinstance(error, sqlite3.Error) and _code(error) in damaged)


def _is_out_of_space(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.Error) and _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _code(error: sqlite3.Error) -> int:
    """The primary code of an extended result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
