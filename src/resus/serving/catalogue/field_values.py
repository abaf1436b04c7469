"""What a request may say of a row: field → value, checked before anything else looks at it."""

import math
from typing import Any

from resus.serving.http.guard import FIELDS, TEXT_LENGTH, VALUES

WHAT_A_VALUE_IS = (
    f"a value is a text of at most {TEXT_LENGTH} characters, a finite number of 64 bits, true, false, null, "
    f"or a list of at most {VALUES} of them"
)
_SCALAR_SCHEMA: list[dict[str, Any]] = [
    {"type": "string", "maxLength": TEXT_LENGTH},
    {"type": "boolean"},
    {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    {"type": "number"},
    {"type": "null"},
]
FIELD_VALUES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "maxProperties": FIELDS,
    "additionalProperties": {
        "anyOf": [*_SCALAR_SCHEMA, {"type": "array", "maxItems": VALUES, "items": {"anyOf": _SCALAR_SCHEMA}}]
    },
}


class BadValueError(ValueError):
    """What is wrong, and with which field; None where it is all of them."""

    def __init__(self, field: str | None, said: str) -> None:
        super().__init__(said)
        self.field = field


def checked_field_values(given: Any) -> dict[str, Any]:
    """The same, if it is what a request may hold; the first mistake ends the work."""
    if not isinstance(given, dict):
        raise BadValueError(None, "give an object, from field to value")
    if len(given) > FIELDS:
        raise BadValueError(None, f"give at most {FIELDS} fields")
    for name, value in given.items():
        if not isinstance(name, str) or not _is_text(name):
            raise BadValueError(None, "the name of a field is a text")
        several = value if isinstance(value, list) else [value]
        if len(several) > VALUES or not all(_is_scalar(one) for one in several):
            raise BadValueError(name, WHAT_A_VALUE_IS)
    return given


def _is_scalar(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return len(value) <= TEXT_LENGTH and _is_text(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and math.isfinite(value)


def _is_text(value: str) -> bool:
    """JSON can spell half a character, which nothing can store."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
