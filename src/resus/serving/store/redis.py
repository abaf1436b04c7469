"""Events in one Redis (not a cluster), for workers on several hosts."""

import contextlib
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from time import monotonic, sleep
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from resus.checking import on_one_line
from resus.errors import ConfigError, DataError, ResusError, StorageError
from resus.serving.limits import MAX_EVENTS
from resus.serving.store.group_commit import Call, GroupCommit
from resus.serving.store.protocol import Event, EventStatus, UserRecord, check_batch

WAIT_SECONDS = 0.7  # for an answer
AGAIN_SECONDS = 0.5  # until a Redis that did not answer is asked again
REWRITE_SECONDS = 2.0  # for a running rewrite of the append-only file to end
CHECK_SECONDS = 1.0  # a write within this time shows that the store can be written
ADDRESSES = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:/SOCKET?db=DB"
USERS = "resus:users"
DURABLE = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}
UNREACHABLE = "start it, or correct the address"
REFUSED = "check its memory, disk and access rules"
DAMAGED = "run 'resus store check' on it"
VALUES = 6  # of an event, for the script that adds it
OLDEST = 7  # the first major version that logs the only write of a script as a plain command

log = logging.getLogger("resus.serving")

# Everything is in one hash, `resus:users`. Each event has a field of its own, "e" + slot + ":" + user id: time, label,
# id and features, separated by tabs. The id is hex and the features are JSON, so neither holds a tab. Slots are numbers
# from 0; a new event takes the slot of the one that it pushes out. Field "m" + user id is the map of the user: the
# number of slots (3 bytes), then 5 bytes per event in their order, two of a hash of the id and three of the slot. Field
# "v" + user id holds the user's version, field "last" the last version given, and field "users" the number of users.
# The next version is at least the clock, so that a Redis that lost its latest writes does not repeat one.
#
# Every script ends in one write command. Redis 7.0 and later log it as it is, so a kill leaves it whole or not at all.
# Redis logs several writes, and any write of a script before 7.0, as a transaction. If it finds half a transaction at
# its start, it may lose what it writes afterwards (seen in 7.0.15). One HSET stores a batch, and takes events off maps.
# A second script then removes the fields that no map names any more; if it does not come to that, the next deletion of
# the user does it.
COMMON = """
local function next_version()
  local now = redis.call('TIME')
  local last = tonumber(redis.call('HGET', 'resus:users', 'last')) or 0
  return string.format('%.0f', math.max(last + 1, now[1] * 1000000 + now[2]))
end

local function number_in(bytes, at)
  local high, middle, low = string.byte(bytes, at, at + 2)
  return high * 65536 + middle * 256 + low
end

local function in_bytes(number)
  return string.char(math.floor(number / 65536), math.floor(number / 256) % 256, number % 256)
end

-- `map` holds 5 bytes per event, without the first `first` ones, which were pushed out, and `tail` what comes after it;
-- to copy a long map once per event would be slow. `slots` is the number of slots, `written` holds new lines by slot.
local function opened(user)
  local found = redis.call('HGET', 'resus:users', 'm' .. user)
  local state = {user = user, slots = 0, map = '', first = 0, tail = {}, marks = {}, written = {}}
  if found then state.slots, state.map = number_in(found, 1), string.sub(found, 4) end
  return state
end

local function count(state) return #state.map / 5 - state.first + #state.tail end

local function flatten(state)
  local pushed_out = math.max(state.first - #state.map / 5, 0)
  state.map = string.sub(state.map, state.first * 5 + 1) .. table.concat(state.tail, '', pushed_out + 1)
  state.first, state.tail, state.marks = 0, {}, {}
  return state.map
end

local function slot_at(state, place)
  local at, old = state.first + place, #state.map / 5
  if at > old then return number_in(state.tail[at - old], 3) end
  return number_in(state.map, at * 5 - 2)
end

local function field(state, slot) return string.format('e%d:', slot) .. state.user end

local function event_at(state, place)
  local slot = slot_at(state, place)
  local line = state.written[slot] or redis.call('HGET', 'resus:users', field(state, slot))
  if not line then error('an event is missing') end
  local time, label, id, features = string.match(line, '^([^\\t]*)\\t([^\\t]*)\\t([^\\t]*)\\t(.*)$')
  return {time = time, label = label, id = id, features = features}
end

local function place_of(state, mark, id)
  if state.marks[mark] then flatten(state) end
  local at = state.first * 5
  while true do
    at = string.find(state.map, mark, at + 1, true)
    if not at then return nil end
    local place = (at + 4) / 5 - state.first
    if at % 5 == 1 and event_at(state, place).id == id then return place end
  end
end

local function take_off(state, place)
  if place == 1 then
    state.first = state.first + 1
  else
    local map = flatten(state)
    state.map = string.sub(map, 1, place * 5 - 5) .. string.sub(map, place * 5 + 1)
  end
end

-- The fields and values that hold a user. A user without events has version 0.
local function add_fields(values, state, version)
  local fields = {'v' .. state.user, count(state) > 0 and version or '0',
                  'm' .. state.user, in_bytes(state.slots) .. flatten(state)}
  for slot, line in pairs(state.written) do
    table.insert(fields, field(state, slot))
    table.insert(fields, line)
  end
  for _, value in ipairs(fields) do table.insert(values, value) end
end

local function users() return tonumber(redis.call('HGET', 'resus:users', 'users')) or 0 end
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

local function free_slot(state)
  if state.freed then
    local slot = state.freed
    state.freed = nil
    return slot
  end
  if count(state) < state.slots then
    local used = {}
    for place = 1, count(state) do used[slot_at(state, place)] = true end
    for slot = 0, state.slots - 1 do
      if not used[slot] then return slot end
    end
  end
  state.slots = state.slots + 1
  return state.slots - 1
end

local function put(state, mark, slot, new)
  local low, high = 0, count(state)
  if high > 0 and is_before(event_at(state, high), new) then low = high end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(event_at(state, middle + 1), new) then low = middle + 1 else high = middle end
  end
  local record = mark .. in_bytes(slot)
  if low == count(state) then
    table.insert(state.tail, record)
    state.marks[mark] = true
  else
    local map = flatten(state)
    state.map = string.sub(map, 1, low * 5) .. record .. string.sub(map, low * 5 + 1)
  end
  state.written[slot] = new.time .. '\\t' .. new.label .. '\\t' .. new.id .. '\\t' .. new.features
end

local function add(state, mark, new, capacity)
  local place = place_of(state, mark, new.id)
  if place then
    local old, slot = event_at(state, place), slot_at(state, place)
    if old.label == new.label and old.time == new.time then return 'known' end
    new.features = old.features
    take_off(state, place)
    put(state, mark, slot, new)
    return 'corrected'
  end
  local surplus = count(state) - capacity + 1
  if surplus > 0 then
    if is_before(new, event_at(state, surplus)) then return 'too old' end
    state.freed = slot_at(state, 1)
    for _ = 1, surplus do
      state.written[slot_at(state, 1)] = nil
      take_off(state, 1)
    end
  end
  put(state, mark, free_slot(state), new)
  return 'added'
end

local states, changed, outcomes, new_users = {}, {}, {}, 0
for i = 2, #ARGV, 6 do
  local user = ARGV[i]
  local state = states[user] or opened(user)
  states[user] = state
  local is_new = count(state) == 0
  local new = {time = ARGV[i + 2], label = ARGV[i + 3], id = ARGV[i + 4], features = ARGV[i + 5]}
  local outcome = add(state, ARGV[i + 1], new, tonumber(ARGV[1]))
  if is_new then new_users = new_users + 1 end
  if outcome == 'added' or outcome == 'corrected' then changed[user] = state end
  table.insert(outcomes, outcome)
end
if next(changed) then
  local version = next_version()
  local values = {'last', version}
  if new_users > 0 then values = {'last', version, 'users', users() + new_users} end
  for _, state in pairs(changed) do add_fields(values, state, version) end
  redis.call('HSET', 'resus:users', unpack(values))
end
return outcomes
"""
)
# takes one event or all events off the user's map
FORGET = (
    COMMON
    + """
local state = opened(ARGV[1])
if state.map == '' then return 0 end
if ARGV[2] then
  local place = place_of(state, ARGV[2], ARGV[3])
  if not place then return 0 end
  take_off(state, place)
else
  state.map = ''
end
local version = next_version()
local values = {'last', version}
if count(state) == 0 then values = {'last', version, 'users', users() - 1} end
add_fields(values, state, version)
redis.call('HSET', 'resus:users', unpack(values))
return 1
"""
)
# removes up to 5,000 fields that the user's map does not name, and returns where to go on, or 0
SWEEP = (
    COMMON
    + """
local state = opened(ARGV[1])
local used, unused = {}, {}
for place = 1, count(state) do used[slot_at(state, place)] = true end
local first = tonumber(ARGV[2])
local last = math.min(first + 5000, state.slots)
for slot = first, last - 1 do
  if not used[slot] then table.insert(unused, field(state, slot)) end
end
if last == state.slots and state.map == '' then
  table.insert(unused, 'v' .. state.user)
  table.insert(unused, 'm' .. state.user)
end
if #unused > 0 then redis.call('HDEL', 'resus:users', unpack(unused)) end
return last < state.slots and last or 0
"""
)
READ = (
    COMMON
    + """
local state = opened(ARGV[1])
local found = {redis.call('HGET', 'resus:users', 'v' .. state.user) or '0'}
local place = math.max(1, count(state) - tonumber(ARGV[2]) + 1)
while place <= count(state) do
  local fields = {}
  for here = place, math.min(place + 4999, count(state)) do table.insert(fields, field(state, slot_at(state, here))) end
  for _, line in ipairs(redis.call('HMGET', 'resus:users', unpack(fields))) do table.insert(found, line) end
  place = place + #fields
end
return found
"""
)


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
        self._add, self._forget, self._sweep, self._read = map(self._client.register_script, (ADD, FORGET, SWEEP, READ))
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
        values: list[str | bytes] = []
        for user, event in batch:
            # adding 0.0 turns -0.0 into 0.0
            time, label = repr(float(event.time) + 0.0), repr(float(event.label) + 0.0)
            values += [user, _mark(event.id), time, label, _hex(event.id), event.features_as_json()]
        outcomes: list[EventStatus] = self._group.run(values)
        return outcomes

    def version(self, user: str) -> int:
        with self._in_one_sentence():
            return int(self._client.hget(USERS, f"v{user}") or 0)

    def read(self, user: str) -> UserRecord:
        with self._in_one_sentence():
            version, *lines = self._read(args=[user, self._capacity])
        events = [_event(line) for line in lines]
        if None in events:
            raise self._error("holds events that cannot be read", DAMAGED)
        return UserRecord(int(version), tuple(event for event in events if event))

    def forget(self, user: str, event_id: str) -> bool:
        return self._take_off(user, _mark(event_id), _hex(event_id))

    def delete(self, user: str) -> bool:
        return self._take_off(user)

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

    def everything(self) -> Iterator[tuple[str, Event | None]]:
        """All events with their users, None for one that cannot be read. What changes meanwhile may be missing."""
        at = 0
        while True:
            with self._in_one_sentence():
                at, found = self._client.hscan(USERS, at, match="m*", count=1000)
            for name in found:
                user = name[1:].decode()
                try:
                    with self._in_one_sentence():
                        _, *lines = self._read(args=[user, self._capacity])
                except StorageError as error:
                    if not isinstance(error.__cause__, redis.ResponseError):
                        raise
                    lines = [None]
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
                call.outcome = [next(outcomes).decode() for _ in range(len(call.work or []) // VALUES)]
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
            at = int(self._sweep(args=[user, 0]))
            while at:
                at = int(self._sweep(args=[user, at]))
        self._rewrite_log(known)
        return known

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
        return StorageError(
            f"Redis at {self._place} {what}: {remedy}", public=f"the store {what.partition(' (')[0]}: {remedy}"
        )


def _event(line: bytes | None) -> Event | None:
    """None if it is missing or damaged."""
    try:
        time, label, id_, features = (line or b"").split(b"\t")
        return Event(bytes.fromhex(id_.decode()).decode(), float(time), float(label), dict(json.loads(features)))
    except (ValueError, TypeError, DataError):
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
