"""HTTP/1.1 connections with bounds on size, time and number, on httptools or, where it is missing, on h11."""

import asyncio
import logging
from typing import Any

from uvicorn.server import ServerState

from resus.serving.http.connections import address_of, connections_of
from resus.serving.http.guard import HEADERS, REQUEST_BYTES, refusal_body

HEAD_BYTES = 16 << 10  # request line and headers
HEAD_FIELDS = 100
HEAD_SECONDS = 10
SENT_SECONDS = 30  # for a client to take an answer
PIPELINED = 8  # requests that a client may send before it has read the answer to the first
WIRE_BYTES = HEAD_BYTES + 2 * REQUEST_BYTES  # a request with the marks between its chunks

AT_ONCE = "at once"  # in the state of the application: what answers requests in the connection

NOT_HTTP = 400, "this is not a valid HTTP/1.1 request: use an HTTP client"
TOO_LARGE = 431, f"the headers are larger than {HEAD_BYTES:,} bytes or more than {HEAD_FIELDS}: send fewer"
LATE = 408, f"the headers of the request did not arrive within {HEAD_SECONDS} seconds: send them at once"
CROWDED = 429, "your address has too many open connections: close some"
PHRASES = {400: "Bad Request", 408: "Request Timeout", 429: "Too Many Requests", 431: "Headers Too Large"}

log = logging.getLogger("resus.serving")


class Bounded(asyncio.Protocol):
    """Added to a protocol of uvicorn: time for headers and answers, a number of connections, and refusals in JSON."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None
    cycle: Any
    server_state: ServerState

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.address = ""
        self._connections = connections_of(self.server_state)
        self._refusal = NOT_HTTP
        self._head_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.address = address_of(self.client[0]) if self.client else ""
        if self._connections.admit(self):
            self._expect_head()
        else:
            log.warning("a client has too many connections with requests in progress: a new one was refused")
            self._refuse(*CROWDED)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        for timer in (self._head_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def give_way(self) -> None:
        log.warning("too many connections: one that waited for a request was closed")
        self.transport.close()
        self._end_soon()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._end_soon()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._end_timer is not None and not self.transport.is_closing():
            self._end_timer.cancel()
            self._end_timer = None

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        if self.transport.is_closing():
            self._end_soon()
        elif self.cycle.response_complete:
            self._connections.wait(self)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()  # type: ignore[misc]
        self._end_soon()

    def shutdown(self) -> None:
        super().shutdown()  # type: ignore[misc]
        if self.transport.is_closing():
            self._end_soon()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """uvicorn calls this for bytes that are not HTTP."""
        self._refuse(*self._refusal)

    def _is_idle(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _request_arrived(self) -> None:
        self._connections.begin(self)

    def _head_is_late(self) -> None:
        log.warning("the headers of a request did not arrive within %d seconds: connection closed", HEAD_SECONDS)
        self._refuse(*LATE)

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer, unless an answer to an earlier request is due on this connection, and close it."""
        if not self.transport.is_closing():
            if self._is_idle():
                self.transport.write(_refusal(status, sentence))
            self.transport.close()
        self._end_soon()

    def _end_soon(self) -> None:
        """A client that takes no bytes keeps a connection open; end it after a while."""
        if self._end_timer is None:
            self._end_timer = self.loop.call_later(SENT_SECONDS, self.transport.abort)


def _refusal(status: int, sentence: str) -> bytes:
    body = refusal_body(sentence)
    lines = [f"HTTP/1.1 {status} {PHRASES[status]}".encode(), b"connection: close", b"content-type: application/json"]
    lines += [b"content-length: %d" % len(body), *(b": ".join(header) for header in HEADERS)]
    return b"\r\n".join([*lines, b"", body])


def protocol() -> type[asyncio.Protocol]:
    """The faster protocol whose packages are installed."""
    try:
        from resus.serving.http.httptools_protocol import HttpToolsConnection
    except ImportError:
        from resus.serving.http.h11_protocol import H11Connection

        return H11Connection
    return HttpToolsConnection
