"""No request makes the service fail or use more memory.

    python -m benchmarks.service.fuzz            10,000 mangled requests, attacks on connections, then Schemathesis

A mangled request is a good one with some values replaced, bytes changed, or another address. A fifth stays good.
Schemathesis reads the OpenAPI description.
"""

import argparse
import collections
import http.client
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console

from benchmarks.service.attacks import attack_all
from benchmarks.service.served import Served, exported, items_of, served

REQUESTS, WARM_UP, EXAMPLES = 10_000, 2_000, 100
GROWTH_BYTES = 16 * 2**20  # an allocator may keep as much; 8,000 leaks of 4 KiB would be twice as much
LOG_LINES = 10_000  # an hour of different lines
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
PATHS = (
    "/",
    "/curves",
    "/docs",
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/events",
    "/v1/predict",
    "/v1/model",
    "/v1/catalogue",
    "/v1/test-users/random",
    "/v1/results",
    "/v1/users/u1",
    "/v1/users/%ff%00",
    "/v1/users/a%2Fb/events/e1",
    "/page/../app.py",
    "/v1/users/" + "x" * 3000,
    "/v1/catalogue?limit=-1",
    "/v1/catalogue?query=%F0%9F%92%A9&limit=1e9",
)
HEADERS = (
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/json; charset=utf-16"},
    {"Content-Encoding": "gzip"},
    {"Host": "example.org"},
    {"Origin": "https://example.org"},
    {"Content-Length": "-1"},
    {"Authorization": "Bearer " + "x" * 5000},
)
NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1e308,
    -1e308,
    2**63,
    10**400,
    1e-320,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\x00",
    "\ud800",
    "💩" * 300,
    "x" * 2000,
    "NaN",
    "9" * 999 + "x",
    "1e400",
    [],
    [[]],
    [None] * 300,
    {},
    {"": ""},
    {"item": {"item": {}}},
)
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="examples of Schemathesis per route")
    parser.add_argument("--run", type=Path, help="serve this export instead of one of MovieLens-1M")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log:
        with served(asked.run or exported("ridge"), f"{folder}/events.sqlite", log=log.fileno()) as service:
            _fuzz(service, asked.requests)
            attack_all(service, console)
            _schemathesis(service, asked.examples, folder)
            assert service.process.poll() is None
        log.seek(0)
        lines = len(log.readlines())
        console.print(f"{lines:,} lines in the log")
        if lines > LOG_LINES:
            raise SystemExit(f"the log has {lines:,} lines")


def _fuzz(service: Served, requests: int) -> None:
    chance = random.Random(8)
    items = items_of(service.address, 100)
    statuses: collections.Counter[int] = collections.Counter()
    begun = 0
    for number in range(requests):
        if number == min(WARM_UP, requests // 2):
            _, begun = service.peak_and_now()
        request = _mangled(chance, items)
        status = _send(service.address, *request)
        statuses[status] += 1
        if status >= 500 or (status == 0 and "Content-Length" not in request[2]):
            raise SystemExit(f"request {number} (seed 8) was answered with {status}")
    _, ended = service.peak_and_now()
    counted = ", ".join(f"{count:,} × {status or 'closed'}" for status, count in sorted(statuses.items()))
    grown = f"{begun / 2**20:.1f} MiB after {min(WARM_UP, requests // 2):,}, {ended / 2**20:.1f} MiB at the end"
    console.print(f"{requests:,} mangled requests, no 5xx: {counted}; memory {grown}")
    if ended - begun > GROWTH_BYTES:
        raise SystemExit(f"the service grew by {(ended - begun) / 2**20:.1f} MiB")


def _mangled(chance: random.Random, items: list[str]) -> tuple[str, str, dict[str, str], bytes]:
    method, path, headers = "POST", chance.choice(("/v1/events", "/v1/predict")), {"Content-Type": "application/json"}
    value = _good(chance, path, items)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        value = _bent(value, chance)
    body = json.dumps(value).encode()
    if chance.random() < 0.1:
        depth = chance.choice((10, 1000, 100_000))
        body = b'{"events":' + b"[" * depth + b"]" * depth * chance.randint(0, 1)
    if chance.random() < 0.15:
        body = _broken(body, chance)
    if chance.random() < 0.15:
        method, path = chance.choice(METHODS), chance.choice(PATHS)
    if chance.random() < 0.1:
        headers |= chance.choice(HEADERS)
    return method, path, headers, body


def _good(chance: random.Random, path: str, items: list[str]) -> Any:
    def event() -> dict[str, Any]:
        return {
            "id": f"e{chance.randrange(20)}",
            "time": chance.random(),
            "label": chance.randint(0, 1),
            "item": chance.choice(items),
            "features": {"genres": ["Drama", "War"], "age": 25},
        }

    if path == "/v1/events":
        return {"events": [event() | {"user": f"u{chance.randrange(20)}"} for _ in range(chance.randint(1, 5))]}
    asked: dict[str, Any] = {"context": {"gender": "F"}, "explain": chance.random() < 0.5}
    asked |= {"user": f"u{chance.randrange(40)}"} if chance.random() < 0.5 else {"events": [event(), event()]}
    return asked | ({"items": chance.sample(items, 5)} if chance.random() < 0.5 else {"candidates": [{"age": 1}]})


def _bent(value: Any, chance: random.Random) -> Any:
    """One place of a JSON value replaced, dropped or doubled."""
    if chance.random() < 0.2 or not value or not isinstance(value, dict | list):
        return chance.choice(NASTY)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        return [*value[:place], _bent(value[place], chance), *value[place + chance.randint(0, 1) :]]
    key = chance.choice(list(value))
    kept = {name: kept for name, kept in value.items() if name != key}
    if chance.random() < 0.15:
        return kept | {chance.choice(("", "x" * 3000, "user", "\ud800")): value[key]}
    return kept | {key: _bent(value[key], chance)}


def _broken(body: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(body) + 1)
    return body[:place] + chance.randbytes(chance.randint(0, 3)) + body[place + chance.randint(0, 3) :]


def _send(address: str, method: str, path: str, headers: dict[str, str], body: bytes) -> int:
    """The status; 0 if the service closed the connection because the request was not HTTP."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (ConnectionError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _schemathesis(service: Served, examples: int, folder: str) -> None:
    program = str(Path(sys.executable).with_name("schemathesis"))
    words = [program, "run", f"{service.address}/openapi.json", "--checks", "not_a_server_error", "--no-color"]
    words += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(examples), "--seed", "1"]
    words += ["--continue-on-failure"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    console.print(done.stdout[-2500:], markup=False, highlight=False)
    if done.returncode:
        raise SystemExit(f"Schemathesis found an answer of 5xx, or could not run: {done.stderr[-1000:]}")


if __name__ == "__main__":
    main()
