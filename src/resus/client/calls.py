"""One request to the service, before it is sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from resus.errors import DataError

Given = TypeVar("Given")


@dataclass(frozen=True)
class Call(Generic[Given]):
    """What to ask, and the type of the answer. A call that is not `repeatable` must not be done twice."""

    method: str
    path: str
    answer: type[Given]
    body: Mapping[str, Any] | bytes | None = None  # bytes are JSON already
    query: Mapping[str, Any] | None = None
    repeatable: bool = True
    slow: bool = False

    def content(self) -> bytes | None:
        """The body as it is sent, the same with every try."""
        return self.body if self.body is None or isinstance(self.body, bytes) else as_json(self.body)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def given(**options: Any) -> dict[str, Any]:
    """The options that are not None. The service has its own default for the others."""
    return {name: value for name, value in options.items() if value is not None}


def path(*parts: str | int) -> str:
    """The address of parts, of which ids may hold any character."""
    return "/" + "/".join(_quoted(str(part)) for part in parts)


def _quoted(part: str) -> str:
    if not part:
        raise DataError("an id in the address of a request is empty: give the id")
    try:
        quoted = quote(part, safe="")
    except UnicodeEncodeError:
        raise DataError("an id holds half of a surrogate pair, which is no character: correct it") from None
    return quoted if part.strip(".") else "%2E" * len(part)  # else "." and ".." would be steps of the path


def as_json(value: Any) -> bytes:
    """JSON of what Python programs hold: also times, numbers and arrays of numpy, tuples."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the request cannot be written as JSON ({error}): correct the value") from None


def _plain(value: Any) -> Any:
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if hasattr(value, "tolist"):  # of numpy
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a value of JSON")
