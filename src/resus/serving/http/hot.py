"""Routes that are asked often, past the machinery of the framework.

A request that is valid at first sight is answered here. Any other one takes the framework's way, which says what is
wrong with it in one sentence.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Sent

from resus.serving.http.guard import HEADERS, Gate
from resus.serving.http.metrics import Requests
from resus.serving.http.pools import Pool
from resus.serving.messages import Message

JSON_TYPE = b"application/json"
SHORT_BYTES = 8192  # of the body of a request that may be answered at once
OK = b"HTTP/1.1 200 OK\r\n"
END = b"".join(b"%b: %b\r\n" % header for header in ((b"content-type", JSON_TYPE), *HEADERS))

Headers = Sequence[tuple[bytes, bytes]]
Asked = TypeVar("Asked", bound=Message)


class HotRoute(Generic[Asked]):
    """`answer` makes the body of the answer from the message, in a thread of the message's pool."""

    def __init__(
        self,
        usual: ASGIApp,
        message: type[Asked],
        answer: Callable[[Asked], bytes],
        pool_of: Callable[[Asked], Pool],
    ) -> None:
        self._usual, self._message, self._answer, self._pool_of = usual, message, answer, pool_of

    @classmethod
    def replace(
        cls,
        app: FastAPI,
        path: str,
        message: type[Asked],
        answer: Callable[[Asked], bytes],
        pool_of: Callable[[Asked], Pool],
    ) -> "HotRoute[Asked]":
        """Let a route that the framework knows, and documents, be answered by the fast way first."""
        [route] = [route for route in app.router.routes if isinstance(route, APIRoute) and route.path == path]
        hot = cls(route.app, message, answer, pool_of)
        route.app = hot
        return hot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        asked = self.asked(scope["headers"], body)
        if asked is None:
            await self._usual(scope, _again(body, receive), send)
            return
        content = await self._pool_of(asked).run(lambda: self._answer(asked))
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", JSON_TYPE)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def asked(self, headers: Headers, body: bytes) -> Asked | None:
        """The message of a request that is valid at first sight."""
        if (b"content-type", JSON_TYPE) not in headers:
            return None
        try:
            return self._message.model_validate_json(body)
        except ValidationError:
            return None


class AtOnce(Generic[Asked]):
    """Answers requests to one hot route in the connection itself, without a task, a thread or any middleware.

    `answer` raises an exception for what it cannot answer at once. Such a request takes the usual way, as does one that
    the gate refuses, so that there is one place that says what is wrong.
    """

    def __init__(
        self, path: str, route: HotRoute[Asked], answer: Callable[[Asked], bytes], gate: Gate, requests: Requests
    ) -> None:
        self._path, self._route, self._answer, self._gate, self._requests = path, route, answer, gate, requests
        self._url = path.encode()

    def may_answer(self, method: bytes, url: bytes) -> bool:
        return url == self._url and method == b"POST"

    def answer(self, headers: Headers, body: bytes, more: Headers) -> bytes | None:
        """The whole response, with `more` headers; None for a request that takes the usual way."""
        began = time.perf_counter()
        named: Mapping[bytes, bytes] = dict(headers)
        if len(body) > SHORT_BYTES or self._gate.refusal(self._path, headers, named) is not None:
            return None
        asked = self._route.asked(headers, body)
        if asked is None:
            return None
        try:
            content = self._answer(asked)
        except Exception:  # the usual way finds it again, and says so
            return None
        self._requests.note("POST", self._path, self._path, 200, time.perf_counter() - began)
        added = b"".join([b"%b: %b\r\n" % header for header in more])
        return b"%b%bcontent-length: %d\r\n%b\r\n%b" % (OK, added, len(content), END, content)


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    pending: list[Sent] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Sent:
        return pending.pop() if pending else await receive()

    return replayed
