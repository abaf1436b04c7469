"""Connections that httptools parses. It takes headers of any size, so their bounds are here."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from resus.serving.http.protocol import AT_ONCE, HEAD_BYTES, HEAD_FIELDS, PIPELINED, TOO_LARGE, WIRE_BYTES, Bounded

BODY = {b"content-length", b"transfer-encoding"}  # httptools would read such a body as the next request
NO_UPGRADE = 400, "this service speaks only HTTP/1.1: send a request that has a body without the header 'Upgrade'"


class RefusedError(Exception):
    """The parser stops at an exception, and the request is refused."""


class HttpToolsConnection(Bounded, HttpToolsProtocol):
    """A request that arrives as a whole, and can be answered at once, needs no task."""

    _in_head = False
    _message_ended = False
    _head_bytes = 0
    _wire_bytes = 0
    _receives = False  # the first request of a piece of data, which others of the same piece must not hold up
    _held: tuple[Any, Any] | None = None  # a request that may be answered at once, if the rest of it comes now

    def data_received(self, data: bytes) -> None:
        self._receives = True
        super().data_received(data)
        self._receives = False
        if self._held is not None:
            self._start_held()
        if self.transport.is_closing():
            return
        ended, self._message_ended = self._message_ended, False
        self._wire_bytes = 0 if ended else self._wire_bytes + len(data)
        if self._wire_bytes > (HEAD_BYTES if self._in_head else WIRE_BYTES):
            self._refuse(*TOO_LARGE)
        elif self._in_head or (self._is_idle() and not ended):
            self._expect_head()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._add(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Also called for trailers, which come after the body."""
        self._add(len(name) + len(value) + len(": \r\n"))
        if len(self.headers) >= HEAD_FIELDS:
            self._stop(TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_arrived()
        if self.parser.should_upgrade() and BODY & {name for name, _ in self.headers}:
            self._stop(NO_UPGRADE)
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED:
            self._stop(TOO_LARGE)

    def on_message_complete(self) -> None:
        self._message_ended = True
        if not self._is_idle():
            self._request_arrived()
        super().on_message_complete()
        if self._held is not None and not self._answered_at_once():
            self._start_held()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        at_once = self.app_state.get(AT_ONCE)
        if self._receives and at_once is not None and at_once.may_answer(self.parser.get_method(), self.url):
            self._receives, self._held = False, (cycle, app)
        else:
            super()._start_asgi_task(cycle, app)

    def _start_held(self) -> None:
        assert self._held is not None
        held, self._held = self._held, None
        super()._start_asgi_task(*held)

    def _answered_at_once(self) -> bool:
        """Answer the request that is held, unless it takes the usual way."""
        cycle = self.cycle
        if not cycle.keep_alive or self.flow.write_paused or self.transport.is_closing():
            return False
        more = self.server_state.default_headers
        response = self.app_state[AT_ONCE].answer(self.headers, bytes(cycle.body), more)
        if response is None:
            return False
        self._held = None
        cycle.response_started = cycle.response_complete = True
        self.transport.write(response)
        cycle.on_response()
        return True

    def _add(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > HEAD_BYTES:
            self._stop(TOO_LARGE)

    def _stop(self, refusal: tuple[int, str]) -> None:
        self._refusal = refusal
        raise RefusedError
