"""Writers that wait share a commit, and none of them suffers from another."""

import contextlib
import sqlite3
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import Place

from resus.errors import StorageError
from resus.serving.store import Event, open_store
from resus.serving.store import group_commit as group_commit_module
from resus.serving.store.group_commit import Call, GroupCommit
from resus.serving.store.sqlite import SqliteStore

WRITERS = 24


def together(work: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returns or raises, when all run at once."""
    outcomes: list[Any] = [None] * len(work)

    def run(place: int) -> None:
        try:
            outcomes[place] = work[place]()
        except Exception as error:
            outcomes[place] = error

    threads = [threading.Thread(target=run, args=[place]) for place in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return outcomes


def commits_in(log: Path) -> int:
    """Frames of a write-ahead log that end a transaction."""
    content = log.read_bytes()
    page, salt = struct.unpack(">I", content[8:12])[0], content[16:24]
    frames = range(32, len(content) - page - 23, page + 24)
    own = [at for at in frames if content[at + 8 : at + 16] == salt]
    return sum(content[at + 4 : at + 8] != bytes(4) for at in own)


def test_what_waits_is_committed_together(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(str(path), capacity=10)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,), "each commit is synced"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        threads = [
            threading.Thread(target=store.add, args=[[(f"user {number}", Event("e", 1.0, 1.0, {}))]])
            for number in range(WRITERS)
        ]
        before = commits_in(tmp_path / "store.db-wal")
        for thread in threads:
            thread.start()
        while len(store._group._queue) < WRITERS - 1:
            assert not store.users()
        other.execute("COMMIT")
    for thread in threads:
        thread.join()
    assert store.users() == WRITERS
    assert commits_in(tmp_path / "store.db-wal") - before == 2, "the first alone, then all that waited"
    store.close()


def test_a_batch_that_fails_takes_nothing_of_the_others_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third batch fails at its second event, after it has written the first."""
    store = SqliteStore(str(tmp_path / "store.db"), capacity=10)
    add = store._write_slots.add

    def failing(user: str, event: Event, features: str) -> Any:
        if event.id == "bad":
            raise ZeroDivisionError(user)
        return add(user, event, features)

    monkeypatch.setattr(store._write_slots, "add", failing)
    batches = [
        [(f"user {number}", Event(name, 1.0, 1.0, {})) for name in ("first", "second" if number % 3 else "bad")]
        for number in range(WRITERS)
    ]
    outcomes = together([partial(store.add, batch) for batch in batches])
    for number, outcome in enumerate(outcomes):
        events = [event.id for event in store.read(f"user {number}").events]
        if number % 3:
            assert outcome == ["added", "added"]
            assert events == ["first", "second"]
        else:
            assert isinstance(outcome, ZeroDivisionError)
            assert not events
    assert store.users() == sum(bool(number % 3) for number in range(WRITERS))
    store.close()


def test_a_batch_that_is_too_large_for_the_file_fails_alone(tmp_path: Path) -> None:
    """SQLite takes the whole transaction back when the file is full."""
    store = SqliteStore(str(tmp_path / "store.db"), capacity=10)
    store.add([(f"user {number}", Event("before", 1.0, 1.0, {})) for number in range(WRITERS)])
    (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count = {pages + 20}")
    sizes = [100_000 if number == 5 else 10 for number in range(WRITERS)]
    events = [Event("new", 2.0, 1.0, {"item": "x" * size}) for size in sizes]
    outcomes = together([partial(store.add, [(f"user {number}", events[number])]) for number in range(WRITERS)])
    assert isinstance(outcomes.pop(5), StorageError)
    assert outcomes == [["added"]] * (WRITERS - 1)
    assert [len(store.read(f"user {number}").events) for number in (4, 5, 6)] == [2, 1, 2]
    store.close()


def test_batches_of_many_threads_are_whole_and_in_the_right_hands(place: Place) -> None:
    store = open_store(place(), capacity=500)

    def write(writer: int) -> list[str]:
        outcomes: list[str] = []
        for number in range(10):
            same = Event(f"shared {number}", 1.0, 1.0, {})
            own = Event(f"{writer} {number}", 2.0, 1.0, {"writer": writer})
            outcomes += store.add([("all", own), (f"user {writer}", own), (f"user {writer}", own), ("all", same)])
        return outcomes

    outcomes = together([partial(write, writer) for writer in range(WRITERS)])
    for writer, outcome in enumerate(outcomes):
        assert outcome[0::4] == outcome[1::4] == ["added"] * 10
        assert outcome[2::4] == ["known"] * 10
        assert [event.id for event in store.read(f"user {writer}").events] == [f"{writer} {n}" for n in range(10)]
    assert sum(outcome[3::4].count("added") for outcome in outcomes) == 10
    assert len(store.read("all").events) == 10 * WRITERS + 10
    assert store.users() == WRITERS + 1
    store.close()


def test_a_commit_that_hangs_lets_callers_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit_module, "WAITING", 3)
    hanging, going_on = threading.Event(), threading.Event()
    committed: list[str] = []

    def commit(group: Sequence[Call[str]]) -> None:
        hanging.set()
        assert going_on.wait(60)
        for call in group:
            committed.append(call.work or "")
            call.outcome = call.work

    group = GroupCommit(commit, wait=0.2, place="here")
    first = threading.Thread(target=group.run, args=["first"])
    first.start()
    assert hanging.wait(60)
    late = together([partial(group.run, f"late {number}") for number in range(5)])
    assert all(isinstance(outcome, StorageError) for outcome in late)
    assert {str(outcome).partition(": ")[2].partition(";")[0] for outcome in late} == {
        "it has not answered for 0.2 seconds",
        "too many requests wait for it",
    }
    with pytest.raises(StorageError, match="not answered"):
        group.alone(lambda: committed.append("alone"))
    going_on.set()
    first.join(60)
    assert group.run("next") == "next"
    group.alone(lambda: committed.append("alone"))
    assert committed == ["first", "next", "alone"], "who was let go is not committed later"
