"""What the store makes of other programs that use its file: damage is noticed, and nothing else is called damage."""

import contextlib
import errno
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resus.errors import StorageError
from resus.serving.store import Event, check_store
from resus.serving.store import proof as proof_module
from resus.serving.store.checking import check
from resus.serving.store.sqlite import SqliteStore

READ_AND_CLOSE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM latest").fetchall()
connection.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(str(path), capacity=100)
    yield opened
    with contextlib.suppress(StorageError):
        opened.close()


def add(store: SqliteStore, number: int, user: str = "u") -> list[str]:
    return [*store.add([(user, Event(f"e{number}", float(number), 1.0, {"item": "x" * 200}))])]


def emptied(connection: sqlite3.Connection) -> None:
    (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    assert not busy


def test_a_file_that_another_program_shrinks_is_not_cut(path: Path, store: SqliteStore) -> None:
    other = SqliteStore(str(path), capacity=100)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as program:
        for number in range(2):
            program.execute("CREATE TABLE big AS SELECT zeroblob(400000) AS bytes")
            program.execute("DROP TABLE big")
            emptied(program)
            assert add(store, number) == ["added"]
            large = path.stat().st_size
            program.execute("VACUUM")
            emptied(program)
            assert path.stat().st_size < large - 300_000
            if number:  # the file ends before the new pages, which are in the log
                other.add([(f"user {one}", Event("e", 1.0, 1.0, {"item": "x" * 400})) for one in range(200)])
            assert add(store, 10 + number) == ["added"]
            assert len(store.read("u").events) == 2 * (number + 1)
            check_store(store)
    other.close()
    os.truncate(path, 4096)
    with pytest.raises(StorageError, match="cut short"):
        add(store, 99)


def test_to_close_one_of_two_stores_leaves_the_locks_of_the_other(path: Path, store: SqliteStore) -> None:
    """Without them, the next program that closes the file would take itself for the last one, and remove the log."""
    SqliteStore(str(path), capacity=100).close()
    subprocess.run([sys.executable, "-c", READ_AND_CLOSE, str(path)], check=True)
    assert add(store, 1) == ["added"]
    assert len(store.read("u").events) == 1


def test_no_file_stays_open_after_the_last_store(path: Path) -> None:
    stores = [SqliteStore(str(path), capacity=100) for _ in range(2)]
    for store in stores:
        store.close()
    assert not proof_module._handles


def test_a_user_who_is_deleted_and_added_again_during_a_proof_is_not_gone(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SqliteStore(str(path), capacity=100)

    class AddsAtItsEnd(sqlite3.Connection):
        def close(self) -> None:
            super().close()
            add(other, 2)

    def connection() -> sqlite3.Connection:
        assert other.delete("u")
        return sqlite3.connect(path, isolation_level=None, factory=AddsAtItsEnd)

    monkeypatch.setattr(store, "_connection", connection)
    assert add(store, 1) == ["added"]
    other.close()


def test_a_proof_that_began_before_the_damage_does_not_hide_it(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, 1)
    time.sleep(0.01)  # the clock of files may tick this slowly
    check_log, refusals = store._proof.check_log, []

    def write() -> None:
        try:
            add(store, 2)
        except StorageError as error:
            refusals.append(error)

    def damaged_meanwhile(**how: Any) -> None:
        check_log(**how)
        monkeypatch.undo()
        with path.with_name("store.db-wal").open("r+b") as log:
            log.seek(32 + 16)
            log.write(b"\0" * 8)  # the checksum of the first page
        writer = threading.Thread(target=write)
        writer.start()
        writer.join()

    monkeypatch.setattr(store._proof, "check_log", damaged_meanwhile)
    store._prove_at = 0.0
    store._prove()
    assert len(refusals) == 1
    with pytest.raises(StorageError, match="damaged"):
        add(store, 3)


def test_a_disk_that_fails_to_read_is_a_sentence_without_a_path(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", fails)
        for call in (lambda: add(store, 1), lambda: store.read("u"), lambda: check_store(store), store._prove):
            with pytest.raises(StorageError, match="its disk fails") as raised:
                call()
            assert raised.value.public
            assert str(path.parent) not in raised.value.public
    assert add(store, 1) == ["added"]


def test_of_a_long_log_only_the_newest_pages_are_compared_unless_there_is_cause(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        add(store, number)
    monkeypatch.setattr(proof_module, "NEWEST", 4)
    store._proof.check_log(whole=False)
    log = path.with_name("store.db-wal")
    with log.open("r+b") as stream:
        stream.seek(32 + 24 + 100)
        stream.write(b"damage")
    store._proof.check_log(whole=False)
    with pytest.raises(Exception, match="does not match its checksums"):
        store._proof.check_log(whole=True)
    with log.open("r+b") as stream:
        stream.seek(log.stat().st_size - 100)
        stream.write(random.Random(1).randbytes(50))
    with pytest.raises(Exception, match="does not match its checksums"):
        store._proof.check_log(whole=False)


def test_programs_that_only_read_disturb_nothing(path: Path, store: SqliteStore, tmp_path: Path) -> None:
    for number in range(50):
        add(store, number)
        if number % 10 == 0:
            assert not check(str(path)).problems
            with contextlib.closing(sqlite3.connect(path)) as program:
                program.execute("VACUUM INTO ?", (str(tmp_path / f"copy {number}"),))
            store._prove_at = 0.0
            check_store(store)
    assert len(store.read("u").events) == 50
