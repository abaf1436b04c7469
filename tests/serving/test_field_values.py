"""The limits of a request, and that the check of its values is fast."""

import json
import time
from typing import Any

import pytest
from pydantic import ValidationError

from resus.serving.http.guard import REQUEST_BYTES
from resus.serving.limits import MAX_FIELDS, MAX_TEXT, MAX_VALUES, BadValueError, checked_field_values
from resus.serving.messages import EventsRequest, PredictRequest

LONGEST = "x" * MAX_TEXT


@pytest.mark.parametrize(
    "value", [None, True, 0, -(2**63), 2**63 - 1, 1e308, "", "é💩", LONGEST, [], [1, "a", None], ["x"] * MAX_VALUES]
)
def test_a_value_passes_as_it_is(value: Any) -> None:
    given = {"a": value}
    assert checked_field_values(given) is given


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        float("nan"),
        float("inf"),
        LONGEST + "x",
        "\ud800",
        {},
        [[]],
        [{}],
        ["x"] * (MAX_VALUES + 1),
        b"x",
    ],
)
def test_a_bad_value_is_refused_and_its_field_named(value: Any) -> None:
    with pytest.raises(BadValueError, match="a value is a text") as raised:
        checked_field_values({"good": 1, "bad": value})
    assert raised.value.field == "bad"


@pytest.mark.parametrize("given", [None, [], "x", {"\udc00": 1}, {f"f{number}": 1 for number in range(MAX_FIELDS + 1)}])
def test_an_object_that_is_not_a_row_is_refused(given: Any) -> None:
    with pytest.raises(BadValueError) as raised:
        checked_field_values(given)
    assert raised.value.field is None


@pytest.mark.parametrize("place", ["context", "candidates", "features"])
def test_the_worst_body_that_fits_is_refused_quickly(place: str) -> None:
    """A body full of mistakes: pydantic makes an object for each error, so there must be few."""
    row: dict[str, Any] = {f"{number}": [{}] * MAX_VALUES for number in range(3300)}
    narrow: dict[str, Any] = {f"{number}": {} for number in range(MAX_FIELDS)}
    bodies: dict[str, Any] = {
        "context": {"items": ["1"], "context": row},
        "candidates": {"candidates": [narrow] * 450},
        "features": {"events": [{"id": "1", "user": "u", "time": 0.0, "label": 1, "features": narrow}] * 430},
    }
    body = json.dumps(bodies[place], separators=(",", ":"))
    assert REQUEST_BYTES * 0.7 < len(body) < REQUEST_BYTES
    began = time.process_time()
    with pytest.raises(ValidationError) as raised:
        (EventsRequest if place == "features" else PredictRequest).model_validate_json(body)
    assert raised.value.error_count() <= 1000
    assert time.process_time() - began < 1
