"""What a store and the service do when the file is gone, the bytes are random, the disk is full or Redis hangs."""

import contextlib
import logging
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from redis_process import redis_process
from resus_process import resus_here
from service_fixtures import CAPACITY
from service_process import InProcess, event, in_process, post, predict

from resus.errors import DataError, StorageError
from resus.serving import Engine, LoadedModel
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.limits import MAX_AHEAD, check_times
from resus.serving.store import Event, EventStore, UserRecord, check_store, open_store
from resus.serving.store import redis as redis_store
from resus.serving.store import sqlite as sqlite_store
from resus.serving.store.checking import check, salvage
from resus.serving.store.directory import DamagedError
from resus.serving.store.proof import _checksums
from resus.serving.store.sqlite import SqliteStore

USERS, EVENTS = 40, 25


def filled(store: EventStore) -> dict[str, UserRecord]:
    for user in range(USERS):
        batch = [
            (
                f"user {user}",
                Event(f"event {number}", float(number), 1.0, {"item": f"{user}.{number}", "text": "x" * 50}),
            )
            for number in range(EVENTS)
        ]
        store.add(batch)
    return {f"user {user}": store.read(f"user {user}") for user in range(USERS)}


def writes(store: EventStore) -> list[Callable[[], Any]]:
    return [
        lambda: store.add([("user 1", Event("late", 99.0, 1.0, {}))]),
        lambda: store.forget("user 2", "event 1"),
        lambda: store.delete("user 3"),
        lambda: check_store(store),
    ]


def reads(store: EventStore) -> list[Callable[[], Any]]:
    return [lambda: store.version("user 1"), lambda: store.read("user 1"), store.users]


@pytest.mark.parametrize("end", ["", "-wal"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_not_there_any_more_takes_no_event(tmp_path: Path, end: str, how: str) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(str(path), capacity=100)
    before = filled(store)
    victim = path.with_name(path.name + end)
    victim.rename(tmp_path / "aside")
    if how == "replaced":
        shutil.copy(tmp_path / "aside", victim)
    for call in [*writes(store), *([] if end else reads(store))]:
        with pytest.raises(StorageError, match=f"{path}.*deleted or replaced") as raised:
            call()
        assert raised.value.public
        assert str(tmp_path) not in raised.value.public
    (tmp_path / "aside").replace(victim)
    check_store(store)
    assert store.add([("user 1", Event("new", 100.0, 1.0, {}))]) == ["added"]
    assert store.read("user 0") == before["user 0"]
    store.close()


@pytest.mark.parametrize("left", [0, 1])
def test_a_file_that_was_cut_short_takes_no_event(tmp_path: Path, left: int) -> None:
    """The pages that SQLite has in memory would hide it for a while, and events would go into a log without a file."""
    path = tmp_path / "store.db"
    store = SqliteStore(str(path), capacity=100)
    before = filled(store)
    assert store.delete("user 1")  # empties the log into the file
    whole = path.read_bytes()
    check_store(store)
    os.truncate(path, len(whole) * left // 2 // 4096 * 4096)
    for call in [*writes(store), *reads(store)]:
        with pytest.raises(StorageError, match=f"{path}.*cut short") as raised:
            call()
        assert str(tmp_path) not in (raised.value.public or str(tmp_path))
    with path.open("r+b") as file:
        file.write(whole)
    assert store.add([("user 2", Event("new", 100.0, 1.0, {}))]) == ["added"]
    assert store.read("user 0") == before["user 0"]
    store.close()


def test_an_event_written_while_the_file_is_deleted_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(str(path), capacity=100)
    end = store._write_slots.end

    def deleted() -> None:
        end()
        path.unlink()

    monkeypatch.setattr(store._write_slots, "end", deleted)
    with pytest.raises(StorageError, match="deleted or replaced"):
        store.add([("user 1", Event("new", 100.0, 1.0, {}))])
    store.close()


def overwrite(path: Path, spans: list[tuple[int, int]], chance: random.Random) -> None:
    with path.open("r+b") as stream:
        for start, length in spans:
            stream.seek(start)
            stream.write(chance.randbytes(length))


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("end", ["", "-wal"])
def test_files_that_are_overwritten_as_a_whole_take_no_event(tmp_path: Path, end: str, checkpointed: bool) -> None:
    """What SQLite has in memory would hide it, and the next start would find nothing."""
    path = tmp_path / "store.db"
    store = SqliteStore(str(path), capacity=100)
    before = filled(store)
    if checkpointed:
        assert store.delete("user 1")  # empties the log into the file
        store.add([("user 1", Event("first of the new log", 1.0, 1.0, {}))])
    victim = path.with_name(path.name + end)
    whole = victim.read_bytes()
    overwrite(victim, [(0, len(whole))], random.Random(1))
    for call in writes(store):
        with pytest.raises(StorageError, match=r"damaged.*resus store check") as raised:
            call()
        assert str(tmp_path) not in (raised.value.public or str(tmp_path))
    victim.write_bytes(whole)
    assert store.add([("user 2", Event("new", 100.0, 1.0, {}))]) == ["added"]
    assert store.read("user 0") == before["user 0"]
    store.close()


@pytest.mark.parametrize("seed", range(8))
def test_what_is_acknowledged_in_a_damaged_log_is_there_after_a_crash(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite drops all pages of a log after the first that does not match its checksum."""
    monkeypatch.setattr(sqlite_store, "PROOF_SECONDS", 0.0)
    chance, path = random.Random(seed), tmp_path / "store.db"
    store = SqliteStore(str(path), capacity=100)
    filled(store)
    log = path.with_name("store.db-wal")
    frames = [(chance.randrange(32, log.stat().st_size - 600), chance.choice([1, 600])) for _ in range(seed % 3)]
    overwrite(log, frames, chance)
    acknowledged = []
    for number in range(20):
        with contextlib.suppress(StorageError):
            store.add([(f"user {number}", Event("new", 50.0, 1.0, {}))])
            acknowledged.append(f"user {number}")
    assert acknowledged or frames, "nothing was damaged"
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", tmp_path / f"after.db{end}")
    store.close()
    with contextlib.closing(SqliteStore(str(tmp_path / "after.db"), capacity=100)) as after:
        assert all(after.read(user).events[-1].id == "new" for user in acknowledged)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_acknowledged_in_a_damaged_file_is_there_after_a_crash(tmp_path: Path, seed: int) -> None:
    """The pages that SQLite has in memory are those before the damage."""
    chance, path = random.Random(seed), tmp_path / "store.db"
    store = SqliteStore(str(path), capacity=100)
    filled(store)
    store.delete("user 0")  # empties the log into the file
    time.sleep(0.01)  # the clock of files may tick this slowly
    size = path.stat().st_size
    overwrite(path, [(chance.randrange(4096, size - 600), 600) for _ in range(1 + 30 * seed)], chance)
    acknowledged = []
    for number in range(1, 20):
        with contextlib.suppress(StorageError):
            store.add([("user 1", Event(f"new {number}", 50.0 + number, 1.0, {}))])
            acknowledged.append(f"new {number}")
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", tmp_path / f"after.db{end}")
    with contextlib.suppress(StorageError):
        store.close()
    if acknowledged:
        with contextlib.closing(SqliteStore(str(tmp_path / "after.db"), capacity=100)) as after:
            assert {*acknowledged} <= {one.id for one in after.read("user 1").events}


@given(rows=st.integers(1, 4), pairs=st.integers(1, 6), seed=st.integers(0, 99))
def test_checksums_of_the_log_are_those_of_the_recurrence(rows: int, pairs: int, seed: int) -> None:
    words, start = (
        np.random.default_rng(seed).integers(0, 1 << 32, (rows, width), dtype=np.uint32) for width in (2 * pairs, 2)
    )
    for own, sums, found in zip(words.tolist(), start.tolist(), _checksums(words, start).tolist(), strict=True):
        for one, two in zip(own[::2], own[1::2], strict=True):
            sums[0] = (sums[0] + one + sums[1]) % (1 << 32)
            sums[1] = (sums[1] + two + sums[0]) % (1 << 32)
        assert found == sums


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_are_a_sentence_and_the_rest_is_salvaged(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path, out = tmp_path / "store.db", tmp_path / "salvaged.db"
    store = SqliteStore(str(path), capacity=100)
    before = filled(store)
    store.close()
    assert check(str(path)).problems == []
    size = path.stat().st_size
    with path.open("r+b") as stream:
        for _ in range(chance.choice([1, 4, 16])):
            stream.seek(chance.randrange(0 if seed % 3 == 0 else 4096, size - 600))
            stream.write(chance.randbytes(600))
    with contextlib.suppress(StorageError), contextlib.closing(SqliteStore(str(path), capacity=100)) as damaged:
        for user, record in before.items():
            with contextlib.suppress(StorageError):
                assert damaged.read(user) in (record, UserRecord(0, ()))
        for call in [*writes(damaged), *reads(damaged)]:
            with contextlib.suppress(StorageError):
                call()
        for number in range(20):
            with contextlib.suppress(StorageError):
                damaged.add([(f"user {number}", Event("new", 50.0, 1.0, {}))])
    found = salvage(str(path), out)
    assert found.problems or found.events >= USERS * EVENTS - EVENTS - 1, "the bytes hit nothing that counts"
    assert found.events > 0.8 * USERS * EVENTS
    with contextlib.closing(SqliteStore(str(out), capacity=100)) as saved:
        for user, record in before.items():
            kept = [one for one in saved.read(user).events if one.id not in ("new", "late")]
            assert all(one in record.events for one in kept)


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_the_command_says_what_is_readable_and_salvages_it(tmp_path: Path, kind: str) -> None:
    with contextlib.ExitStack() as stack:
        path, out = tmp_path / "store.db", tmp_path / "salvaged.db"
        server = None if kind == "sqlite" else stack.enter_context(redis_process(tmp_path))
        url = server.url if server else str(path)
        store = open_store(url, capacity=100)
        before = filled(store)
        long = Event("long", 1.0, 1.0, {"item": "y" * 20_000})
        store.add([("someone", long)])
        store.set_profile("described", {"age": 30})
        store.close()
        whole = resus_here("store", "check", url, cwd=tmp_path)
        assert whole.returncode == 0, whole.stderr
        assert whole.stdout == f"{USERS * EVENTS + 1:,} events and 1 profile of {USERS + 2} users are readable\n"
        if server:
            with redis.Redis.from_url(server.url) as client:
                client.hset("resus:users", "e3:user 1", "damaged")
                client.hdel("resus:users", "e4:user 1")
        else:
            content = path.read_bytes()
            for number in (3, 4):
                content = content.replace(f'"1.{number}"'.encode(), b'"?.?"')
            path.write_bytes(content)
        found = resus_here("store", "check", url, "--salvage", out, cwd=tmp_path)
        assert found.returncode == 2
        assert f"{USERS * EVENTS - 1:,} events and 1 profile of {USERS + 2} users" in found.stdout
        assert "damage: 2 events" in found.stdout
        assert f"--store {out}" in found.stdout
        with contextlib.closing(open_store(str(out), capacity=100)) as saved:
            assert saved.read("someone").events == (long,)
            assert saved.read("described").profile == {"age": 30}
            for user, record in before.items():
                missing = {"event 3", "event 4"} if user == "user 1" else set()
                assert saved.read(user).events == tuple(one for one in record.events if one.id not in missing)
        again = resus_here("store", "check", url, "--salvage", out, cwd=tmp_path)
        assert f"{out} exists" in again.stderr


def test_a_file_whose_first_page_is_lost_gives_its_events_all_the_same(tmp_path: Path) -> None:
    path, out = tmp_path / "store.db", tmp_path / "salvaged.db"
    store = SqliteStore(str(path), capacity=100)
    before = filled(store)
    store.set_profile("user 1", {"age": 30})
    store.close()
    content = path.read_bytes()
    path.write_bytes(bytes(4096) + content[4096:])
    with pytest.raises(StorageError, match="resus store check"):
        SqliteStore(str(path), capacity=100)
    found = salvage(str(path), out)
    assert found.outside == found.events == USERS * EVENTS
    with contextlib.closing(SqliteStore(str(out), capacity=100)) as saved:
        assert saved.read("user 1").profile == {"age": 30}
        assert {user: saved.read(user).events for user in before} == {u: r.events for u, r in before.items()}
    with pytest.raises(StorageError, match="is not a file"):
        check(str(tmp_path))


def refusal_of(store: EventStore, one: Event) -> str | None:
    try:
        store.add([("new", one)])
    except StorageError as error:
        return error.public
    return None


@pytest.mark.parametrize("tiny_disk", ["8m"], indirect=True)
def test_on_a_full_disk_events_are_refused_and_users_deleted(tiny_disk: Path) -> None:
    store = SqliteStore(str(tiny_disk / "store.db"), capacity=100)
    before = filled(store)
    with contextlib.suppress(OSError), (tiny_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    with pytest.raises(StorageError, match="disk is full"):
        check_store(store)
    sent = [Event(f"new {number}", 1.0, 1.0, {"item": "x" * 3000}) for number in range(90)]
    added = [one for one in sent if not refusal_of(store, one)]
    assert len(added) < len(sent)
    assert list(store.read("new").events) == sorted(added, key=lambda one: one.moment)
    assert refusal_of(store, sent[-1]) == "cannot use the store: its disk is full; free some space"
    assert store.forget("user 2", "event 1")
    for turn, user in enumerate(before):
        for one in sent if turn < 5 else ():  # events take what a deletion leaves free
            refusal_of(store, replace(one, id=f"{one.id} in turn {turn}"))
        assert store.forget(user, before[user].events[-1].id)
        assert store.delete(user)
        assert not store.version(user)
    content = b"".join(path.read_bytes() for path in tiny_disk.iterdir())
    assert b"user 1" not in content
    (tiny_disk / "filler").unlink()
    check_store(store)
    assert store.add([("new", Event("last", 2.0, 1.0, {}))]) == ["added"]
    store.close()


def test_a_store_that_can_only_be_read_is_not_ready(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "store.db"), capacity=100)
    before = filled(store)
    store._writer.execute("PRAGMA query_only = ON")
    store._written_at = 0.0  # a while ago
    sentence = "cannot use the store: it cannot be written; check its permissions"
    for _ in range(2):  # a write that failed does not show that the store can be written
        assert refusal_of(store, Event("new", 1.0, 1.0, {})) == sentence
        with pytest.raises(StorageError, match="cannot be written"):
            check_store(store)
    assert store.read("user 0") == before["user 0"]
    store.close()


def test_a_store_that_the_next_start_could_not_write_is_not_ready_and_users_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(str(tmp_path / "store.db"), capacity=100)
    filled(store)
    for forbidden in (tmp_path, tmp_path / "store.db", tmp_path / "store.db-wal"):
        monkeypatch.setattr(os, "access", lambda file, _mode, forbidden=forbidden: Path(file) != forbidden)
        with pytest.raises(StorageError, match="cannot be written"):
            check_store(store)
    assert store.delete("user 1")
    store.close()


def test_a_user_who_cannot_be_written_for_damage_makes_the_store_unready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(str(tmp_path / "store.db"), capacity=100)

    def damaged(*_: Any) -> None:
        raise DamagedError("an event is not where it should be")

    with monkeypatch.context() as patched:
        patched.setattr(store._write_slots, "add", damaged)
        assert "resus store check" in (refusal_of(store, Event("e", 1.0, 1.0, {})) or "")
    store.add([("other", Event("e", 1.0, 1.0, {}))])
    with pytest.raises(StorageError, match="resus store check"):
        check_store(store)
    assert refusal_of(store, Event("e", 1.0, 1.0, {})) is None
    check_store(store)
    store.close()


def test_a_store_that_is_no_file_is_refused_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(StorageError, match="not a regular file"):
            SqliteStore(str(tmp_path / name), capacity=1)
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "folder"}


def test_a_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / ".store.db.lock").symlink_to(target)
    with pytest.raises(StorageError, match=r"\.store\.db\.lock.*symbolic links"):
        SqliteStore(str(tmp_path / "store.db"), capacity=1)
    (tmp_path / ".store.db.lock").unlink()
    (tmp_path / ".store.db.reserve").symlink_to(target)
    (tmp_path / ".store.db.lock").write_text("somebody's")
    SqliteStore(str(tmp_path / "store.db"), capacity=1).close()
    assert target.read_text() == "precious"
    assert (tmp_path / ".store.db.lock").read_text() == "somebody's"


def test_times_of_events_are_at_most_a_day_ahead() -> None:
    now = time.time()
    check_times([0.0, -1e300, now, now + MAX_AHEAD - 60])
    for wrong in (now + MAX_AHEAD + 60, now * 1000, 9e15):
        with pytest.raises(DataError, match=r"events\[1\], time: .* more than a day ahead; give seconds since 1970"):
            check_times([now, wrong])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-01-31T10:00:00Z", 1706695200.0),
        ("2024-01-31T12:00:00+02:00", 1706695200.0),
        ("2024-01-31 10:00:00.5", 1706695200.5),
        ("2024-01-31", 1706659200.0),
        ("7", 7.0),
    ],
)
def test_a_time_may_be_written_as_in_a_table(client: InProcess, text: str, seconds: float) -> None:
    assert post(client, event(1) | {"time": text}) == ["added"]
    assert client.get("/v1/users/u").json()["events"][0]["time"] == seconds


@pytest.mark.parametrize("text", ["yesterday", "", "2024-13-01", "2" * 5000, "9999-01-01T00:00:00Z"])
def test_text_that_is_no_time_is_one_sentence(client: InProcess, text: str) -> None:
    refused = client.post("/v1/events", json={"events": [event(1) | {"time": text}]})
    assert refused.status_code == 422
    assert "since 1970" in refused.json()["error"]


def test_the_service_refuses_the_far_future_and_takes_a_corrected_time(client: InProcess) -> None:
    far = client.post("/v1/events", json={"events": [event(1), event(2, time=9e15)]})
    assert far.status_code == 422
    assert "events[1], time" in far.json()["error"]
    assert client.get("/v1/users/u").status_code == 404
    assert post(client, event(1), event(2)) == ["added", "added"]
    assert post(client, event(1, time=7.0), event(2)) == ["corrected", "known"]
    stored = client.get("/v1/users/u").json()["events"]
    assert [(one["id"], one["time"]) for one in stored] == [("e2", 2.0), ("e1", 7.0)]
    assert predict(client, user="u", items=["1"]).support == 2


@pytest.fixture
def service(exported: Path) -> Iterator[Callable[[str], InProcess]]:
    """Builds a service on a store."""
    with contextlib.ExitStack() as stack:

        def build(url: str) -> InProcess:
            engine = Engine(LoadedModel.load(exported), open_store(url, capacity=CAPACITY), capacity=CAPACITY)
            return stack.enter_context(in_process(build_app(engine, exported, Access("localhost", None))))

        yield build


def statuses(client: InProcess) -> dict[str, tuple[int, str]]:
    """Of everything that needs the store, and the sentence of a refusal."""
    answers = {
        "event": client.post("/v1/events", json={"events": [event(1, time=time.time())]}),
        "predict": client.post("/v1/predict", json={"user": "u", "items": ["1"]}),
        "read": client.get("/v1/users/u"),
        "delete": client.delete("/v1/users/v"),
        "ready": client.get("/readyz"),
    }
    return {name: (answer.status_code, answer.json().get("error", "")) for name, answer in answers.items()}


def assert_only_inline_works(client: InProcess, reason: str) -> None:
    for name, (status, sentence) in statuses(client).items():
        assert status == 503, name
        assert reason in sentence
        assert "/" not in sentence
    inline = {"events": [{"label": 1, "item": "1"}], "items": ["1"]}
    assert client.post("/v1/predict", json=inline).status_code == 200
    assert client.get("/healthz").status_code == 200


def test_a_service_whose_file_is_deleted_is_not_ready(
    service: Callable[[str], InProcess], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "events.db"
    client = service(str(path))
    assert {status for status, _ in statuses(client).values()} == {200}
    path.rename(tmp_path / "aside")
    with caplog.at_level(logging.ERROR, logger="resus"):
        assert_only_inline_works(client, "deleted or replaced")
    assert str(path) in caplog.text
    (tmp_path / "aside").rename(path)
    assert {status for status, _ in statuses(client).values()} == {200}


def test_a_service_whose_file_is_damaged_answers_with_the_sentence(
    service: Callable[[str], InProcess], tmp_path: Path
) -> None:
    path = tmp_path / "events.db"
    client = service(str(path))
    statuses(client)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as stream:
        stream.write(b"\xff" * path.stat().st_size)
    found = statuses(client)
    assert {found[name][0] for name in ("event", "predict", "read")} == {503}
    assert all("resus store check" in found[name][1] for name in ("event", "predict", "read"))


def test_a_redis_that_hangs_holds_nobody_up(
    service: Callable[[str], InProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request waits for it; the others are refused at once until it is asked again."""
    monkeypatch.setattr(redis_store, "AGAIN_SECONDS", 600)
    waits: list[redis.TimeoutError] = []
    usual = redis.Connection.read_response

    def counted(self: Any, *given: Any, **options: Any) -> Any:
        try:
            return usual(self, *given, **options)
        except redis.TimeoutError as error:
            waits.append(error)
            raise

    monkeypatch.setattr(redis.Connection, "read_response", counted)
    with redis_process(tmp_path) as server:
        client = service(server.url)
        assert {status for status, _ in statuses(client).values()} == {200}
        with server.stopped():
            assert_only_inline_works(client, "does not answer")
        assert len(waits) == 1
        clock = time.monotonic
        monkeypatch.setattr(redis_store, "monotonic", lambda: clock() + 600)
        assert {status for status, _ in statuses(client).values()} == {200}
        server.kill()
        assert_only_inline_works(client, "cannot be reached")
