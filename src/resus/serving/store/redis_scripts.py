"""How users lie in Redis, and the scripts that change and read them."""

# Everything is in one hash, `resus:users`. Each event has a field of its own, "e" + slot + ":" + user id: time, label,
# id and features, separated by tabs. The id is hex and the features are JSON, so neither holds a tab. Slots are numbers
# from 0; a new event takes the slot of the one that it pushes out. Field "m" + user id is the map of the user: the
# number of slots (3 bytes), then 5 bytes per event in their order, two of a hash of the id and three of the slot. Field
# "p" + user id holds the profile as JSON, empty if there is none. Field
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
  local map, profile, version = unpack(redis.call('HMGET', 'resus:users', 'm' .. user, 'p' .. user, 'v' .. user))
  local state = {user = user, slots = 0, map = '', first = 0, tail = {}, marks = {}, written = {}}
  if map then state.slots, state.map = number_in(map, 1), string.sub(map, 4) end
  state.profile, state.version = profile or '', version or '0'
  return state
end

local function count(state) return #state.map / 5 - state.first + #state.tail end

local function is_known(state) return count(state) > 0 or state.profile ~= '' end

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

-- The fields and values that hold a user. A user without events and profile has version 0.
local function add_fields(values, state, version)
  local fields = {'v' .. state.user, is_known(state) and version or '0',
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

local states, changed, outcomes, new_users, version = {}, {}, {}, 0, '0'
for i = 2, #ARGV, 6 do
  local user = ARGV[i]
  local state = states[user] or opened(user)
  states[user] = state
  local is_new = not is_known(state)
  local new = {time = ARGV[i + 2], label = ARGV[i + 3], id = ARGV[i + 4], features = ARGV[i + 5]}
  local is_surplus = count(state) > tonumber(ARGV[1])
  local outcome = add(state, ARGV[i + 1], new, tonumber(ARGV[1]))
  if is_new then new_users = new_users + 1 end
  local changes = outcome == 'added' or outcome == 'corrected'
  if changes then changed[user], state.changes = state, (state.changes or 0) + 1 end
  if is_surplus then state.changes = (state.changes or 0) + 1 end
  table.insert(outcomes, {outcome, changes and state or nil})
end
if next(changed) then
  version = next_version()
  local values = {'last', version}
  if new_users > 0 then values = {'last', version, 'users', users() + new_users} end
  for _, state in pairs(changed) do add_fields(values, state, version) end
  redis.call('HSET', 'resus:users', unpack(values))
end
-- an event that is the only change of its user comes with the versions before and after it
for _, outcome in ipairs(outcomes) do
  local state = outcome[2]
  local alone = state and state.changes == 1
  outcome[2], outcome[3] = alone and state.version or '0', alone and version or '0'
end
return outcomes
"""
)
# takes one event, or all events and the profile, off the user
FORGET = (
    COMMON
    + """
local state = opened(ARGV[1])
if not is_known(state) then return 0 end
if ARGV[2] then
  local place = place_of(state, ARGV[2], ARGV[3])
  if not place then return 0 end
  take_off(state, place)
else
  state.map, state.profile = '', ''
end
local version = next_version()
local values = {'last', version}
if not is_known(state) then values = {'last', version, 'users', users() - 1} end
if not ARGV[2] then
  table.insert(values, 'p' .. state.user)
  table.insert(values, '')
end
add_fields(values, state, version)
redis.call('HSET', 'resus:users', unpack(values))
return 1
"""
)
# takes up to ARGV[2] events before a time off the users that follow, and the profile with the last event; returns how
# many users need no further call, how many are gone, and the user and the slot of each event
EXPIRE = (
    COMMON
    + """
local before, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local changed, taken, gone, done = {}, {}, 0, 0
for i = 3, #ARGV do
  local state = opened(ARGV[i])
  while left > 0 and count(state) > 0 and tonumber(event_at(state, 1).time) < before do
    table.insert(taken, state.user)
    table.insert(taken, slot_at(state, 1))
    take_off(state, 1)
    left = left - 1
    changed[state.user] = state
  end
  if changed[state.user] and count(state) == 0 then
    state.profile = ''
    gone = gone + 1
  end
  if left == 0 then break end
  done = done + 1
end
if #taken > 0 then
  local version = next_version()
  local values = {'last', version, 'users', users() - gone}
  for user, state in pairs(changed) do
    if state.profile == '' then
      table.insert(values, 'p' .. user)
      table.insert(values, '')
    end
    add_fields(values, state, version)
  end
  redis.call('HSET', 'resus:users', unpack(values))
end
return {done, gone, taken}
"""
)
# removes the fields of these users and slots that no map names any more
TIDY = (
    COMMON
    + """
local states, used, unused = {}, {}, {}
for i = 1, #ARGV, 2 do
  local user, slot = ARGV[i], tonumber(ARGV[i + 1])
  if not states[user] then
    states[user], used[user] = opened(user), {}
    for place = 1, count(states[user]) do used[user][slot_at(states[user], place)] = true end
  end
  if not used[user][slot] then table.insert(unused, field(states[user], slot)) end
end
for user, state in pairs(states) do
  if not is_known(state) then
    for _, letter in ipairs({'v', 'm', 'p'}) do table.insert(unused, letter .. user) end
  end
end
if #unused > 0 then redis.call('HDEL', 'resus:users', unpack(unused)) end
"""
)
# gives the turn to who asks if nobody has it, and renews it
TAKE_TURN = """
local who = redis.call('GET', KEYS[1])
if who and who ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
# replaces the profile, unless it is the same
PROFILE = (
    COMMON
    + """
local state = opened(ARGV[1])
if state.profile == ARGV[2] then return 0 end
local was_known = is_known(state)
state.profile = ARGV[2]
local version = next_version()
local values = {'last', version, 'p' .. state.user, ARGV[2]}
if is_known(state) ~= was_known then
  table.insert(values, 'users')
  table.insert(values, users() + (was_known and -1 or 1))
end
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
if last == state.slots and not is_known(state) then
  for _, letter in ipairs({'v', 'm', 'p'}) do table.insert(unused, letter .. state.user) end
end
if #unused > 0 then redis.call('HDEL', 'resus:users', unpack(unused)) end
return last < state.slots and last or 0
"""
)
READ = (
    COMMON
    + """
local state = opened(ARGV[1])
local found = {state.version, state.profile}
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
