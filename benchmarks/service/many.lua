-- wrk sends the requests of a file, again and again, over all its connections. A line is "kind path body" with tabs.
local requests, asked = {}, 0

function init(words)
  for line in io.lines(words[1]) do
    local _, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
    table.insert(requests, wrk.format("POST", path, { ["Content-Type"] = "application/json" }, body))
  end
end

function request()
  asked = asked % #requests + 1
  return requests[asked]
end
