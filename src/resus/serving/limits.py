"""How much one request may hold, whichever way it comes in, and the check of the field values in it."""

import math
import time
from collections.abc import Sequence
from typing import Any

from resus.errors import DataError

MAX_CANDIDATES = 1000  # per request
MAX_EVENTS = 1000  # per request, and per batch of a store
MAX_EXPLAINED = 100  # answers per request
MAX_FIELDS = 200  # per event or candidate
MAX_VALUES = 100  # in one field
MAX_TEXT = 1000  # characters of a value
MAX_ID = 200  # characters of the id of a user, an event or an item
MAX_FEATURES_BYTES = 4096  # of a stored event's fields, as JSON
MAX_AHEAD = 86_400  # seconds that the time of an event may be ahead of the clock
EVENTS_PER_USER = 200  # by default; the latest count

VALUE_RULE = (
    f"a value is a text of at most {MAX_TEXT} characters, a finite number of 64 bits, true, false, null, "
    f"or a list of at most {MAX_VALUES} of them"
)
_SCALAR_SCHEMA: list[dict[str, Any]] = [
    {"type": "string", "maxLength": MAX_TEXT},
    {"type": "boolean"},
    {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    {"type": "number"},
    {"type": "null"},
]
FIELD_VALUES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "maxProperties": MAX_FIELDS,
    "additionalProperties": {
        "anyOf": [*_SCALAR_SCHEMA, {"type": "array", "maxItems": MAX_VALUES, "items": {"anyOf": _SCALAR_SCHEMA}}]
    },
}
_RANGE_SCHEMA = {
    "type": "object",
    "minProperties": 1,
    "properties": {"at_least": {"type": "number"}, "at_most": {"type": "number"}},
    "additionalProperties": False,
}
FILTER_SCHEMA: dict[str, Any] = {
    **FIELD_VALUES_SCHEMA,
    "additionalProperties": {"anyOf": [*FIELD_VALUES_SCHEMA["additionalProperties"]["anyOf"], _RANGE_SCHEMA]},
}


class BadValueError(ValueError):
    """`field` names the bad field; None means that the whole object is wrong."""

    def __init__(self, field: str | None, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def checked_field_values(given: Any) -> dict[str, Any]:
    """Return the same object if it maps field names to values within the limits; raise at the first mistake."""
    if not isinstance(given, dict):
        raise BadValueError(None, "give an object, from field to value")
    if len(given) > MAX_FIELDS:
        raise BadValueError(None, f"give at most {MAX_FIELDS} fields")
    for name, value in given.items():
        if not isinstance(name, str) or not _can_be_stored(name):
            raise BadValueError(None, "the name of a field must be text")
        several = value if isinstance(value, list) else [value]
        if len(several) > MAX_VALUES or not all(_is_scalar(one) for one in several):
            raise BadValueError(name, VALUE_RULE)
    return given


def check_times(times: Sequence[float]) -> None:
    """An event far ahead would stay the latest of its user for ever, and push out each new one."""
    latest = time.time() + MAX_AHEAD
    for place, given in enumerate(times):
        if given > latest:
            raise DataError(
                f"events[{place}], time: {given:g} is more than a day ahead; "
                "give seconds since 1970, or a smaller number that grows"
            )


def _is_scalar(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return len(value) <= MAX_TEXT and _can_be_stored(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and math.isfinite(value)


def _can_be_stored(text: str) -> bool:
    """JSON can hold half of a surrogate pair, which no store can write."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
