"""The client for programs that wait."""

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from resus.client.answers import ANSWER_BYTES, read
from resus.client.attempts import Attempts, Patience
from resus.client.calls import Call
from resus.client.connection import Address, request_options
from resus.client.events import Batches, prepared
from resus.client.messages import EventsAnswer, PostedEvent
from resus.client.routes import Routes
from resus.errors import BrokenAnswerError, ServiceError

Given = TypeVar("Given")


class Client(Routes):
    """Asks a service (`resus serve`) over HTTP. Threads may share one; close it, or use it in a `with`.

    A failure that may pass is tried again: no connection, no answer in time, a busy service. Each of at most `retries`
    repetitions waits for a random time that doubles, at most `longest_wait` seconds, or as long as the service asks for
    by Retry-After. Events keep their ids, so that none counts twice. What stays wrong raises a `ServiceError`.

    Args:
        address: Where the service is.
        token: The service's token; without it, that in the variable RESUS_TOKEN.
        timeout: Seconds for one try.
        retries: Repetitions of a failed try; 0 for none.
        longest_wait: Seconds between two tries at most. If the service asks for more, the error is raised at once.
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
        self._http = httpx.Client(**self._address.options)

    def add_events(self, events: Iterable[PostedEvent | Mapping[str, Any]]) -> EventsAnswer:
        """Store events durably, any number of them.

        Each event has a `user`, a `label`, an `item`, and `fields`. Without an `id` it gets one, without a `time` it is
        now. If a part of the events could not be stored, the error has them in `unacknowledged`; send these again, and
        nothing counts twice.
        """
        batches = Batches(prepared(events))
        try:
            for call in batches.calls():
                batches.take(self.ask(call))
        except ServiceError as error:
            raise batches.failed(error) from None
        return batches.answer()

    def ask(self, call: Call[Given]) -> Given:
        """Send a call until it is answered, or until it is no use to try again."""
        attempts, content = Attempts(call, self._patience), call.content()
        while True:
            try:
                return self._try(call, content)
            except ServiceError as error:
                wait = attempts.wait_after(error)
            time.sleep(wait)

    def _try(self, call: Call[Given], content: bytes | None) -> Given:
        seconds = self._patience.seconds(call)
        deadline, body = time.monotonic() + seconds, bytearray()
        try:
            with self._http.stream(
                call.method, call.path, timeout=seconds, **request_options(call, content)
            ) as response:
                for part in response.iter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES:
                        raise BrokenAnswerError(f"{call} was answered by more than {ANSWER_BYTES:,} bytes")
                    if time.monotonic() > deadline:  # each part came in time, but not all of them
                        raise TimeoutError
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._address.no_answer(call, error, seconds) from None
        return read(call, response.status_code, response.headers, bytes(body))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._address.url}>"
