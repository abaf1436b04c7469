-- wrk sends the requests of a file, again and again, over one connection. A line of the file is "kind path body" with
-- tabs between; FRESH is replaced by the number of the request, which never repeats if the third word is the time.
-- Writes "kind round microseconds status" per answer.
local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long ns; } moment; int clock_gettime(int, moment *);")
local moment = ffi.new("moment")
local lines, asked, answers, began, first = {}, 0, nil, 0, 0

local function now()
  ffi.C.clock_gettime(1, moment)
  return tonumber(moment.s) * 1e6 + tonumber(moment.ns) / 1e3
end

function init(words)
  for line in io.lines(words[1]) do
    local kind, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
    table.insert(lines, { kind = kind, path = path, body = body })
  end
  answers = io.open(words[2], "w")
  first = tonumber(words[3] or 0)
end

function request()
  local line = lines[asked % #lines + 1]
  asked = asked + 1
  local body = line.body:gsub("FRESH", string.format("%.0f", first + asked))
  local text = wrk.format("POST", line.path, { ["Content-Type"] = "application/json" }, body)
  began = now()
  return text
end

function response(status)
  local elapsed = now() - began
  local line = lines[(asked - 1) % #lines + 1]
  answers:write(line.kind, " ", math.floor((asked - 1) / #lines), " ", string.format("%.0f", elapsed), " ", status, "\n")
end
