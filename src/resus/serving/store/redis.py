"""Events in one Redis (not a cluster), for workers on several hosts."""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from resus.checking import on_one_line
from resus.errors import ConfigError, ResusError, StorageError
from resus.serving.store.protocol import Event, EventStatus, UserRecord, check_batch

WAIT_SECONDS = 10.0
REWRITE_SECONDS = 2.0  # for a running rewrite of the append-only file to end
ADDRESSES = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:/SOCKET?db=DB"
USERS = "resus:users"
DURABLE = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}
OLDEST = 7  # the first major version that logs the only write of a script as a plain command

log = logging.getLogger("resus.serving")

# Everything is in one hash, `resus:users`. Field "e" + user id holds the user's events in their order, one per line:
# time, label, id and features, separated by tabs. The id is hex and the features are JSON, so neither holds a tab or a
# line break. Field "v" + user id holds the user's version, and field "last" the last version given. The next version is
# at least the clock, so that a Redis that lost its latest writes does not repeat one.
#
# Every script ends in one write command. Redis 7.0 and later log it as it is, so a kill leaves it whole or not at all.
# Redis logs several writes, and any write of a script before 7.0, as a transaction. If it finds half a transaction at
# its start, it may lose what it writes afterwards (seen in 7.0.15).
COMMON = """
local function next_version()
  local now = redis.call('TIME')
  local last = tonumber(redis.call('HGET', 'resus:users', 'last')) or 0
  return string.format('%.0f', math.max(last + 1, now[1] * 1000000 + now[2]))
end

local function events_of(user)
  local events = {}
  for line in string.gmatch(redis.call('HGET', 'resus:users', 'e' .. user) or '', '[^\\n]+') do
    local time, label, id, features = string.match(line, '^([^\\t]*)\\t([^\\t]*)\\t([^\\t]*)\\t(.*)$')
    table.insert(events, {time = time, label = label, id = id, features = features})
  end
  return events
end

local function written(events)
  local lines = {}
  for i, event in ipairs(events) do
    lines[i] = event.time .. '\\t' .. event.label .. '\\t' .. event.id .. '\\t' .. event.features
  end
  return table.concat(lines, '\\n')
end
"""
ADD = (
    COMMON
    + """
-- The order of `Moment`. `<` on strings would depend on the locale of the server.
local function is_before(one, other)
  local time, other_time = tonumber(one.time), tonumber(other.time)
  if time ~= other_time then return time < other_time end
  for i = 1, math.min(#one.id, #other.id) do
    local letter, other_letter = string.byte(one.id, i), string.byte(other.id, i)
    if letter ~= other_letter then return letter < other_letter end
  end
  return #one.id < #other.id
end

local function add(events, new, capacity)
  for _, event in ipairs(events) do
    if event.id == new.id then
      if event.label == new.label then return 'known' end
      event.label = new.label
      return 'corrected'
    end
  end
  local surplus = #events - capacity + 1
  if surplus > 0 then
    if is_before(new, events[surplus]) then return 'too old' end
    for _ = 1, surplus do table.remove(events, 1) end
  end
  local place = #events + 1
  while place > 1 and is_before(new, events[place - 1]) do place = place - 1 end
  table.insert(events, place, new)
  return 'added'
end

local read, changed, outcomes = {}, {}, {}
for i = 2, #ARGV, 5 do
  local user = ARGV[i]
  read[user] = read[user] or events_of(user)
  local new = {time = ARGV[i + 1], label = ARGV[i + 2], id = ARGV[i + 3], features = ARGV[i + 4]}
  local outcome = add(read[user], new, tonumber(ARGV[1]))
  if outcome == 'added' or outcome == 'corrected' then changed[user] = true end
  table.insert(outcomes, outcome)
end
if next(changed) then
  local version = next_version()
  local values = {'last', version}
  for user in pairs(changed) do
    for _, value in ipairs({'v' .. user, version, 'e' .. user, written(read[user])}) do table.insert(values, value) end
  end
  redis.call('HSET', 'resus:users', unpack(values))
end
return outcomes
"""
)
FORGET = (
    COMMON
    + """
local user, id = ARGV[1], ARGV[2]
local events = events_of(user)
for i, event in ipairs(events) do
  if event.id == id then
    table.remove(events, i)
    if #events == 0 then
      redis.call('HDEL', 'resus:users', 'v' .. user, 'e' .. user)
    else
      local version = next_version()
      redis.call('HSET', 'resus:users', 'last', version, 'v' .. user, version, 'e' .. user, written(events))
    end
    return 1
  end
end
return 0
"""
)


class RedisStore:
    """Each change is one script, which Redis runs alone. Adding an event rewrites its user's events, which are bounded.

    Deleted events leave Redis's data at once. They leave the append-only file when its next rewrite ends, which each
    deletion requests. If Redis refuses, a warning says so, and the next deletion asks again. Snapshots, replicas and
    backups are not touched.
    """

    def __init__(self, url: str, *, capacity: int) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._unwritten = False
        self._client, self._place, durable = _client_of(url)
        self._add = self._client.register_script(ADD)
        self._forget = self._client.register_script(FORGET)
        try:
            with self._in_one_sentence():
                self._client.ping()
                if durable:
                    self._demand_durability()
        except ResusError:
            self.close()
            raise

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[EventStatus]:
        check_batch(batch)
        values: list[str | int] = [self._capacity]
        for user, event in batch:
            # adding 0.0 turns -0.0 into 0.0
            time, label = repr(float(event.time)), repr(float(event.label) + 0.0)
            values += [user, time, label, _hex(event.id), event.features_as_json()]
        with self._in_one_sentence():
            return [outcome.decode() for outcome in self._add(args=values)]

    def version(self, user: str) -> int:
        with self._in_one_sentence():
            return int(self._client.hget(USERS, f"v{user}") or 0)

    def read(self, user: str) -> UserRecord:
        with self._in_one_sentence():
            version, events = self._client.hmget(USERS, f"v{user}", f"e{user}")
        latest = (events or b"").splitlines()[-self._capacity :]
        return UserRecord(int(version or 0), tuple(_event(line) for line in latest))

    def forget(self, user: str, event_id: str) -> bool:
        with self._in_one_sentence():
            known = bool(self._forget(args=[user, _hex(event_id)]))
        self._rewrite_log(known)
        return known

    def delete(self, user: str) -> bool:
        with self._in_one_sentence():
            known = bool(self._client.hdel(USERS, f"v{user}", f"e{user}"))
        self._rewrite_log(known)
        return known

    def users(self) -> int:
        with self._in_one_sentence():
            return int(self._client.hlen(USERS)) // 2

    def close(self) -> None:
        self._client.close()

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
        deadline = time.monotonic() + REWRITE_SECONDS
        while True:
            try:
                self._client.execute_command("BGREWRITEAOF")
                return
            except redis.ResponseError as error:
                if "already in progress" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    @contextlib.contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise StorageError(
                f"cannot reach Redis at {self._place} ({_reason(error)}): start it, or correct the address"
            ) from error
        except redis.RedisError as error:
            raise StorageError(
                f"Redis at {self._place} refused ({_reason(error)}): check its memory, disk and access rules"
            ) from error


def _event(line: bytes) -> Event:
    time, label, id_, features = line.split(b"\t")
    return Event(bytes.fromhex(id_.decode()).decode(), float(time), float(label), json.loads(features))


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
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries=3),  # every call may be repeated safely
    )
    return client, f"unix:{parts.path}?db={db}" if local else f"{parts.scheme}://{host}:{port}/{db}", durable


def _reason(error: Exception) -> str:
    return on_one_line(error).rstrip(".")
