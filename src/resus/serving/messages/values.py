"""The values that requests share: ids, fields, labels and times."""

from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from resus.data.fields.values import seconds_of
from resus.serving.limits import (
    FIELD_VALUES_SCHEMA,
    FILTER_SCHEMA,
    MAX_CANDIDATES,
    MAX_ID,
    BadValueError,
    checked_field_values,
)

_ID_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_ID}, {"type": "integer"}],
}


def _id_as_text(given: Any) -> Any:
    """A whole number is the id that a table with this number has."""
    return str(given) if type(given) is int and -(2**63) <= given < 2**63 else given


def _ids_as_text(given: Any) -> Any:
    """All at once: most lists hold no number."""
    return list(map(_id_as_text, given)) if isinstance(given, list) and int in set(map(type, given)) else given


_Text = Annotated[str, Field(min_length=1, max_length=MAX_ID)]
Id = Annotated[_Text, BeforeValidator(_id_as_text), WithJsonSchema(_ID_SCHEMA)]
Ids = Annotated[
    list[_Text],
    BeforeValidator(_ids_as_text),
    WithJsonSchema({"type": "array", "items": _ID_SCHEMA, "minItems": 1, "maxItems": MAX_CANDIDATES}),
]
IdInPath = Annotated[str, BeforeValidator(unquote), Field(min_length=1, max_length=MAX_ID)]


def _field_values(given: Any) -> Any:
    """At most one error, which names the field: pydantic would make one for each value and each alternative."""
    try:
        return checked_field_values(given)
    except BadValueError as error:
        raise PydanticCustomError("field_value", "{reason}", {"reason": str(error), "field": error.field}) from None


def _candidate(given: Any) -> Any:
    if isinstance(given, dict) and isinstance(given.get("features"), dict):
        reason = "put the fields directly into the candidate, without 'features' around them"
        raise PydanticCustomError("field_value", "{reason}", {"reason": reason, "field": "features"})
    return _field_values(given)


FieldValues = Annotated[dict[str, Any], BeforeValidator(_field_values), WithJsonSchema(FIELD_VALUES_SCHEMA)]
Candidate = Annotated[dict[str, Any], BeforeValidator(_candidate), WithJsonSchema(FIELD_VALUES_SCHEMA)]


def _filter(given: Any) -> Any:
    """Ranges of numbers apart, the values follow the rules of all fields."""
    if isinstance(given, dict):
        for name, wanted in given.items():
            if isinstance(wanted, dict) and (not wanted or wanted.keys() - {"at_least", "at_most"}):
                reason = 'a range of numbers is {"at_least": 1, "at_most": 5}, or one of the two'
                raise PydanticCustomError("field_value", "{reason}", {"reason": reason, "field": name})
        flat = {name: list(wanted.values()) if isinstance(wanted, dict) else wanted for name, wanted in given.items()}
        _field_values(flat)
        return given
    return _field_values(given)


Filter = Annotated[dict[str, Any], BeforeValidator(_filter), WithJsonSchema(FILTER_SCHEMA)]


def _zero_or_one(value: float) -> float:
    if value not in (0, 1):
        raise ValueError("a label is 0 or 1")
    return value


def _boolean_as_number(given: Any) -> Any:
    return float(given) if isinstance(given, bool) else given


Label = Annotated[
    float,
    BeforeValidator(_boolean_as_number),
    AfterValidator(_zero_or_one),
    WithJsonSchema({"enum": [0, 1, False, True]}),
]


def _time_as_seconds(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    seconds = seconds_of(given)
    if seconds is None:
        raise PydanticCustomError("time", "give seconds since 1970, or a time such as 2024-01-31T10:00:00Z")
    return seconds


Time = Annotated[
    float,
    BeforeValidator(_time_as_seconds),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "format": "date-time"}]}),
]


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
