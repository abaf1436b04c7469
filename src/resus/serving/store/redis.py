"""Events in one Redis (not a cluster), for workers on several hosts."""

import contextlib
import itertools
import json
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from time import monotonic, sleep
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from resus.checking import on_one_line
from resus.errors import ConfigError, DataError, ResusError, StorageError
from resus.serving.limits import MAX_EVENTS
from resus.serving.store.group_commit import Call, GroupCommit
from resus.serving.store.protocol import (
    TURN_SECONDS,
    Added,
    Bulk,
    Event,
    EventStatus,
    Expired,
    UserRecord,
    as_json,
    check_batch,
)
from resus.serving.store.redis_scripts import ADD, EXPIRE, FORGET, PROFILE, READ, SWEEP, TAKE_TURN, TIDY

WAIT_SECONDS = 0.7  # for an answer
AGAIN_SECONDS = 0.5  # until a Redis that did not answer is asked again
REWRITE_SECONDS = 2.0  # for a running rewrite of the append-only file to end
CHECK_SECONDS = 1.0  # a write within this time shows that the store can be written
ADDRESSES = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:/SOCKET?db=DB"
USERS = "resus:users"
TURN = "resus:expiry"  # which store deletes old events
LOOKED_AT = 1000  # fields in a step of an expiry
EXPIRED = 100  # events in a script of an expiry
DURABLE = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}
UNREACHABLE = "start it, or correct the address"
REFUSED = "check its memory, disk and access rules"
DAMAGED = "run 'resus store check' on it"
KINDS = {UNREACHABLE: "unreachable", REFUSED: "refused", DAMAGED: "damaged"}  # of failures, for metrics
VALUES = 6  # of an event, for the script that adds it
OLDEST = 7  # the first major version that logs the only write of a script as a plain command

log = logging.getLogger("resus.serving")


class RedisStore:
    """Each change is one script, which Redis runs alone. Adding an event writes the event and five bytes for each
    event of the user, not the user's other events.

    A Redis that does not answer within `WAIT_SECONDS` is not asked for `AGAIN_SECONDS`, so that not every caller waits.

    Deleted events leave Redis's data at once. They leave the append-only file when its next rewrite ends, which each
    deletion requests. If Redis refuses, a warning says so, and the next deletion asks again. Snapshots, replicas and
    backups are not touched.
    """

    def __init__(self, url: str, *, capacity: int) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._unwritten = False
        self._ask_again_at = 0.0  # 0 if Redis answers
        self._asking = threading.Lock()
        self._written_at = 0.0
        self._client, self._place, durable = _client_of(url)
        self._group: GroupCommit[list[str | bytes]] = GroupCommit(
            self._add_together, wait=1.3 * WAIT_SECONDS, place=f"in Redis at {self._place}"
        )
        self._name = secrets.token_hex(8)  # of this store, among all that use the same Redis
        self._add, self._forget, self._sweep, self._read, self._profile, self._expire, self._tidy, self._turn = map(
            self._client.register_script, (ADD, FORGET, SWEEP, READ, PROFILE, EXPIRE, TIDY, TAKE_TURN)
        )
        try:
            with self._in_one_sentence():
                self._client.ping()
                if durable:
                    self._demand_durability()
        except ResusError:
            self.close()
            raise

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[EventStatus]:
        return [added.status for added in self.add_traced(batch)]

    def add_traced(self, batch: Sequence[tuple[str, Event]]) -> list[Added]:
        check_batch(batch)
        return self._add_all(
            (user, event.id, event.time, event.label, event.features_as_json()) for user, event in batch
        )

    def add_bulk(self, bulk: Bulk) -> Counter[EventStatus]:
        """Batch by batch, so that nobody waits for long."""
        found: Counter[EventStatus] = Counter()
        rows = zip(bulk.users, bulk.ids, bulk.times, bulk.labels, bulk.features, strict=True)
        for some in iter(lambda: list(itertools.islice(rows, MAX_EVENTS)), []):
            found.update(added.status for added in self._add_all(some))
        return found

    def bulk_order(self, users: Sequence[str]) -> Sequence[int]:
        return [0] * len(users)

    def _add_all(self, rows: Iterable[tuple[str, str, float, float, str]]) -> list[Added]:
        """Add events of a user each: its id, time, label and features."""
        values: list[str | bytes] = []
        for user, event_id, time, label, features in rows:
            # adding 0.0 turns -0.0 into 0.0
            numbers = repr(float(time) + 0.0), repr(float(label) + 0.0)
            values += [user, _mark(event_id), *numbers, _hex(event_id), features]
        outcomes: list[Added] = self._group.run(values)
        return outcomes

    def version(self, user: str) -> int:
        with self._in_one_sentence():
            return int(self._client.hget(USERS, f"v{user}") or 0)

    def read(self, user: str) -> UserRecord:
        with self._in_one_sentence():
            version, described, *lines = self._read(args=[user, self._capacity])
        events, profile = [_event(line) for line in lines], _profile(described)
        if None in events or profile is None:
            raise self._error("holds events that cannot be read", DAMAGED)
        return UserRecord(int(version), tuple(event for event in events if event), profile)

    def set_profile(self, user: str, profile: Mapping[str, Any]) -> None:
        fields = as_json(profile, "the fields of a profile") if profile else ""
        with self._in_one_sentence():
            changed = bool(self._profile(args=[user, fields]))
            self._written_at = monotonic()
            if not profile:
                self._sweep_all(user)
        self._rewrite_log(changed and not profile)

    def forget(self, user: str, event_id: str) -> bool:
        return self._take_off(user, _mark(event_id), _hex(event_id))

    def delete(self, user: str) -> bool:
        return self._take_off(user)

    def expire(self, before: float, cursor: str = "") -> Expired:
        with self._in_one_sentence():
            at, found = self._client.hscan(USERS, int(cursor or 0), match="m*", count=LOOKED_AT)
        names, events, users = [name[1:] for name in found], 0, 0
        while names:
            with self._in_one_sentence():
                done, gone, taken = self._expire(args=[repr(before), EXPIRED, *names])
                if taken:
                    self._tidy(args=taken)
            names, events, users = names[done:], events + len(taken) // 2, users + gone
        self._unwritten = self._unwritten or events > 0
        if not at:
            self._rewrite_log(False)
        return Expired(events, users, str(at or ""))

    def is_turn_to_expire(self) -> bool:
        """As long as the key that says so lives, which is `TURN_SECONDS`."""
        with self._in_one_sentence():
            return bool(self._turn(keys=[TURN], args=[self._name, int(1000 * TURN_SECONDS)]))

    def users(self) -> int:
        with self._in_one_sentence():
            return int(self._client.hget(USERS, "users") or 0)

    def check(self) -> None:
        """Write as an event would be written, unless something was written within `CHECK_SECONDS`."""
        with self._in_one_sentence():
            if monotonic() - self._written_at > CHECK_SECONDS:
                self._client.hset(USERS, "checked", "yes")
                self._written_at = monotonic()
            else:
                self._client.ping()

    def close(self) -> None:
        self._client.close()

    def everything(self) -> Iterator[tuple[str, Event | dict[str, Any] | None]]:
        """All events and profiles with their users, None for one that cannot be read.

        What changes meanwhile may be missing.
        """
        at = 0
        while True:
            with self._in_one_sentence():
                at, found = self._client.hscan(USERS, at, match="m*", count=1000)
            for name in found:
                user = name[1:].decode()
                try:
                    with self._in_one_sentence():
                        _, described, *lines = self._read(args=[user, self._capacity])
                except StorageError as error:
                    if not isinstance(error.__cause__, redis.ResponseError):
                        raise
                    described, lines = b"", [None]
                if described:
                    yield user, _profile(described)
                yield from ((user, _event(line)) for line in lines)
            if not at:
                return

    def _add_together(self, group: Sequence[Call[list[str | bytes]]]) -> None:
        """Batches that wait go to Redis as one. If Redis refuses them, each is tried alone."""
        calls, sent = list(group), list[str | bytes]()
        while calls and (not sent or len(sent) + len(calls[0].work or []) <= MAX_EVENTS * VALUES):
            sent += calls.pop(0).work or []
        now = group[: len(group) - len(calls)]
        try:
            with self._in_one_sentence():
                outcomes = iter(self._add(args=[self._capacity, *sent]))
            self._written_at = monotonic()
            for call in now:
                call.outcome = [_added(*next(outcomes)) for _ in range(len(call.work or []) // VALUES)]
        except StorageError as error:
            refused = isinstance(error.__cause__, redis.ResponseError)
            for call in now:
                if refused and len(now) > 1:
                    self._add_together([call])
                else:
                    call.error = error
        if calls:
            self._add_together(calls)

    def _take_off(self, user: str, *event: str | bytes) -> bool:
        with self._in_one_sentence():
            known = bool(self._forget(args=[user, *event]))
            self._sweep_all(user)
        self._rewrite_log(known)
        return known

    def _sweep_all(self, user: str) -> None:
        at = int(self._sweep(args=[user, 0]))
        while at:
            at = int(self._sweep(args=[user, at]))

    def _demand_durability(self) -> None:
        """Refuse a Redis that may lose acknowledged events, or hides its settings, unless the URL has `?durable=no`."""
        version = self._version()
        found: dict[str, str] = {}
        with contextlib.suppress(redis.ResponseError):
            for setting in DURABLE:
                found |= self._client.config_get(setting)
        wrong = [f"{setting} {value}" for setting, value in DURABLE.items() if found.get(setting) != value]
        if version is None or int(version.partition(".")[0]) < OLDEST:
            remedy = f"use version {OLDEST}.0 or later instead of {version or 'an unknown one'}"
        elif wrong:
            remedy = f"set {', '.join(wrong)} there"
        else:
            return
        raise ConfigError(
            f"Redis at {self._place} may lose acknowledged events: {remedy}, or add ?durable=no to the address"
        )

    def _version(self) -> str | None:
        with contextlib.suppress(redis.ResponseError):
            return str(self._client.info("server")["redis_version"])
        return None

    def _rewrite_log(self, deleted: bool) -> None:
        """Request a rewrite that begins after the deletion; Redis runs one at a time."""
        if not (deleted or self._unwritten):
            return
        self._unwritten = False  # before the request: another thread may fail meanwhile
        try:
            if self._client.info("persistence")["aof_enabled"]:  # otherwise Redis would start such a file
                self._ask_for_rewrite()
        except redis.RedisError as error:
            self._unwritten = True
            log.warning(
                "Redis at %s keeps deleted events in its append-only file until its next rewrite (%s)",
                self._place,
                _reason(error),
            )

    def _ask_for_rewrite(self) -> None:
        deadline = monotonic() + REWRITE_SECONDS
        while True:
            try:
                self._client.execute_command("BGREWRITEAOF")
                return
            except redis.ResponseError as error:
                if "already in progress" not in str(error) or monotonic() > deadline:
                    raise
            sleep(0.02)

    @contextlib.contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        self._check_that_it_answers()
        try:
            yield
            self._ask_again_at = 0.0
        except redis.TimeoutError as error:
            self._ask_again_at = monotonic() + AGAIN_SECONDS
            raise self._error(f"does not answer ({_reason(error)})", UNREACHABLE) from error
        except redis.ConnectionError as error:
            raise self._error(f"cannot be reached ({_reason(error)})", UNREACHABLE) from error
        except redis.RedisError as error:
            raise self._error(f"refused ({_reason(error)})", REFUSED) from error

    def _check_that_it_answers(self) -> None:
        """One caller at a time asks a Redis that did not answer."""
        if not self._ask_again_at:
            return
        with self._asking:
            if monotonic() < self._ask_again_at:
                raise self._error("does not answer", UNREACHABLE)
            self._ask_again_at = monotonic() + WAIT_SECONDS + AGAIN_SECONDS

    def _error(self, what: str, remedy: str) -> StorageError:
        public, kind = f"the store {what.partition(' (')[0]}: {remedy}", KINDS.get(remedy, "other")
        return StorageError(f"Redis at {self._place} {what}: {remedy}", public=public, kind=kind)


def _added(status: bytes, before: bytes, after: bytes) -> Added:
    return Added(cast("EventStatus", status.decode()), int(before), int(after))


def _event(line: bytes | None) -> Event | None:
    """None if it is missing or damaged."""
    try:
        time, label, id_, features = (line or b"").split(b"\t")
        return Event(bytes.fromhex(id_.decode()).decode(), float(time), float(label), dict(json.loads(features)))
    except (ValueError, TypeError, DataError):
        return None


def _profile(text: bytes) -> dict[str, Any] | None:
    """None if it is damaged."""
    try:
        return dict(json.loads(text)) if text else {}
    except (ValueError, TypeError):
        return None


def _mark(event_id: str) -> bytes:
    return blake2b(event_id.encode(), digest_size=2).digest()


def _hex(event_id: str) -> str:
    """Sorts as the ids do."""
    return event_id.encode().hex()


def _client_of(url: str) -> tuple[Any, str, bool]:
    """A client, its address without the password, and `durable`. The client is Any: its types mix sync and async."""
    try:
        parts = urlsplit(url)
        options = {name: values[-1] for name, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()}
        durable = {"yes": True, "no": False}[options.pop("durable", "yes")]
        local = parts.scheme == "unix"
        db = int(options.pop("db", 0) if local else parts.path.strip("/") or 0)
        host, port = parts.hostname or "localhost", parts.port or 6379
        if options or (local and not parts.path):
            raise ValueError(url)
    except (KeyError, ValueError):
        raise ConfigError(f"wrong address of a Redis store: use {ADDRESSES}; ?durable=no is optional") from None
    client = redis.Redis(
        host=host,
        port=port,
        db=db,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        unix_socket_path=parts.path if local else None,
        ssl=parts.scheme == "rediss",
        socket_timeout=WAIT_SECONDS,
        socket_connect_timeout=WAIT_SECONDS,
        # every call may be repeated safely; one that got no answer in time is not
        retry=Retry(ExponentialBackoff(cap=0.1, base=0.05), retries=2, supported_errors=(redis.ConnectionError,)),
    )
    return client, f"unix:{parts.path}?db={db}" if local else f"{parts.scheme}://{host}:{port}/{db}", durable


def _reason(error: Exception) -> str:
    return on_one_line(error).rstrip(".")
