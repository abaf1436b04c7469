"""Every store follows the rules of `EventStore`, as a model in plain Python does; Redis is a real server."""

import contextlib
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis_process import DURABLE, RedisProcess, redis_process
from service_fixtures import Place

from resus.errors import ConfigError, DataError, StorageError
from resus.serving.limits import MAX_EVENTS
from resus.serving.store import (
    STORES,
    Bulk,
    Event,
    EventStore,
    ExpiringStore,
    UserRecord,
    add_bulk,
    add_traced,
    open_store,
)

CAPACITY = 4


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    opened = open_store(place(), capacity=CAPACITY)
    yield opened
    opened.close()


def event(number: int, *, time: float | None = None, label: float = 1.0, **features: Any) -> Event:
    return Event(f"e{number}", float(number) if time is None else time, label, features)


def ids(record: UserRecord) -> list[str]:
    return [kept.id for kept in record.events]


class Remembered:
    """The rules of a store, in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Event]] = {}
        self.profiles: dict[str, dict[str, Any]] = {}

    def add(self, user: str, new: Event) -> str:
        mine = self.kept.setdefault(user, [])
        for place, old in enumerate(mine):
            if old.id == new.id:
                mine[place] = replace(old, label=new.label, time=new.time)
                mine.sort(key=lambda one: (one.time, one.id))
                return "known" if (old.label, old.time) == (new.label, new.time) else "corrected"
        self.kept[user] = sorted([*mine, new], key=lambda one: (one.time, one.id))[-CAPACITY:]
        return "added" if new in self.kept[user] else "too old"

    def forget(self, user: str, event_id: str) -> bool:
        before = self.kept.get(user, [])
        self.kept[user] = [old for old in before if old.id != event_id]
        return len(self.kept[user]) < len(before)

    def delete(self, user: str) -> bool:
        return any([self.kept.pop(user, []), self.profiles.pop(user, {})])

    def set_profile(self, user: str, profile: dict[str, Any]) -> None:
        self.profiles[user] = profile

    def events(self, user: str) -> tuple[Event, ...]:
        return tuple(self.kept.get(user, []))


FIELD_LIKE = ("ersion", "version", "ast", "last")  # with a letter before them, or without, a field of Redis
USERS = st.sampled_from(["ann", "ann", "ann", "", "ü: *\x00 ☃", "ann:1", *FIELD_LIKE])
IDS = st.sampled_from([f"e{number}" for number in range(CAPACITY + 3)] + ["", "e", "0 1 2\n\x00", "é", "\uffff", "😀"])
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52]) | st.sampled_from([0.0, 1.0]) | FINITE
VALUES = st.none() | st.booleans() | st.integers() | FINITE | st.text() | st.lists(st.text(), max_size=2)
EVENTS = st.builds(
    Event,
    id=IDS,
    time=TIMES,
    label=st.sampled_from([0.0, -0.0, 1.0, 0.1]),
    features=st.dictionaries(st.text(), VALUES, max_size=2),
)
PROFILES = st.dictionaries(st.sampled_from(["age", "país"]), VALUES, max_size=2)
STEPS = st.lists(
    st.tuples(st.just("add"), st.lists(st.tuples(USERS, EVENTS), max_size=8))
    | st.tuples(st.just("forget"), st.tuples(USERS, IDS))
    | st.tuples(st.just("profile"), st.tuples(USERS, PROFILES))
    | st.tuples(st.just("delete"), USERS),
    max_size=12,
)


ANY = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],  # `place` empties it each time
)


@ANY
@given(steps=STEPS)
def test_any_sequence_equals_the_model(place: Place, steps: list[tuple[str, Any]]) -> None:
    store, truth = open_store(place(), capacity=CAPACITY), Remembered()
    highest = 0
    seen: dict[str, UserRecord] = {}
    for verb, value in steps:
        if verb == "add":
            assert store.add(value) == [truth.add(user, new) for user, new in value]
        elif verb == "forget":
            assert store.forget(*value) == truth.forget(*value)
        elif verb == "profile":
            store.set_profile(*value)
            truth.set_profile(*value)
        else:
            assert store.delete(value) == truth.delete(value)
        records = {user: store.read(user) for user in set(truth.kept) | set(truth.profiles) | set(seen)}
        for user, record in records.items():
            assert record.events == truth.events(user)
            assert str(record.profile) == str(truth.profiles.get(user, {}))
            assert store.version(user) == record.version
            if not record.events and not record.profile:
                assert record.version == 0
            elif user not in seen or str(seen[user]) != str(replace(record, version=seen[user].version)):
                assert record.version > highest, "a changed user has a version that no user ever had"
            else:
                assert record.version >= seen[user].version
        highest = max([highest, *(record.version for record in records.values())])
        seen = records
        assert store.users() == sum(bool(record.events or record.profile) for record in records.values())
    store.close()


@ANY
@given(batches=st.lists(st.lists(st.tuples(USERS, EVENTS), min_size=1, max_size=3), max_size=8))
def test_who_follows_the_versions_of_events_has_the_events_of_the_store(
    place: Place, batches: list[list[tuple[str, Event]]]
) -> None:
    """A single event of a known user can always be followed; a version that is reached hides no other change."""
    with contextlib.closing(open_store(place(), capacity=CAPACITY)) as store:
        for batch in batches:
            users = sorted({user for user, _ in batch})
            known = {user: store.read(user) for user in users}
            followed, at = Remembered(), {user: record.version for user, record in known.items()}
            followed.kept = {user: list(record.events) for user, record in known.items()}
            for (user, new), added in zip(batch, add_traced(store, batch), strict=True):
                if added.after and added.before == at[user]:
                    assert followed.add(user, new) == added.status
                    at[user] = added.after
            for user in users:
                record, alone = store.read(user), [name for name, _ in batch].count(user) == 1
                assert (at[user] == record.version) or not alone or not known[user].version
                if at[user] == record.version:
                    assert followed.events(user) == record.events


SENT = st.lists(st.tuples(USERS, EVENTS), max_size=16, unique_by=lambda sent: (sent[0], sent[1].id))


@ANY
@given(orders=SENT.flatmap(lambda sent: st.tuples(st.just(sent), st.permutations(sent))))
def test_the_order_of_arrival_does_not_matter(place: Place, orders: tuple[list[tuple[str, Event]], ...]) -> None:
    """And sending events again adds nothing."""
    kept = []
    for sent in orders:
        store = open_store(place(), capacity=CAPACITY)
        for start in range(0, len(sent), 3):
            store.add(sent[start : start + 3])
        before = {user: store.read(user) for user, _ in sent}
        assert {*store.add(sent)} <= {"known", "too old"}
        assert {user: store.read(user) for user, _ in sent} == before
        kept.append({user: record.events for user, record in before.items()})
        store.close()
    assert kept[0] == kept[1]


def test_no_user_is_taken_for_a_field_of_the_store(store: EventStore) -> None:
    store.add([("ann", event(1))])
    for user in FIELD_LIKE:
        assert store.read(user) == UserRecord(0, ())
        assert store.version(user) == 0
        assert not store.delete(user)
    assert store.users() == 1


def test_a_batch_has_a_bound(store: EventStore) -> None:
    """Each event has its own user, which is the most that a store writes at once."""
    sent = [(f"user {number}", event(number)) for number in range(MAX_EVENTS + 1)]
    with pytest.raises(DataError, match=f"{MAX_EVENTS + 1} events is too large: send at most {MAX_EVENTS}"):
        store.add(sent)
    assert store.users() == 0
    assert store.add(sent[1:]) == ["added"] * MAX_EVENTS
    assert store.users() == MAX_EVENTS


def test_events_are_there_for_the_next_process(place: Place) -> None:
    url = place()
    first = open_store(url, capacity=CAPACITY)
    first.add([("ann", event(1, item="x", price=0.1, tags=["a", "b"]))])
    record = first.read("ann")
    first.close()
    second = open_store(url, capacity=CAPACITY)
    assert second.read("ann") == record
    second.delete("ann")
    second.add([("ann", event(2))])
    assert second.version("ann") > record.version, "not even a deletion gives a version again"
    second.close()


def test_profiles_are_there_for_the_next_process(place: Place) -> None:
    where = place()
    store = open_store(where, capacity=CAPACITY)
    store.set_profile("ann", {"age": 30, "langs": ["es", None]})
    first = store.version("ann")
    store.set_profile("ann", {"age": 30, "langs": ["es", None]})
    assert store.version("ann") == first, "nothing has changed"
    store.set_profile("ann", {"age": True})
    store.close()
    store = open_store(where, capacity=CAPACITY)
    assert store.read("ann").profile == {"age": True}
    assert store.version("ann") > first
    store.set_profile("ann", {})
    assert store.read("ann") == UserRecord(0, ())
    assert store.users() == 0
    with pytest.raises(DataError, match="the fields of a profile are not JSON"):
        store.set_profile("ann", {"age": float("nan")})
    store.close()


def test_a_file_of_the_format_without_profiles_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "old"
    store = open_store(str(path), capacity=CAPACITY)
    store.add([("ann", event(1))])
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.execute("DROP TABLE profiles")
        old.execute("PRAGMA user_version = 2")
    store = open_store(str(path), capacity=CAPACITY)
    store.set_profile("ann", {"age": 30})
    assert ids(store.read("ann")) == ["e1"]
    assert store.read("ann").profile == {"age": 30}
    store.close()


def test_a_smaller_capacity_shows_and_keeps_the_latest(place: Place) -> None:
    url = place()
    wide = open_store(url, capacity=CAPACITY)
    wide.add([("ann", event(number)) for number in range(CAPACITY)])
    wide.close()
    narrow = open_store(url, capacity=2)
    assert ids(narrow.read("ann")) == ["e2", "e3"]
    assert narrow.add([("ann", event(9, time=1.5)), ("ann", event(10))]) == ["too old", "added"]
    assert ids(narrow.read("ann")) == ["e3", "e10"]
    narrow.close()


def test_a_batch_with_a_bad_event_changes_nothing(store: EventStore) -> None:
    for features in ({"item": float("nan")}, {"item": object()}):
        with pytest.raises(DataError, match=r"'e2'.*not JSON"):
            store.add([("ann", event(1)), ("ann", event(2, **features))])
    assert store.read("ann") == UserRecord(0, ())


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_an_event_has_a_finite_time_and_label(wrong: float) -> None:
    with pytest.raises(DataError, match="'e1': time"):
        event(1, time=wrong)
    with pytest.raises(DataError, match="'e1': label"):
        event(1, label=wrong)


def test_threads_lose_and_repeat_nothing(place: Place) -> None:
    """Two threads send the same batches while a third reads: each batch counts once, and as a whole."""
    store = open_store(place(), capacity=1000)
    outcomes: list[str] = []
    torn: list[UserRecord] = []
    done = threading.Event()

    def write() -> None:
        for number in range(40):
            outcomes.extend(store.add([("ann", event(2 * number)), ("ann", event(2 * number + 1))]))

    def read() -> None:
        while not done.is_set():
            record = store.read("ann")
            if len(record.events) % 2:
                torn.append(record)

    writers = [threading.Thread(target=write) for _ in range(2)]
    reader = threading.Thread(target=read)
    for thread in [*writers, reader]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not torn
    assert sorted(outcomes) == ["added"] * 80 + ["known"] * 80
    assert ids(store.read("ann")) == [f"e{number}" for number in range(80)]
    store.close()


WRITER = """
import sys
from resus.serving.store import Event, open_store
url, name = sys.argv[1:]
sys.stdin.readline()
store = open_store(url, capacity=1000)
added = 0
for number in range(60):
    shared, own = Event(f"shared {number}", number, 1.0, {}), Event(f"{name} {number}", number, 1.0, {})
    added += store.add([("ann", shared), ("ann", own), (name, own)]).count("added")
    if number % 20 == 10:
        assert store.delete(name)
print(added)
store.close()
"""


@pytest.mark.integration
def test_processes_lose_and_repeat_nothing(place: Place) -> None:
    """They open the store at the same time, and delete users while the other one writes."""
    url, names = place(), ["one", "two"]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in names
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    added = sum(int(writer.communicate(timeout=300)[0]) for writer in writers)
    store = open_store(url, capacity=1000)
    expected = [f"{name} {number}" for number in range(60) for name in ["shared", *names]]
    assert sorted(ids(store.read("ann"))) == sorted(expected)
    assert [ids(store.read(name)) for name in names] == [
        [f"{name} {number}" for number in range(51, 60)] for name in names
    ]
    assert added == len(expected) + 2 * 60
    assert store.users() == 3
    store.close()


def test_a_plain_path_is_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ":memory:"
    open_store(str(path), capacity=1).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("url", ["mysql://user:secret@host", "redsi://:secret@host", "sqlite:", "http://host/secret"])
def test_an_unknown_scheme_gets_the_list_of_known_ones(url: str) -> None:
    with pytest.raises(ConfigError, match=", ".join(f"{scheme}:" for scheme in STORES)) as raised:
        open_store(url, capacity=1)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:port/0",
        "redis://:secret@host/zero",
        "redis://h?durable=perhaps",
        "redis://h?x=1",
        "unix:?db=1",
    ],
)
def test_a_wrong_redis_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="redis://HOST:PORT/DB") as raised:
        open_store(url, capacity=1)
    assert "secret" not in str(raised.value)


def test_a_store_of_your_own_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(STORES, "mine", lambda url, *, capacity: open_store(f"{tmp_path}/{url[5:]}", capacity=capacity))
    with contextlib.closing(open_store("mine:events", capacity=1)) as store:
        store.add([("ann", event(1)), ("ann", event(2))])
        assert ids(store.read("ann")) == ["e2"]
    assert (tmp_path / "events").is_file()


def test_a_folder_or_another_programs_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="choose another place"):
        open_store(str(tmp_path), capacity=1)
    foreign, text = tmp_path / "foreign.db", tmp_path / "notes.txt"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE mine (value)")
    connection.close()
    text.write_text("not a database, but somebody's notes\n" * 100)
    for path in (foreign, text):
        before = path.read_bytes()
        with pytest.raises(StorageError, match=f"{path}.*choose another place"):
            open_store(str(path), capacity=1)
        assert path.read_bytes() == before


def test_redis_that_stops_is_one_sentence(tmp_path: Path) -> None:
    with redis_process(tmp_path) as process:
        store = open_store(process.url, capacity=1)
        process.kill()
        with pytest.raises(StorageError, match=f"Redis at {process.url} cannot be reached "):
            store.version("ann")
        store.close()
        secret = process.url.replace("://", "://user:secret@")
        with pytest.raises(StorageError, match=f"Redis at {process.url} cannot be reached ") as raised:
            open_store(secret, capacity=1)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("set_to", "missing"),
    [
        (("appendonly no",), "appendonly yes, appendfsync always"),
        (("appendonly yes", "appendfsync everysec"), "appendfsync always"),
        ((*DURABLE, "maxmemory-policy allkeys-lru"), "maxmemory-policy noeviction"),
        ((*DURABLE, "no-appendfsync-on-rewrite yes"), "no-appendfsync-on-rewrite no"),
        (
            (*DURABLE, 'rename-command CONFIG ""'),
            "appendonly yes, appendfsync always, no-appendfsync-on-rewrite no, maxmemory-policy noeviction",
        ),
    ],
)
def test_redis_that_may_lose_events_is_used_only_on_request(
    tmp_path: Path, set_to: tuple[str, ...], missing: str
) -> None:
    with redis_process(tmp_path, *set_to) as process:
        with pytest.raises(ConfigError, match=f"may lose acknowledged events: set {missing}.*durable=no"):
            open_store(process.url, capacity=1)
        store = open_store(f"{process.url}?durable=no", capacity=1)
        assert store.add([("ann", event(1))]) == ["added"]
        before = store.version("ann")
        process.empty()
        store.add([("ann", event(2))])
        assert store.version("ann") > before, "a Redis that lost everything does not give a version again"
        store.close()


@pytest.mark.parametrize(("version", "taken"), [("6.2.14", False), ("7.0.0", True), ("10.1.0", True)])
def test_redis_before_7_is_used_only_on_request(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    monkeypatch.setattr(redis.Redis, "info", lambda *_: {"redis_version": version})
    open_store(f"{server.url}?durable=no", capacity=1).close()
    if taken:
        open_store(server.url, capacity=1).close()
        return
    with pytest.raises(
        ConfigError, match=rf"lose .*: use version 7\.0 or later instead of {version}, or add \?durable"
    ):
        open_store(server.url, capacity=1)


def test_redis_that_hides_its_version_is_used_only_on_request(tmp_path: Path) -> None:
    with redis_process(tmp_path, *DURABLE, 'rename-command INFO ""') as process:
        with pytest.raises(ConfigError, match=r"lose .* instead of an unknown one"):
            open_store(process.url, capacity=1)
        open_store(f"{process.url}?durable=no", capacity=1).close()


def test_a_wrong_password_is_one_sentence_without_it(tmp_path: Path) -> None:
    with redis_process(tmp_path, 'requirepass "right secret"') as process:
        for password in ("", ":wrong%20secret@"):
            with pytest.raises(StorageError, match=f"Redis at {process.url} ") as raised:
                open_store(process.url.replace("://", f"://{password}") + "?durable=no", capacity=1)
            assert "secret" not in str(raised.value)
        store = open_store(process.url.replace("://", "://:right%20secret@") + "?durable=no", capacity=1)
        assert store.users() == 0
        store.close()


def test_without_the_redis_package_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "resus.serving.store.redis", raising=False)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError, match=r"pip install 'resus\[redis\]'"):
        open_store("redis://localhost", capacity=1)


def test_a_user_deleted_from_redis_is_in_no_key_and_no_value(server: RedisProcess) -> None:
    server.empty()
    store = open_store(server.url, capacity=CAPACITY)
    store.add([("gone", event(1, item="hidden")), ("stays", event(2))])
    store.set_profile("gone", {"age": "hidden"})
    store.delete("gone")
    with redis.Redis.from_url(server.url) as client:
        client.config_set("rdbcompression", "no")  # so that a dump shows its words
        dumps = b"".join(key + (client.dump(key) or b"") for key in client.scan_iter())
    assert b"stays" in dumps
    assert b"gone" not in dumps
    assert b"hidden" not in dumps
    store.close()


def test_a_user_with_thousands_of_events_leaves_no_field_in_redis(server: RedisProcess) -> None:
    """Redis removes them in several steps."""
    server.empty()
    store = open_store(server.url, capacity=10_000)
    for start in range(0, 12_000, MAX_EVENTS):
        store.add([("ann", event(number)) for number in range(start, start + MAX_EVENTS)])
    assert ids(store.read("ann")) == [f"e{number}" for number in range(2000, 12_000)]
    store.add([("bob", event(1))])
    with redis.Redis.from_url(server.url) as client:
        assert client.hlen("resus:users") > 10_000
        assert store.delete("ann")
        assert sorted(client.hkeys("resus:users")) == [b"e0:bob", b"last", b"mbob", b"users", b"vbob"]
    assert store.users() == 1
    store.close()


@pytest.mark.parametrize("verb", ["delete", "forget"])
@pytest.mark.parametrize("added_again", [False, True])
def test_a_deletion_in_redis_that_stopped_halfway_is_finished_by_the_next(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, verb: str, added_again: bool
) -> None:
    server.empty()
    store = open_store(server.url, capacity=CAPACITY)
    store.add([("ann", event(1, item="hidden"))])

    def stopped(**_: Any) -> None:
        raise redis.ConnectionError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(store, "_sweep", stopped)
        with pytest.raises(StorageError, match="stopped"):
            store.delete("ann") if verb == "delete" else store.forget("ann", "e1")
    assert store.read("ann") == UserRecord(0, ())
    assert store.users() == 0
    if added_again:
        assert store.add([("ann", event(2))]) == ["added"]
        assert ids(store.read("ann")) == ["e2"]
    assert store.delete("ann") == added_again
    with redis.Redis.from_url(server.url) as client:
        assert sorted(client.hkeys("resus:users")) == [b"last", b"users"]
    store.close()


def test_an_event_in_redis_is_appended(server: RedisProcess) -> None:
    """What is written does not contain the other events of the user, and is one command."""
    server.empty()
    store = open_store(server.url, capacity=200)
    store.add([("ann", event(number, item=f"item {number}")) for number in range(200)])
    with redis.Redis.from_url(server.url) as client, client.monitor() as monitor:
        commands = monitor.listen()
        assert store.add([("ann", event(300, item="new"))]) == ["added"]
        assert store.version("ann")
        seen = []
        while (command := next(commands)["command"]) != "HGET resus:users vann":
            seen.append(command)
    writes = [command for command in seen if command.startswith(("HSET", "HDEL", "SET", "DEL"))]
    assert len(writes) == 1
    assert "e0:ann" in writes[0], "it takes the place of the oldest event"
    assert "item 1" not in writes[0]
    store.close()


def in_bulk(events: list[tuple[str, Event]]) -> Bulk:
    """Events as `Bulk` wants them, which have each id of a user once."""
    by_user: dict[str, list[Event]] = {}
    for user, one in events:
        by_user.setdefault(user, []).append(one)
    rows = [(user, one) for user, its in by_user.items() for one in sorted(its, key=lambda one: one.moment)]
    return Bulk(
        users=[user for user, _ in rows],
        ids=[one.id for _, one in rows],
        times=[one.time for _, one in rows],
        labels=[one.label for _, one in rows],
        features=[one.features_as_json() for _, one in rows],
    )


@ANY
@given(before=SENT, steps=STEPS, bulk=SENT)
def test_many_events_at_once_equal_batches(
    place: Place, before: list[tuple[str, Event]], steps: list[tuple[str, Any]], bulk: list[tuple[str, Event]]
) -> None:
    """Into a store with other events, unused space and profiles; whoever looks afterwards sees another version."""
    with contextlib.closing(open_store(place(), capacity=CAPACITY)) as store:
        truth = Remembered()
        for user, new in before:
            store.add([(user, new)])
            truth.add(user, new)
        for verb, value in steps:
            if verb == "delete":
                assert store.delete(value) == truth.delete(value)
            elif verb == "forget":
                assert store.forget(*value) == truth.forget(*value)
            elif verb == "profile":
                store.set_profile(*value)
                truth.set_profile(*value)
        seen = {user: store.read(user) for user, _ in bulk}
        found = add_bulk(store, in_bulk(bulk))
        assert sum(found.values()) == len(bulk)
        columns = in_bulk(bulk)
        for place_, user in enumerate(columns.users):
            truth.add(user, columns.event(place_))
        for user in {user for user, _ in bulk}:
            record = store.read(user)
            assert record.events == truth.events(user)
            assert record.events == seen[user].events or record.version > seen[user].version
        users = {user for user in (*truth.kept, *truth.profiles) if truth.events(user) or truth.profiles.get(user)}
        assert store.users() == len(users)
        again = add_bulk(store, in_bulk(bulk))
        assert set(+again) <= {"known", "too old"}, "the same events again add nothing"


@ANY
@given(events=SENT, profiles=st.dictionaries(USERS, PROFILES, max_size=2), before=TIMES)
def test_old_events_go_and_users_with_their_last(
    place: Place, events: list[tuple[str, Event]], profiles: dict[str, dict[str, Any]], before: float
) -> None:
    with contextlib.closing(open_store(place(), capacity=CAPACITY)) as store:
        assert isinstance(store, ExpiringStore)
        store.add(events)
        for user, profile in profiles.items():
            store.set_profile(user, profile)
        users = {user for user, _ in events} | set(profiles)
        had = {user: store.read(user) for user in users}
        deleted, gone, step = 0, 0, store.expire(before)
        deleted, gone = deleted + step.events, gone + step.users
        while step.cursor:
            step = store.expire(before, step.cursor)
            deleted, gone = deleted + step.events, gone + step.users
        for user in users:
            kept = tuple(one for one in had[user].events if one.time >= before)
            record = store.read(user)
            assert record.events == kept
            if had[user].events and not kept:
                assert record == UserRecord(0, ())
            else:
                assert str(record.profile) == str(had[user].profile)
            assert record.version == had[user].version or len(kept) < len(had[user].events)
        assert deleted == sum(len(had[user].events) - len(store.read(user).events) for user in users)
        assert gone == sum(bool(had[user].events) and not store.read(user).version for user in users)
        assert store.users() == sum(bool(store.read(user).version) for user in users)
        assert store.expire(before).events == 0


def test_steps_of_an_expiry_are_bounded_and_one_process_takes_them(place: Place) -> None:
    where = place()
    with contextlib.closing(open_store(where, capacity=1000)) as store:
        assert isinstance(store, ExpiringStore)
        store.add([("ann", event(number)) for number in range(1000)])
        store.add([(f"user {number}", event(number)) for number in range(1000)])
        events, cursor, steps = 0, "", 0
        while steps == 0 or cursor:
            step = store.expire(950.0, cursor)
            events, cursor, steps = events + step.events, step.cursor, steps + 1
        assert (events, store.users()) == (1900, 51)
        assert steps > 1
        assert [one.time for one in store.read("ann").events] == [float(number) for number in range(950, 1000)]
        assert store.is_turn_to_expire()
        assert store.is_turn_to_expire()
        script = (
            "import sys; from resus.serving.store import open_store; "
            "print(open_store(sys.argv[1], capacity=9).is_turn_to_expire())"
        )
        told = subprocess.run([sys.executable, "-c", script, where], capture_output=True, text=True, check=True)
        assert told.stdout.strip() == "False"
