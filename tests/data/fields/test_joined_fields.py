"""A table whose rows stand for many is learned and encoded as the many would be."""

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.joined_fields import PartOfIds, learned_field
from resus.data.schema import FieldSchema, TableSchema

ITEMS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "é", "", None]), st.sampled_from([1, 2, 30, None]), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=50)
@given(items=ITEMS, min_count=st.integers(1, 4), seed=st.integers(0, 99))
def test_learned_and_encoded_like_the_rows_they_stand_for(
    items: list[tuple[str | None, int | None, int]], min_count: int, seed: int
) -> None:
    names, prices, counts = zip(*items, strict=True)
    kinds = {"item": pl.Int64, "name": pl.String, "price": pl.Int32}
    table = pl.DataFrame({"item": range(len(items)), "name": names, "price": prices}, schema=kinds)
    position = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(items)), counts))
    rows = table[position].with_columns(place=pl.lit("here"))
    fields = {name: FieldSchema() for name in ("name", "place", "item", "price")}
    schema = TableSchema(user="user", item="item", label="click", fields=fields)
    expected = FeatureMap.learn(rows, schema, min_count)
    for field in expected.fields:
        if field.name != "place":
            assert learned_field(field.name, table[field.name], np.array(counts), min_count) == field
    part = PartOfIds.of(expected, table)
    ids, _ = expected.encode(rows)
    assert np.array_equal(part.ids[position], ids[:, part.columns])
