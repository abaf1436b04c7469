"""From the bytes of an answer to a message, or to the error that says what is wrong."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from resus.client.calls import Call
from resus.errors import (
    BadRequestError,
    BrokenAnswerError,
    BusyError,
    ConflictError,
    FailedServiceError,
    NotAllowedError,
    NotFoundError,
    ServiceError,
)

ANSWER_BYTES = 1 << 28  # more is no answer of this service
SENTENCE = 1000  # characters that are shown
KINDS: Mapping[int, type[ServiceError]] = {
    401: NotAllowedError,
    403: NotAllowedError,
    404: NotFoundError,
    408: BusyError,
    409: ConflictError,
    429: BusyError,
    502: BusyError,
    503: BusyError,
    504: BusyError,
}

Given = TypeVar("Given")


def read(call: Call[Given], status: int, headers: Mapping[str, str], body: bytes) -> Given:
    """The answer to a call. A refusal becomes the error of its status, with the service's sentence."""
    if status != 200:
        raise refusal(call, status, headers, body)
    if call.answer is str:
        return cast("Given", body.decode("utf-8", "replace"))
    message = cast("type[BaseModel]", call.answer)
    try:
        return cast("Given", message.model_validate_json(body))
    except ValidationError as error:
        place = ".".join(str(step) for step in error.errors(include_url=False)[0]["loc"]) or "its beginning"
        raise BrokenAnswerError(
            f"the answer to {call} is not one of resus (at {place}): check the address, and that client and service "
            "are of one version",
            status=status,
        ) from None


def refusal(call: Call[Any], status: int, headers: Mapping[str, str], body: bytes) -> ServiceError:
    """The error of a status other than 200."""
    sentence = _sentence(body)
    if sentence is None and 200 < status < 400:
        return BrokenAnswerError(
            f"{call} got status {status}, which resus never sends: check the address", status=status
        )
    kind = KINDS.get(status) or (FailedServiceError if status >= 500 else BadRequestError)
    error = kind(f"{call}: {sentence or 'no reason given'} ({status})", sentence=sentence, status=status)
    error.retry_after = seconds_of(headers.get("retry-after"))
    error.may_have_happened = status != 429  # this one is said before anything is done
    return error


class _Refusal(BaseModel):
    error: str


def _sentence(body: bytes) -> str | None:
    """What the service says; None if something else answers, such as a proxy."""
    try:
        return _Refusal.model_validate_json(body).error[:SENTENCE]
    except ValidationError:
        return None


def seconds_of(retry_after: str | None) -> float | None:
    """The header Retry-After: seconds, or a date."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            until = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        moment = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
