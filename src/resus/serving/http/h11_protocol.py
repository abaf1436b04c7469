"""Connections that h11 parses, in Python: slower, but available everywhere."""

import re

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from resus.serving.http.protocol import HEAD_BYTES, HEAD_FIELDS, NOT_HTTP, TOO_LARGE, WIRE_BYTES, Bounded

BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
END_OF_HEAD = b"\r\n\r\n"


class H11Connection(Bounded, H11Protocol):
    _head = b""
    _wire_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            self._wire_bytes = 0
            if not self._is_good_head(data):
                return
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._wire_bytes += len(data)
        if self._wire_bytes > WIRE_BYTES:
            self._refuse(*TOO_LARGE)
        elif self.conn.their_state is not h11.IDLE:
            self._head = b""
            self._head_arrived()
            if self.conn.their_state is not h11.SEND_BODY and not self._is_idle():
                self._request_arrived()
        elif self._is_idle():
            self._expect_head()

    def _is_good_head(self, data: bytes) -> bool:
        """h11 takes lines that end with a bare line feed, and a head of any size that comes at once."""
        self._head += data
        head, end, _ = self._head.partition(END_OF_HEAD)
        if BARE_LINE_FEED.search(head + end):
            self._refuse(*NOT_HTTP)
        elif len(head) > HEAD_BYTES or head.count(b"\n") > HEAD_FIELDS:
            self._refuse(*TOO_LARGE)
        return not self.transport.is_closing()
