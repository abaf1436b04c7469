"""Connections that httptools parses. It takes headers of any size, so their bounds are here."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from resus.serving.http.protocol import HEAD_BYTES, HEAD_FIELDS, PIPELINED, TOO_LARGE, WIRE_BYTES, Bounded

BODY = {b"content-length", b"transfer-encoding"}  # httptools would read such a body as the next request
NO_UPGRADE = 400, "this service speaks only HTTP/1.1: send a request that has a body without the header 'Upgrade'"


class RefusedError(Exception):
    """The parser stops at an exception, and the request is refused."""


class HttpToolsConnection(Bounded, HttpToolsProtocol):
    _in_head = False
    _message_ended = False
    _head_bytes = 0
    _wire_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._wire_bytes = 0 if self._message_ended else self._wire_bytes + len(data)
        self._message_ended = False
        if self._wire_bytes > (HEAD_BYTES if self._in_head else WIRE_BYTES):
            self._refuse(*TOO_LARGE)
        elif self._in_head or self._is_idle():
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

    def _add(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > HEAD_BYTES:
            self._stop(TOO_LARGE)

    def _stop(self, refusal: tuple[int, str]) -> None:
        self._refusal = refusal
        raise RefusedError
