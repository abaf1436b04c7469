"""A log read by the vocabulary of another one has the ids and weights that the other one gives its raw values."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from newer_logs import LATER_TAG, earlier, newer, newer_events
from planted_models import KEEP, SCHEMA

from resus import DataError, FieldSchema, TableSchema, build_log
from resus.arrays import Ids
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.recoded import recoded

VALUES = st.sampled_from(["a", "b", "c", "d"])
ROWS = st.lists(st.tuples(VALUES, st.lists(VALUES, max_size=4), st.none() | st.integers(-3, 3)), min_size=2, max_size=8)
ROLES = TableSchema(
    user="user",
    item="item",
    label="click",
    fields={"tags": FieldSchema(kind="multi"), "price": FieldSchema(kind="numeric")},
)


def table(rows: list[tuple[str, list[str], int | None]]) -> pl.DataFrame:
    items, tags, prices = zip(*rows, strict=True)
    texts = ["|".join(each) or None for each in tags]
    columns = {
        "user": ["u"] * len(rows),
        "item": items,
        "click": [n % 2 for n in range(len(rows))],
        "tags": texts,
        "price": prices,
    }
    return pl.DataFrame(columns, schema_overrides={"tags": pl.String, "price": pl.Int64})


@settings(max_examples=25)
@given(before=ROWS, after=ROWS)
def test_recoding_equals_encoding_the_raw_values(
    before: list[tuple[str, list[str], int | None]], after: list[tuple[str, list[str], int | None]]
) -> None:
    old, new = (build_log(table(rows), ROLES, KEEP) for rows in (before, after))
    read = recoded(new, old.features)
    ids, weights = old.features.encode(table(after))
    assert weights is not None
    assert read.weights is not None
    assert np.array_equal(read.ids, ids)
    assert np.allclose(read.weights, weights, atol=1e-6)


@settings(max_examples=25)
@given(before=ROWS, after=ROWS)
def test_a_grown_map_keeps_known_ids_and_adds_the_new_values_at_the_end_of_each_block(
    before: list[tuple[str, list[str], int | None]], after: list[tuple[str, list[str], int | None]]
) -> None:
    old, new = (build_log(table(rows), ROLES, KEEP) for rows in (before, after))
    grown = old.features.grown(new.features)
    for block, larger, other in zip(old.features.blocks, grown.blocks, new.features.blocks, strict=True):
        assert larger.field.values[: len(block.field.values)] == block.field.values
        assert set(larger.field.values) == {*block.field.values, *other.field.values}
    unknown = unknown_in(grown, recoded(new, grown).ids)
    assert unknown == unknown_in(new.features, new.ids), "every value of the newer log is known"
    rows = recoded(old, grown).ids
    assert np.array_equal(old.features.places_in(grown)[old.ids], rows[:, : old.ids.shape[1]]) or grown.n_columns > (
        old.features.n_columns
    )


def unknown_in(features: FeatureMap, ids: Ids) -> dict[str, int]:
    """By field, the rows whose value is missing or unknown; only fields that have some."""
    counts = {block.field.name: int(block.field.is_unknown(block.of(ids, None)[0]).sum()) for block in features.blocks}
    return {name: count for name, count in counts.items() if count}


def test_the_hash_stays_and_what_is_not_known_has_the_unknown_id() -> None:
    read = recoded(newer(), earlier().features)
    assert read.content_hash == newer().content_hash
    assert read.n_users == newer().n_users
    unknown = unknown_in(earlier().features, read.ids)
    assert unknown["item"] == newer_events().filter(pl.col("item") >= 15).height
    assert LATER_TAG not in earlier().features.block("tags").field.values
    assert recoded(newer(), newer().features) is newer()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"category": FieldSchema(), "price": FieldSchema(kind="numeric")}, "lacks 'tags'"),
        (dict(SCHEMA.fields) | {"click2": FieldSchema()}, "has 'click2', which the model does not read"),
        (dict(SCHEMA.fields) | {"price": FieldSchema()}, "holds 'price' as categorical, and the model reads it as num"),
    ],
)
def test_a_log_with_other_fields_is_refused(fields: dict[str, FieldSchema], said: str) -> None:
    fields = {name: field for name, field in fields.items() if name != "item"}
    roles = TableSchema(user="user", item="item", time="time", label="click", fields=fields)
    other = build_log(newer_events().with_columns(click2=pl.col("click")), roles, KEEP, name="other")
    with pytest.raises(DataError, match=said) as caught:
        recoded(other, earlier().features)
    assert "the log 'other'" in str(caught.value)
    assert "schema" in str(caught.value)


def test_a_log_of_other_items_is_refused() -> None:
    features = replace(newer().features, item="category")
    with pytest.raises(DataError, match="the item of the log 'mine' is 'category'"):
        recoded(replace(newer(), features=features), earlier().features)
