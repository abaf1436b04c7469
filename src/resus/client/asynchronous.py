"""The client for programs that do other work while they wait: asyncio, or trio."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import httpx

from resus.client.answers import ANSWER_BYTES, read
from resus.client.attempts import Attempts, Patience
from resus.client.calls import Call
from resus.client.connection import Address, request_options
from resus.client.events import Batches, prepared
from resus.client.messages import EventsAnswer, PostedEvent
from resus.client.routes import AsyncRoutes
from resus.errors import BrokenAnswerError, ServiceError

Given = TypeVar("Given")


class AsyncClient(AsyncRoutes):
    """`resus.Client` for asyncio and trio: the same options and methods, each awaited.

    Tasks of one event loop may share one; close it with `await client.close()`, or use it in an `async with`.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        longest_wait: float = 10.0,
    ) -> None:
        self._address = Address.of(address, token)
        self._patience = Patience(timeout, retries, longest_wait)
        self._http = httpx.AsyncClient(**self._address.options)

    async def add_events(self, events: Iterable[PostedEvent | Mapping[str, Any]]) -> EventsAnswer:
        """Store events durably, any number of them: see `Client.add_events`."""
        batches = Batches(prepared(events))
        try:
            for call in batches.calls():
                batches.take(await self.ask(call))
        except ServiceError as error:
            raise batches.failed(error) from None
        return batches.answer()

    async def ask(self, call: Call[Given]) -> Given:
        """Send a call until it is answered, or until it is no use to try again."""
        attempts, content = Attempts(call, self._patience), call.content()
        while True:
            try:
                return await self._try(call, content)
            except ServiceError as error:
                wait = attempts.wait_after(error)
            await anyio.sleep(wait)

    async def _try(self, call: Call[Given], content: bytes | None) -> Given:
        seconds = self._patience.seconds(call)
        body = bytearray()
        try:
            with anyio.fail_after(seconds):
                async with self._http.stream(
                    call.method, call.path, timeout=seconds, **request_options(call, content)
                ) as response:
                    async for part in response.aiter_bytes():
                        body += part
                        if len(body) > ANSWER_BYTES:
                            raise BrokenAnswerError(f"{call} was answered by more than {ANSWER_BYTES:,} bytes")
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._address.no_answer(call, error, seconds) from None
        return read(call, response.status_code, response.headers, bytes(body))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._address.url}>"
