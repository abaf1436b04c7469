"""Rows of a request are read as the same values in a table."""

import time
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.multi import MultiField
from resus.data.fields.numeric import LARGEST_WEIGHT, NumericField
from resus.data.fields.values import as_numbers
from resus.errors import DataError, RowError

FIELDS = FeatureMap(
    (
        CategoricalField("item", ("a", "7", "1", "2.5", "1e-7", "true", "0", "1e+20")),
        NumericField("price", center=3.0, scale=4.0, missing="mean", mean=5.0),
        MultiField("tags", ("x", "y", "1", "true", "2.5", "a b"), slots=3),
        MultiField("letters", ("x", "y"), separator="", slots=2),
    ),
    item="item",
)
PLAIN = FeatureMap(FIELDS.fields[:1], item="item")

TEXTS = st.one_of(
    st.sampled_from([*FIELDS.fields[0].values, *FIELDS.fields[2].values, "", "x|y", "y||1|x", "1.50", "-2e3"]),
    st.text("xy1a|. ", max_size=6),
)
NUMBERS = st.one_of(
    st.sampled_from([1, 7, 7.0, 1.0, 2.5, 1e-7, 1e20, -0.0, 2.0**63, -(2.0**63), 1e16, 1e-5]),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
MODEST = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9).map(str)
)
LISTS = st.one_of(
    *(st.lists(st.one_of(st.none(), kind), max_size=5) for kind in (TEXTS, st.booleans(), st.integers(-9, 9))),
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), max_size=5),
)
ROWS = st.fixed_dictionaries(
    {}, optional={"item": SCALARS, "price": MODEST, "tags": SCALARS | LISTS, "letters": SCALARS, "other": SCALARS}
)


@settings(deadline=None, max_examples=300)
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_rows_are_read_as_a_table_is_encoded(rows: list[dict[str, Any]]) -> None:
    ids, weights = FIELDS.encode_rows(rows)
    assert ids.dtype == np.int32
    assert weights is not None
    for number, row in enumerate(rows):  # a table of its own, so that each value keeps its type
        frame = pl.DataFrame({field.name: pl.Series([row.get(field.name)]) for field in FIELDS.fields})
        expected_ids, expected_weights = FIELDS.encode(frame)
        assert expected_weights is not None
        assert np.array_equal(ids[number], expected_ids[0])
        assert np.array_equal(weights[number], expected_weights[0])


@settings(deadline=None, max_examples=300)
@given(
    st.text("0123456789.eE+-_ \tx", max_size=7)
    | st.sampled_from(["inf", "NaN", "-Infinity", "1e400", "٣", "0x1", "TRUE", "false", "cheap", "", "\u00a03"])
)
def test_text_in_a_numeric_field_is_read_or_refused_as_in_a_table(text: str) -> None:
    price, column = FIELDS.fields[1], pl.Series([text])
    numbers, bad = as_numbers(column)
    if bad[0]:
        with pytest.raises(RowError, match="is not a number"):
            price.encode(column)
        with pytest.raises(DataError, match=r"row 2, field 'price': .* is not a number"):
            FIELDS.encode_rows([{}, {"price": text}])
        return
    if np.isinf(numbers[0]):
        with pytest.raises(RowError, match="is not a finite number"):
            price.encode(column)
    if abs(numbers[0] - 3.0) / 4.0 > LARGEST_WEIGHT:
        with pytest.raises(DataError, match="row 1, field 'price'"):
            FIELDS.encode_rows([{"price": text}])
        return
    ids, weights = price.encode(column)
    assert weights is not None
    found_ids, found_weights = price.encode_values([text])
    assert found_weights is not None
    assert np.array_equal(found_ids, ids)
    assert np.array_equal(found_weights, weights)


def test_without_numbers_and_several_values_there_are_no_weights() -> None:
    ids, weights = PLAIN.encode_rows([{"item": "a"}, {"item": "new"}, {}, {"item": "x" * 1000}])
    assert ids.tolist() == [[1], [0], [0], [0]]
    assert weights is None


def test_no_row_is_a_normal_case() -> None:
    assert FIELDS.encode_rows([])[0].shape == (0, FIELDS.n_columns)


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("item", {"a": 1}, "the value is nested; send a text"),
        ("item", ["a"], "there is a list where one value belongs; send a text"),
        ("item", float("nan"), "the number is not finite"),
        ("item", float("-inf"), "the number is not finite"),
        ("item", "x" * 1001, "longer than 1000 characters"),
        ("item", 10**400, "the number is too large"),
        ("price", [1.0], "there is a list where one value belongs"),
        ("price", 10**400, "the number is not finite"),
        ("price", float("inf"), "the number is not finite"),
        ("price", 1e300, "too far from all numbers of the training data"),
        ("price", "cheap", "'cheap' is not a number"),
        ("price", "1" * 1001, "longer than 1000 characters"),
        ("tags", ["x", ["y"]], "there is a list where one value belongs"),
        ("tags", ["x", {}], "the value is nested"),
        ("tags", ["x", "y", "1", "1", float("nan")], "the number is not finite"),
        ("tags", {"x": 1}, "the value is nested"),
    ],
)
def test_what_no_field_can_hold_is_refused_by_row_and_field(field: str, value: Any, what: str) -> None:
    with pytest.raises(DataError, match=rf"^row 2, field '{field}': .*{what}"):
        FIELDS.encode_rows([{"item": "a"}, {field: value}])


@settings(deadline=None)
@given(st.recursive(SCALARS | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_is_read_as_finite_numbers_or_refused(value: Any) -> None:
    try:
        ids, weights = FIELDS.encode_rows([dict.fromkeys(("item", "price", "tags"), value)])
    except DataError:
        return
    assert weights is not None
    assert np.isfinite(weights).all()
    assert (ids < FIELDS.n_ids).all()


def test_no_text_takes_long_to_be_told_from_a_number() -> None:
    began = time.process_time()
    for _ in range(100):
        with pytest.raises(DataError, match="is not a number"):
            FIELDS.encode_rows([{"price": "9" * 999 + "x"}])
    assert time.process_time() - began < 1
