"""After any kill, acknowledged events are there once, and deleted events are gone from the files."""

import contextlib
import dataclasses
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from redis_process import DURABLE, redis_process

from resus.serving.store import Event, EventStore, directory, open_store
from resus.serving.store import redis as redis_store
from resus.serving.store import sqlite as sqlite_store
from resus.serving.store.sqlite import SqliteStore

pytestmark = pytest.mark.integration

KILLS = 20
NAMES = ("ann", "bob", "cleo")
WRITER = """
import sys
from resus.serving.store import Event, open_store
url, first, *names = sys.argv[1:]
store = open_store(url, capacity=100_000)
for number in range(int(first), 100_000):
    store.add([(name, Event(f"{name} {number}", number, 1.0, {"item": number})) for name in names])
    print(number, flush=True)
"""


THREADS = """
import sys, threading
from resus.serving.store import Event, open_store
store = open_store(sys.argv[1], capacity=100_000)
def write(name):
    for number in range(100_000):
        store.add([(f"{name} {half}", Event(str(number), number, 1.0, {"item": number})) for half in "ab"])
        sys.stdout.write(f"{name} {number}\\n")
        sys.stdout.flush()
for name in range(16):
    threading.Thread(target=write, args=[name]).start()
"""


def batches_in(store: EventStore) -> int:
    """The number of batches; each of them must be whole, there once, and in its place."""
    records = [store.read(name) for name in NAMES]
    (batches,) = {len(record.events) for record in records}
    for name, record in zip(NAMES, records, strict=True):
        assert [event.id for event in record.events] == [f"{name} {number}" for number in range(batches)]
        assert [event.features for event in record.events] == [{"item": number} for number in range(batches)]
    return batches


def kill_again_and_again(url: str, kill_store: Callable[[], None], revive: Callable[[], None]) -> None:
    """A client that repeats what was not acknowledged is killed at random moments, with or without its store."""
    chance = random.Random(4)  # the moments still differ from run to run
    acknowledged = 0
    for _ in range(KILLS):
        command = [sys.executable, "-c", WRITER, url, str(acknowledged), *NAMES]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline() for _ in range(chance.randint(1, 10))]
            time.sleep(chance.uniform(0, 0.005))
            kill_store()
            writer.kill()
            said += writer.stdout.readlines()
        assert writer.returncode == -signal.SIGKILL
        acknowledged = max(int(line) for line in said if line.endswith("\n")) + 1
        revive()
        store = open_store(url, capacity=100_000)
        assert batches_in(store) in (acknowledged, acknowledged + 1)
        store.close()
    assert acknowledged >= KILLS


def test_a_killed_writer_loses_nothing_in_sqlite(tmp_path: Path) -> None:
    kill_again_and_again(str(tmp_path / "store.db"), lambda: None, lambda: None)


@pytest.mark.parametrize("victim", ["writer", "server"])
def test_a_killed_writer_or_server_loses_nothing_in_redis(victim: str) -> None:
    with tempfile.TemporaryDirectory() as folder, redis_process(Path(folder)) as server:
        if victim == "writer":
            kill_again_and_again(server.url, lambda: None, lambda: None)
        else:
            kill_again_and_again(server.url, server.kill, server.start)


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_killed_threads_lose_nothing_of_what_they_committed_together(tmp_path: Path, kind: str) -> None:
    """Each of 16 threads is at most one batch ahead of what it was told, and has no half of a batch."""
    chance = random.Random(5)
    with contextlib.ExitStack() as stack:
        server = None if kind == "sqlite" else stack.enter_context(redis_process(tmp_path))
        for attempt in range(5):
            if server:
                server.empty()
            url = server.url if server else str(tmp_path / f"{attempt}.db")
            command = [sys.executable, "-c", THREADS, url]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as writer:
                assert writer.stdout is not None
                said = [writer.stdout.readline() for _ in range(chance.randint(100, 300))]
                if server:
                    server.kill()
                writer.kill()
                said += writer.stdout.readlines()
            if server:
                server.start()
            told = Counter(line.split()[0] for line in said if line.endswith("\n"))
            store = open_store(url, capacity=100_000)
            for name in map(str, range(16)):
                halves = [[event.id for event in store.read(f"{name} {half}").events] for half in "ab"]
                assert halves[0] == halves[1] == [str(number) for number in range(len(halves[0]))]
                assert told[name] <= len(halves[0]) <= told[name] + 1
            store.close()


def filled(path: Path, chance: random.Random, users: int) -> SqliteStore:
    """A store whose events arrive in any order and push others out, so that rows move from page to page."""
    store = SqliteStore(str(path), capacity=20)
    for batch in range(30):
        added = []
        for number in range(100):
            user = chance.randrange(users)
            secret = {
                f"field {user:03}.": f"value {user:03}." + "x" * chance.randrange(chance.choice([300, 300, 9000]))
            }
            added.append((f"user {user:03}.", Event(f"event {user:03}.{batch}.{number}", chance.random(), 1.0, secret)))
            if not number % 10:
                added.append((added[-1][0], dataclasses.replace(added[-1][1], time=chance.random())))
        store.add(added)
        for user in chance.sample(range(users), 3):
            kept = f"value {user:03}." + "x" * chance.randrange(chance.choice([300, 3000]))
            store.set_profile(f"user {user:03}.", {f"field {user:03}.": kept})
    return store


def words_of(user: int) -> list[bytes]:
    return [f"{word} {user:03}.".encode() for word in ("user", "event", "field", "value")]


def bytes_in(folder: Path) -> bytes:
    found = b""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with contextlib.suppress(FileNotFoundError):  # Redis may remove it meanwhile
            found += path.read_bytes()
    return found


def words_left(folder: Path, words: list[bytes]) -> list[bytes]:
    found = bytes_in(folder)
    return [word for word in words if word in found]


@pytest.mark.parametrize(("seed", "buckets"), [(1, 2048), (2, 2048), (3, 2)])
def test_nothing_of_a_deleted_user_is_left_in_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, buckets: int
) -> None:
    monkeypatch.setattr(directory, "_BUCKETS", buckets)
    chance = random.Random(seed)
    store = filled(tmp_path / "store.db", chance, users=60)
    other = SqliteStore(str(tmp_path / "store.db"), capacity=20)  # another worker that reads
    for user in chance.sample(range(60), 20):
        assert other.version(f"user {user:03}.")
        words = [*words_of(user), store._write_slots.hash(f"user {user:03}.")]
        assert all(word in bytes_in(tmp_path) for word in words)
        assert store.delete(f"user {user:03}.")
        assert not other.version(f"user {user:03}.")
        assert not words_left(tmp_path, words)
    assert store.users() == 40
    other.close()
    store.close()


def test_a_full_bucket_of_users_continues_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_BUCKETS", 2)
    store = SqliteStore(str(tmp_path / "store.db"), capacity=2)
    users = [f"user {number:03}." for number in range(700)]
    store.add([(user, Event(user, 1.0, 1.0, {})) for user in users])
    assert store._writer.execute("SELECT count(*) FROM directory").fetchone()[0] >= 6
    for user in users[::20]:
        hashed = store._write_slots.hash(user)
        assert store.delete(user)
        assert not words_left(tmp_path, [user.encode(), hashed])
    assert {*store.add([(user, Event("again", 1.0, 1.0, {})) for user in users[::40]])} == {"added"}
    for number, user in enumerate(users):
        expected = ["again"] if number % 40 == 0 else [] if number % 20 == 0 else [user]
        assert [event.id for event in store.read(user).events] == expected
    assert store.users() == 700 - 35 + 18
    store.close()


@pytest.mark.parametrize("then", ["the user is deleted", "another is deleted", "the store is opened"])
def test_nothing_of_a_forgotten_event_is_left_after_the_next_wipe(tmp_path: Path, then: str) -> None:
    path, user = tmp_path / "store.db", "user 007."
    store = filled(path, random.Random(7), users=60)
    for event in store.read(user).events:
        assert store.forget(user, event.id)
    store.set_profile(user, {})
    assert not store.version(user)
    if then == "the user is deleted":
        assert not store.delete(user)
    elif then == "another is deleted":
        assert store.delete("user 008.")
    else:
        store.close()
        store = SqliteStore(str(path), capacity=20)
    assert not words_left(tmp_path, words_of(7))
    store.close()


@pytest.mark.parametrize("finished_by", ["a deletion", "an opening"])
def test_a_deletion_does_not_wait_for_a_slow_reader_to_leave_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, finished_by: str
) -> None:
    monkeypatch.setattr(sqlite_store, "WIPE_SECONDS", 0.05)
    path, user = tmp_path / "store.db", "user 007."
    store = filled(path, random.Random(7), users=60)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM latest").fetchall()
        assert store.delete(user)
        (warned,) = caplog.records
        assert warned.name == "resus.serving"
        assert "still holds bytes" in warned.message
        assert "user 007" not in caplog.text
        assert words_left(tmp_path, words_of(7))
        SqliteStore(str(path), capacity=20).close()
        store.add([(user, Event("new", 1.0, 1.0, {}))])
        assert store.delete(user)
    if finished_by == "a deletion":
        assert not store.delete(user)
    else:
        SqliteStore(str(path), capacity=20).close()
    assert not words_left(tmp_path, words_of(7))
    store.close()


def test_an_opening_does_not_wait_for_a_slow_writer_to_wipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_store, "WIPE_SECONDS", 0.05)
    path = tmp_path / "store.db"
    store = filled(path, random.Random(7), users=60)
    last = store.read("user 007.").events[-1]
    assert store.forget("user 007.", last.id)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        SqliteStore(str(path), capacity=20).close()
        assert "still holds bytes" in caplog.text
    assert not store.delete("nobody")
    assert not words_left(tmp_path, [last.id.encode()])
    store.close()


def test_threads_write_while_another_waits_to_wipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_store, "WIPE_SECONDS", 60)
    path = tmp_path / "store.db"
    store = filled(path, random.Random(7), users=60)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM latest").fetchall()
        deletion = threading.Thread(target=store.delete, args=["user 007."])
        deletion.start()
        while store.version("user 007."):
            time.sleep(0.01)
        writers = [
            threading.Thread(target=store.add, args=[[(f"new {number}", Event("new", 1.0, 1.0, {}))]], daemon=True)
            for number in range(8)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(20)
            assert not writer.is_alive()
        assert deletion.is_alive()
    deletion.join(60)
    assert not deletion.is_alive()
    assert not caplog.records
    assert not words_left(tmp_path, words_of(7))
    assert all(store.version(f"new {number}") for number in range(8))
    store.close()


KILLED_DELETION = """
import os, sys
from resus.serving.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1], capacity=20)
SqliteStore._wipe = lambda self: os.kill(os.getpid(), 9)
store.delete(sys.argv[2])
"""


@pytest.mark.parametrize("again", ["deleted again", "opened again"])
def test_a_deletion_that_was_killed_is_finished(tmp_path: Path, again: str) -> None:
    path, user = tmp_path / "store.db", "user 007."
    store = filled(path, random.Random(7), users=60)
    if again == "opened again":
        store.close()
    killed = subprocess.run([sys.executable, "-c", KILLED_DELETION, str(path), user], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert any(word in bytes_in(tmp_path) for word in words_of(7))
    if again == "opened again":
        store = SqliteStore(str(path), capacity=20)
    else:
        assert not store.delete(user)
    assert not words_left(tmp_path, words_of(7))
    store.close()


REDIS_WORDS = [b"user 007.", b"event 007.".hex().encode(), b"value 007."]
READABLE = (*DURABLE, "rdbcompression no")


def two_users(url: str) -> EventStore:
    store = open_store(url, capacity=20)
    for user in ("user 007.", "user 008."):
        event = user.replace("user", "event"), 1.0, 1.0, {"item": user.replace("user", "value")}
        store.add([(user, Event(*event))])
    return store


def words_leave(folder: Path) -> bool:
    """Redis rewrites in the background."""
    deadline = time.monotonic() + 30
    while words_left(folder, REDIS_WORDS) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert b"value 008." in bytes_in(folder)
    return not words_left(folder, REDIS_WORDS)


@pytest.mark.parametrize("verb", ["delete", "forget"])
def test_what_redis_deleted_leaves_its_files(tmp_path: Path, verb: str) -> None:
    with redis_process(tmp_path, *READABLE) as server:
        store = two_users(server.url)
        assert words_left(tmp_path, REDIS_WORDS) == REDIS_WORDS
        assert store.delete("user 007.") if verb == "delete" else store.forget("user 007.", "event 007.")
        assert words_leave(tmp_path)
        store.close()


@pytest.mark.parametrize("patient", [True, False])
def test_a_rewrite_that_ran_before_the_deletion_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, patient: bool
) -> None:
    monkeypatch.setattr(redis_store, "REWRITE_SECONDS", 30 if patient else 0)
    with redis_process(tmp_path, *READABLE) as server, redis.Redis.from_url(server.url) as client:
        store = two_users(server.url)
        client.config_set("rdb-key-save-delay", 3_000_000)  # microseconds that the rewrite takes at least
        client.bgrewriteaof()
        assert store.delete("user 007.")
        client.config_set("rdb-key-save-delay", 0)
        assert bool(caplog.records) != patient
        if not patient:
            assert "keeps deleted events" in caplog.text
            assert "user 007" not in caplog.text
            while client.info("persistence")["aof_rewrite_in_progress"]:
                time.sleep(0.05)
            assert words_left(tmp_path, REDIS_WORDS)
            assert not store.delete("user 007.")
        assert words_leave(tmp_path)
        store.close()


@pytest.mark.parametrize("hidden", ["BGREWRITEAOF", "INFO"])
def test_redis_that_does_not_permit_a_rewrite_deletes_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hidden: str
) -> None:
    with redis_process(tmp_path, *READABLE, f'rename-command {hidden} ""') as server:
        store = two_users(f"{server.url}?durable=no")
        assert store.delete("user 007.")
        assert len(caplog.records) == 1
        assert "keeps deleted events" in caplog.text
        store.close()


def test_redis_without_an_append_only_file_does_not_begin_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with redis_process(tmp_path, "appendonly no") as server:
        store = two_users(f"{server.url}?durable=no")
        assert store.delete("user 007.")
        with redis.Redis.from_url(server.url) as client:
            assert not client.info("persistence")["aof_rewrite_in_progress"]
        assert not list(tmp_path.rglob("*.aof"))
        assert not caplog.records
        store.close()
