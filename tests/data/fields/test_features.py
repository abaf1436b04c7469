"""From values to ids and weights, against what each value must become."""

import json
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.fields.feature_map import FeatureMap
from resus.data.schema import TableSchema
from resus.errors import DataError


def schema_of(**fields: Any) -> TableSchema:
    return TableSchema.model_validate({"user": "user", "item": "item", "label": "click", "fields": fields})


def learned(values: dict[str, Any], min_count: int = 1, **fields: Any) -> tuple[FeatureMap, pl.DataFrame]:
    rows = len(next(iter(values.values())))
    frame = pl.DataFrame({"item": ["a"] * rows} | values, strict=False)
    return FeatureMap.learn(frame, schema_of(**fields), min_count), frame


def test_values_are_numbered_by_frequency_after_the_unknown_one() -> None:
    features, frame = learned({"item": ["b", "c", "b", "a", "c", "b"], "day": ["m"] * 6}, day="categorical")
    assert features.fields[0].values == ("b", "c", "a")
    assert features.first_ids == (0, 4)
    assert features.n_ids == 6
    ids, weights = features.encode(frame)
    assert ids.tolist() == [[1, 5], [2, 5], [1, 5], [3, 5], [2, 5], [1, 5]]
    assert weights is None


def test_what_was_never_seen_or_is_missing_is_out_of_vocabulary() -> None:
    features, _ = learned({"item": ["a", "b"], "day": ["m", "n"]}, day="categorical")
    new = pl.DataFrame({"item": ["z", None, "", "a"], "day": ["m", "x", None, "n"]})
    first = features.first_ids[1]
    assert features.encode(new)[0].tolist() == [[0, first + 1], [0, first], [0, first], [1, first + 2]]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40), st.integers(1, 5))
def test_rare_values_are_out_of_vocabulary(values: list[str], min_count: int) -> None:
    features, frame = learned({"item": values}, min_count)
    kept = {value for value in values if values.count(value) >= min_count}
    assert set(features.fields[0].values) == kept
    assert [code > 0 for code in features.encode(frame)[0][:, 0]] == [value in kept for value in values]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.sampled_from("xyz"), max_size=5), min_size=1, max_size=10),
    st.lists(st.lists(st.sampled_from("xyzw"), max_size=7), min_size=1, max_size=10),
    st.integers(1, 4),
    st.booleans(),
)
def test_several_values_share_one_weight_and_are_padded_with_none(
    seen: list[list[str]], new: list[list[str]], max_values: int, as_lists: bool
) -> None:
    def column(lists: list[list[str]]) -> pl.Series:
        return pl.Series(lists if as_lists else ["|".join(each) for each in lists], dtype=kind)

    kind = pl.List(pl.String) if as_lists else pl.String
    features, _ = learned({"tags": column(seen)}, tags={"kind": "multi", "max_values": max_values})
    frame = pl.DataFrame({"item": ["a"] * len(new), "tags": column(new)})
    ids, weights = features.encode(frame)
    field, first = features.fields[1], features.first_ids[1]
    assert weights is not None
    assert field.columns <= max_values
    assert (weights[:, 0] == 1).all()
    for row, values in enumerate(new):
        kept = values[: field.columns]
        expected = [field.values.index(value) + 1 if value in field.values else 0 for value in kept] or [0]
        present = weights[row, 1:] > 0
        assert np.allclose(weights[row, 1:][present], 1 / len(expected), atol=1e-6)
        assert (ids[row, 1:][present] - first).tolist() == expected
        assert (ids[row, 1:][~present] == first).all()


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("numeric", [0.0, 0.5, 1.0, 0.25]),
        ({"kind": "numeric", "scale": 56.0, "center": 0.0}, [2 / 56, 4 / 56, 6 / 56, 3 / 56]),
        ({"kind": "numeric", "center": 4.0}, [-0.5, 0.0, 0.5, -0.25]),
    ],
)
def test_numbers_are_scaled_into_the_weight_of_one_id(field: Any, expected: list[float]) -> None:
    features, frame = learned({"age": [2, 4, 6, 3]}, age=field)
    ids, weights = features.encode(frame)
    assert weights is not None
    assert ids[:, 1].tolist() == [features.first_ids[1] + 1] * 4
    assert weights[:, 1].tolist() == pytest.approx(expected)


AGES = [20.0, None, math.nan, 60.0, 10.0]  # their mean is 30


@pytest.mark.parametrize(
    ("missing", "ids", "weights", "decoded"),
    [
        ("mean", [1, 0], [0.4, 1.0], None),
        ("zero", [1], [-0.2], 0),
        ("flag", [0], [1.0], None),
    ],
)
def test_a_missing_number_is_what_the_schema_says(
    missing: str, ids: list[int], weights: list[float], decoded: Any
) -> None:
    field = {"kind": "numeric", "missing": missing}
    features, frame = learned({"age": AGES}, age=field)
    block = features.block("age")
    requests = [{"item": "a", "age": age} for age in (20, None, "", 60.0, "10")]
    for encoded in (features.encode(frame), features.encode_rows(requests)):
        own_ids, own_weights = block.of(*encoded)
        assert own_weights is not None
        assert own_weights[:, 0].tolist() == pytest.approx([0.2, weights[0], weights[0], 1.0, 0.0])
        present = [1] * len(ids)
        assert own_ids.tolist() == [present, ids, ids, present, present]
        if len(ids) > 1:
            assert own_weights[:, 1].tolist() == [0.0, weights[1], weights[1], 0.0, 0.0]
        known = block.field.numbers(own_ids, own_weights)
        assert np.isnan(known).tolist() == [False, *[decoded is None] * 2, False, False]
        assert block.field.is_unknown(own_ids).tolist() == [False, *[decoded is None] * 2, False, False]
        values = [block.field.decode(own_ids[row], own_weights[row]) for row in range(5)]
        assert values == [20, decoded, decoded, 60, 10]
        assert block.field.tree_matrix(own_ids, own_weights).shape == (5, len(block.field.tree_columns))
        assert block.field.frequent_values(own_ids, own_weights, 9) == (("0",) if decoded == 0 else ()) + (
            "10",
            "20",
            "60",
        )


def test_the_mean_with_a_flag_is_the_default() -> None:
    assert (
        learned({"age": AGES}, age="numeric")[0]
        == learned({"age": AGES}, age={"kind": "numeric", "missing": "mean"})[0]
    )


def test_a_schema_may_refuse_missing_numbers_by_row_and_column() -> None:
    features, _ = learned({"age": [1, 2]}, age={"kind": "numeric", "missing": "refuse"})
    with pytest.raises(DataError, match=r"^the query, row 2, column 'age': the value is missing; .* 'missing' of this"):
        features.encode(pl.DataFrame({"item": ["a", "b"], "age": [3, None]}), "the query")
    ids, _ = features.encode_rows([{"item": "a", "age": 1}, {"item": "a"}])
    with pytest.raises(DataError, match=r"^row 2, field 'age': the value is missing; give a number, or set"):
        features.refuse_missing(ids)


def test_a_constant_number_has_a_scale_and_a_column_without_numbers_a_mean() -> None:
    features, frame = learned({"age": [5.0, 5.0], "size": [None, None]}, age="numeric", size="numeric")
    _, weights = features.encode(frame)
    assert weights is not None
    assert weights.tolist() == [[1.0, 0.0, 0.0, 0.0, 1.0]] * 2


def test_an_infinite_number_is_refused_as_in_a_table_to_learn_from() -> None:
    features, _ = learned({"age": [1, 2]}, age="numeric")
    with pytest.raises(DataError, match=r"row 2, column 'age': inf is not a finite number; write a finite number"):
        features.encode(pl.DataFrame({"item": ["a", "b"], "age": [3.0, math.inf]}))
    with pytest.raises(DataError, match=r"row 1, field 'age': 'inf' is not a finite number; send a finite number"):
        features.encode_rows([{"age": "inf"}])


def test_text_in_a_numeric_field_and_a_missing_column_are_named() -> None:
    features, _ = learned({"age": [1, 2]}, age="numeric")
    new = pl.DataFrame({"item": ["a", "b"], "age": ["3", "old"]})
    with pytest.raises(DataError, match="the query, row 2, column 'age': 'old' is not a number"):
        features.encode(new, "the query")
    with pytest.raises(DataError, match="the query has no column 'age': the model reads item, age"):
        features.encode(pl.DataFrame({"item": ["a"]}), "the query")


ANY_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([1.0, 2.0, 2.5, None]),
        st.floats(-5, 5),
        st.lists(st.sampled_from("xyz"), max_size=4),
    ),
    min_size=1,
    max_size=15,
)
TYPES: dict[str, Any] = {"item": pl.String, "size": pl.Float64, "price": pl.Float64, "tags": pl.List(pl.String)}


@settings(deadline=None, max_examples=50)
@given(ANY_ROWS, st.data())
def test_rows_alone_or_out_of_order_are_encoded_as_in_the_whole_table(
    rows: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    frame = pl.DataFrame(rows, schema=TYPES, orient="row")
    features = FeatureMap.learn(frame, schema_of(size="categorical", price="numeric", tags="multi"))
    ids, weights = features.encode(frame)
    assert weights is not None
    some = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5))
    own_ids, own_weights = features.encode(frame[some])
    assert own_weights is not None
    assert np.array_equal(own_ids, ids[some])
    assert np.array_equal(own_weights, weights[some])
    assert ids.min() >= 0
    assert ids.max() < features.n_ids


@settings(deadline=None, max_examples=30)
@given(ANY_ROWS, st.integers(1, 2))
def test_a_feature_map_survives_json(rows: list[tuple[Any, ...]], min_count: int) -> None:
    frame = pl.DataFrame(rows, schema=TYPES, orient="row")
    fields = {"size": "categorical", "price": "numeric", "tags": {"kind": "multi", "separator": ";"}}
    features = FeatureMap.learn(frame, schema_of(**fields), min_count)
    assert FeatureMap.from_json(json.loads(json.dumps(features.to_json()))) == features


@pytest.mark.parametrize("name", ["count", "value", "id", "len", "literal"])
def test_a_field_may_have_any_name(name: str) -> None:
    categorical: dict[str, Any] = {name: "categorical"}
    features, frame = learned({name: ["p", "q", "p"]}, **categorical)
    assert features.fields[1].values == ("p", "q")
    assert (features.encode(frame)[0][:, 1] - features.first_ids[1]).tolist() == [1, 2, 1]
    multi: dict[str, Any] = {name: "multi"}
    several, frame = learned({name: [["p", "q"], ["p"], []]}, **multi)
    assert several.fields[1].values == ("p", "q")
    assert several.encode(frame)[0].shape == (3, 3)


ITEMS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "é", "", None]), st.sampled_from([1, 2, 30, None]), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=50)
@given(items=ITEMS, min_count=st.integers(1, 4), seed=st.integers(0, 99))
def test_a_smaller_table_is_learned_and_encoded_like_the_rows_it_stands_for(
    items: list[tuple[str | None, int | None, int]], min_count: int, seed: int
) -> None:
    names, prices, counts = zip(*items, strict=True)
    kinds = {"item": pl.Int64, "name": pl.String, "price": pl.Int32}
    table = pl.DataFrame({"item": range(len(items)), "name": names, "price": prices}, schema=kinds)
    position = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(items)), counts))
    rows = table[position].with_columns(place=pl.lit("here"))
    schema = schema_of(**dict.fromkeys(("name", "place", "item", "price"), "categorical"))
    expected = FeatureMap.learn(rows, schema, min_count)
    for field in expected.fields:
        if field.name != "place":
            declared, column = schema.fields[field.name], table[field.name]
            assert declared.learn(field.name, column, min_count=min_count, counts=np.array(counts)) == field
    columns, ids = expected.encode_part(table)
    assert np.array_equal(ids[position], expected.encode(rows)[0][:, columns])
