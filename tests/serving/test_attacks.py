"""A real service under attack: it refuses at the bound, stays small, and goes on serving others."""

import contextlib
import json
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis
from redis_process import redis_process
from service_process import PATIENCE, Serving, event, serving, stopped, wait_until

from resus.serving.http.protocol import HEAD_BYTES, HEAD_FIELDS

pytestmark = pytest.mark.integration

TOKEN = "a-token-of-some-length"
MIB = 1 << 20
JSON = "Content-Type: application/json"
STARTS = {
    "httptools": "",
    "h11": "import sys; sys.modules['httptools'] = sys.modules['uvloop'] = None; ",  # as if they were missing
}
FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "


def command(start: str) -> list[str]:
    return [sys.executable, "-c", f"{start}from resus.cli.main import main; main()"]


@pytest.fixture(scope="module", params=list(STARTS))
def attacked(
    request: pytest.FixtureRequest, exported: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """One process that may open 256 files and demands a token."""
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "token").write_text(TOKEN)
    options = ("--store", folder / "events", "--token-file", folder / "token")
    with serving(exported, *options, token=TOKEN, command=command(FEW_FILES + STARTS[request.param])) as service:
        service.predict(items=["1"])
        yield service


def dial(service: Serving) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port))
    connection.settimeout(PATIENCE)
    return connection


def head(*lines: str, method: str = "GET", path: str = "/v1/model", token: bool = True) -> bytes:
    words = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    words += [f"Authorization: Bearer {TOKEN}"] * token
    return "\r\n".join([*words, *lines, "", ""]).encode()


def raw(service: Serving, sent: bytes) -> tuple[int, bytes]:
    """The status and body of the answer to bytes; the status is 0 if the service closed without an answer."""
    with dial(service) as connection:
        try:
            connection.sendall(sent)
        except OSError:
            return 0, b""
        return answer_on(connection)


def answer_on(connection: socket.socket) -> tuple[int, bytes]:
    with connection.makefile("rb") as answer:
        try:
            line = answer.readline()
        except OSError:
            return 0, b""
        if not line:
            return 0, b""
        length = 0
        while (header := answer.readline()) not in (b"\r\n", b""):
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return int(line.split()[1]), answer.read(length)


def memory_of(service: Serving) -> int:
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def lines_of(service: Serving) -> list[str]:
    """What the service has logged so far."""
    with Path(f"/proc/{service.process.pid}/fd/2").open() as log:
        return log.read().splitlines()


def test_both_stacks_serve_what_they_should(attacked: Serving, request: pytest.FixtureRequest) -> None:
    maps = Path(f"/proc/{attacked.process.pid}/maps").read_text()
    stack = request.node.callspec.params["attacked"]
    assert ("httptools" in maps, "uvloop" in maps) == (stack == "httptools",) * 2
    assert raw(attacked, head())[0] == 200
    with dial(attacked) as connection:  # pipelined
        connection.sendall(head() * 3)
        assert [answer_on_one(connection)[0] for _ in range(3)] == [200] * 3


def answer_on_one(connection: socket.socket) -> tuple[int, bytes]:
    """Like `answer_on`, without reading ahead."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(1)
    length = int(re.search(rb"content-length: (\d+)", received.lower())[1])  # type: ignore[index]
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return int(received.split()[1]), body


@pytest.mark.parametrize(
    "lines",
    [
        [f"X-Long: {'x' * HEAD_BYTES}"],
        [f"X-{number}: {'x' * 500}" for number in range(40)],
        [f"X-{number}: x" for number in range(HEAD_FIELDS + 1)],
    ],
    ids=["one long header", "many bytes", "many headers"],
)
def test_large_headers_are_refused(attacked: Serving, lines: list[str]) -> None:
    status, body = raw(attacked, head(*lines))
    assert status == 431
    assert "headers" in json.loads(body)["error"]


def test_a_hundred_mebibytes_of_headers_are_not_taken(attacked: Serving) -> None:
    before = memory_of(attacked)
    for piece in (b"x" * MIB, b"".join(b"X-%d: %s\r\n" % (number, b"x" * 100) for number in range(10_000))):
        with dial(attacked) as connection:
            connection.sendall(head()[:-2] + b"X: ")
            sent = 0
            try:
                while sent < 100 * MIB:
                    connection.sendall(piece)
                    sent += len(piece)
            except OSError:
                pass
        assert sent < 20 * MIB  # what the buffers of the two ends hold
    assert memory_of(attacked) - before < 30 * MIB


def test_trailers_count_as_headers(attacked: Serving) -> None:
    body = b'{"items": ["1"]}'
    start = head(JSON, "Transfer-Encoding: chunked", method="POST", path="/v1/predict")
    whole = start + b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    assert raw(attacked, whole + b"\r\n")[0] == 200
    many = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 100) for number in range(40_000))
    assert raw(attacked, whole + many + b"\r\n")[0] in (0, 400, 431)


def test_a_large_body_without_a_token_is_refused_unread(attacked: Serving) -> None:
    before = memory_of(attacked)
    start = head(JSON, "Transfer-Encoding: chunked", method="POST", token=False)
    with dial(attacked) as connection:
        connection.sendall(start)
        assert answer_on(connection)[0] == 401, "the answer comes before the body"
        chunk = b"%x\r\n%s\r\n" % (MIB, b"x" * MIB)
        sent = 0
        try:
            for _ in range(64):
                connection.sendall(chunk)
                sent += 1
        except OSError:
            pass
        assert sent < 20
    assert memory_of(attacked) - before < 30 * MIB


@pytest.mark.parametrize("mark", ["Transfer-Encoding: chunked", f"Content-Length: {64 * MIB}"])
def test_a_large_body_is_refused_at_the_bound(attacked: Serving, mark: str) -> None:
    start = head(JSON, mark, method="POST", path="/v1/events")
    chunk = b"%x\r\n%s\r\n" % (MIB, b"x" * MIB) if "chunked" in mark else b"x" * MIB
    with dial(attacked) as connection:
        connection.sendall(start)
        sender = threading.Thread(target=send_until_refused, args=(connection, chunk))
        sender.start()
        status, _ = answer_on(connection)
        sender.join(PATIENCE)
    assert status == 413


def send_until_refused(connection: socket.socket, chunk: bytes) -> None:
    try:
        for _ in range(64):
            connection.sendall(chunk)
    except OSError:
        pass


SMUGGLED: dict[str, bytes] = {
    "length and chunks": head("Content-Length: 5", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n",
    "chunks and length": head("Transfer-Encoding: chunked", "Content-Length: 5", method="POST") + b"0\r\n\r\n",
    "two lengths": head("Content-Length: 1", "Content-Length: 2", method="POST") + b"xx",
    "an encoding before the chunks": head("Transfer-Encoding: gzip, chunked", method="POST") + b"0\r\n\r\n",
    "bare line feeds": head().replace(b"\r\n", b"\n"),
    "one bare line feed": head().replace(b"127.0.0.1\r\n", b"127.0.0.1\n"),
    "two hosts": head("Host: localhost"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


@pytest.mark.parametrize("attack", SMUGGLED)
def test_a_request_that_can_be_read_in_two_ways_is_refused(attacked: Serving, attack: str) -> None:
    status, body = raw(attacked, SMUGGLED[attack])
    assert status == 400
    assert list(json.loads(body)) == ["error"]


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("together", [True, False])
def test_an_upgrade_loses_no_body_and_smuggles_nothing(attacked: Serving, protocol: str, together: bool) -> None:
    """A body that is sent apart would be the next request."""
    body = json.dumps({"items": ["1"]}).encode()
    wishes = ("Connection: Upgrade", f"Upgrade: {protocol}", JSON, f"Content-Length: {len(body)}")
    first = head(*wishes, method="POST", path="/v1/predict")
    with dial(attacked) as connection:
        connection.sendall(first + body if together else first)
        if not together:
            with contextlib.suppress(OSError):  # it may be refused already
                connection.sendall(body)
        status, answer = answer_on(connection)
    if status == 200:  # h11 ignores the wish
        assert json.loads(answer)["answers"]
    else:
        assert status == 400
        assert "without the header 'Upgrade'" in json.loads(answer)["error"]
    assert raw(attacked, head("Connection: Upgrade", f"Upgrade: {protocol}"))[0] == 200


def test_pages_of_other_sites_are_refused_and_may_link(attacked: Serving) -> None:
    for site in ("cross-site", "same-site"):
        assert raw(attacked, head(f"Sec-Fetch-Site: {site}"))[0] == 403
        assert raw(attacked, head(f"Sec-Fetch-Site: {site}", path="/"))[0] == 403
        assert raw(attacked, head(f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: navigate", path="/"))[0] == 200
        assert raw(attacked, head(f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: navigate"))[0] == 403
    for site in ("none", "same-origin"):
        assert raw(attacked, head(f"Sec-Fetch-Site: {site}"))[0] == 200


def test_nothing_redirects(attacked: Serving) -> None:
    for host in ("127.0.0.1", "evil.example"):
        sent = head(path="/v1/model/").replace(b"Host: 127.0.0.1", f"Host: {host}".encode())
        status, body = raw(attacked, sent)
        assert status in (403, 404)
        assert b"evil" not in body


HALVES = {
    "half a header": head()[:-10],
    "half a body": head(JSON, "Content-Length: 10", method="POST", path="/v1/predict") + b"{",
}


@pytest.mark.parametrize("half", HALVES)
def test_half_requests_do_not_keep_others_out(attacked: Serving, half: str) -> None:
    """300 connections to a process that may open 256 files."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(dial(attacked)) for _ in range(300)]
        for connection in connections:
            with contextlib.suppress(OSError):  # closed already, in favour of a newer one
                connection.sendall(HALVES[half])
        for _ in range(20):
            assert raw(attacked, head())[0] == 200
        assert attacked.predict(items=["1"])["support"] == 0
        assert answer_on(connections[0])[0] == 0, "the oldest has given way"
    assert len(lines_of(attacked)) < 100


def test_half_a_header_is_refused_after_a_while(attacked: Serving) -> None:
    assert raw(attacked, head()[:-10])[0] == 408


def test_bad_requests_do_not_fill_the_log(attacked: Serving) -> None:
    for _ in range(200):
        assert raw(attacked, b"nonsense\r\n\r\n")[0] == 400
    assert 0 < sum("Invalid HTTP request" in line for line in lines_of(attacked)) < 10


def test_many_pipelined_requests_are_not_kept(attacked: Serving) -> None:
    before = memory_of(attacked)
    with dial(attacked) as connection:
        try:
            for _ in range(100):
                connection.sendall(head() * 2000)
        except OSError:
            pass
    assert raw(attacked, head())[0] == 200
    assert memory_of(attacked) - before < 30 * MIB


def test_a_client_that_takes_no_answer_holds_no_one_up(attacked: Serving) -> None:
    deaf = dial(attacked)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.sendall(head(path="/docs") * 5)
    assert raw(attacked, head())[0] == 200
    deaf.close()


def test_a_store_that_hangs_holds_up_no_one_else(exported: Path, tmp_path: Path) -> None:
    """More requests wait for a stopped Redis than there are threads, and scores without a stored user go on."""
    with redis_process(tmp_path) as server, serving(exported, "--store", server.url) as service:
        service.events(event(1))
        with redis.Redis.from_url(server.url) as client:
            pid = client.info("server")["process_id"]
        waiting = [threading.Thread(target=ask_for, args=(service, address)) for address in ASKED * 40]
        with stopped(pid):
            for thread in waiting:
                thread.start()
            for _ in range(20):
                assert raw(service, head(path="/healthz"))[0] == 200
                assert service.predict(items=["1"])["support"] == 0
            status, body = raw(service, head(path="/readyz"))
            assert status == 503
            assert "store" in json.loads(body)["error"]
            assert "resus_request_seconds" in service.client.get("/metrics").text
        for thread in waiting:
            thread.join(PATIENCE)
        wait_until(lambda: service.client.get("/readyz").status_code == 200, "the return of the store")
        assert service.predict(user="u", items=["1"])["support"] == 1


ASKED = ("/v1/events", "/v1/predict")


def ask_for(service: Serving, address: str) -> None:
    sent = {"events": [event(1)]} if address == "/v1/events" else {"user": "u", "items": ["1"]}
    with httpx.Client(base_url=service.client.base_url, timeout=PATIENCE) as client:
        assert client.post(address, json=sent).status_code in (200, 503)


def test_half_a_header_and_an_idle_client_do_not_keep_a_service_from_ending(exported: Path, tmp_path: Path) -> None:
    options = ("--store", tmp_path / "events")
    with serving(exported, *options) as service, dial(service) as half_head, dial(service) as idle:
        half_head.sendall(head()[:-10])
        idle.sendall(head(token=False))
        assert answer_on_one(idle)[0] == 200
        assert service.end() in (0, -signal.SIGTERM)
        assert idle.recv(1) == b""
