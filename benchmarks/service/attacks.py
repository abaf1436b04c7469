"""Attacks on the service as bytes on connections, each with what it must end in."""

import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from benchmarks.service.served import Served, ask

MIB = 2**20
GROWTH_BYTES = 32 * MIB  # an allocator may keep as much; each attack sends or opens far more
TAKEN_BYTES = 16 * MIB  # what the buffers of both ends may take of an endless request
CONNECTIONS, TIMES = 300, 100
CLOSED = 0
JSON = "Content-Type: application/json"


class Attack(NamedTuple):
    name: str
    run: Callable[[str], Iterator[int]]  # yields the status of each answer; 0 if the service closed the connection
    expected: frozenset[int]


def attack_all(service: Served, console: Console) -> None:
    """Run every attack, and ask for a score during each. Ends the benchmark if the service gives in."""
    table = Table("attack", "answers", "memory before", "after")
    failures = []
    ask(service.address, "/v1/predict", {"items": ["1"]})
    for attack in ATTACKS:
        _, before = service.peak_and_now()
        answers: Counter[int] = Counter()
        for status in attack.run(service.address):
            answers[status] += 1
            if answers.total() % 50 == 1:
                ask(service.address, "/v1/predict", {"items": ["1"]})
        _, after = service.peak_and_now()
        told = ", ".join(f"{count} × {status or 'closed'}" for status, count in sorted(answers.items()))
        table.add_row(attack.name, told, f"{before / MIB:.0f} MiB", f"{after / MIB:.0f} MiB")
        if not answers or not answers.keys() <= attack.expected or after - before > GROWTH_BYTES:
            failures.append(attack.name)
    console.print(table)
    if failures:
        raise SystemExit(f"the service did not withstand: {', '.join(failures)}")


def _head(*lines: str, method: str = "GET", path: str = "/v1/model", host: str = "127.0.0.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


def _dial(address: str) -> socket.socket:
    where = urlsplit(address)
    connection = socket.create_connection((where.hostname, where.port))
    connection.settimeout(60)
    return connection


def _status(connection: socket.socket) -> int:
    received = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in received and (more := connection.recv(4096)):
            received += more
    return int(received.split()[1]) if received else CLOSED


def _repeated(sent: bytes) -> Callable[[str], Iterator[int]]:
    def run(address: str) -> Iterator[int]:
        for _ in range(TIMES):
            with _dial(address) as connection:
                with contextlib.suppress(OSError):
                    connection.sendall(sent)
                yield _status(connection)

    return run


def _endless(start: bytes, piece: bytes) -> Callable[[str], Iterator[int]]:
    """A request without an end. That the service takes all of it counts as the answer 200."""

    def run(address: str) -> Iterator[int]:
        for _ in range(3):
            taken = 0
            with _dial(address) as connection, contextlib.suppress(OSError):
                connection.sendall(start)
                while taken < TAKEN_BYTES:
                    connection.sendall(piece)
                    taken += len(piece)
            yield CLOSED if taken < TAKEN_BYTES else 200

    return run


def _half_heads(address: str) -> Iterator[int]:
    """All at a time; an answer says that the service has closed the oldest ones, or all in the end."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(_dial(address)) for _ in range(CONNECTIONS)]
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(_head()[:-10])
        ask(address, "/v1/predict", {"items": ["1"]})
        for connection in connections:
            yield _status(connection)


def _deaf_clients(address: str) -> Iterator[int]:
    """Clients that ask for many answers and read none."""
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(_dial(address))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(OSError):
                connection.sendall(_head(path="/docs") * 8)
            yield CLOSED


CHUNKED = _head(JSON, "Transfer-Encoding: chunked", method="POST", path="/v1/events")
REFUSED, NOT_TAKEN = frozenset({400, 403, 404, 408, 413, 431, CLOSED}), frozenset({CLOSED})
ATTACKS = (
    Attack(f"{CONNECTIONS} connections with half a header", _half_heads, frozenset({408, CLOSED})),
    Attack(f"{CONNECTIONS} clients that read no answer", _deaf_clients, NOT_TAKEN),
    Attack("an endless header", _endless(_head()[:-2] + b"X: ", b"x" * MIB), NOT_TAKEN),
    Attack("endless headers", _endless(_head()[:-2], b"X-Header: some value\r\n" * 50_000), NOT_TAKEN),
    Attack("an endless chunked body", _endless(CHUNKED, b"100000\r\n" + b"x" * MIB + b"\r\n"), NOT_TAKEN),
    Attack("chunks of one byte with long extensions", _endless(CHUNKED, b"1;" + b"x" * MIB + b"\r\nx\r\n"), NOT_TAKEN),
    Attack("endless trailers", _endless(CHUNKED + b"0\r\n", b"X-Trailer: some value\r\n" * 50_000), NOT_TAKEN),
    Attack("pipelined requests without end", _endless(b"", _head() * 20_000), NOT_TAKEN),
    Attack(
        "Content-Length with Transfer-Encoding",
        _repeated(_head("Content-Length: 5", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n"),
        REFUSED,
    ),
    Attack("bare line feeds", _repeated(_head().replace(b"\r\n", b"\n")), REFUSED),
    Attack("a page of another site", _repeated(_head("Sec-Fetch-Site: cross-site")), REFUSED),
    Attack("another host and a slash at the end", _repeated(_head(path="/v1/model/", host="evil.example")), REFUSED),
    Attack("bytes that are not HTTP", _repeated(b"\x16\x03\x01\x02\x00\x01\r\n\r\n"), REFUSED),
)
