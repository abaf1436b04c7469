"""The values that a field knows, and the id of each."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from resus.arrays import Ids, Integers
from resus.data.fields.values import spelled, text_of


class Vocabulary:
    """Places of values, as text, from 1 on; 0 is the place of all other values."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values

    @staticmethod
    def learn(texts: pl.Series, min_count: int, counts: Integers | None = None) -> tuple[str, ...]:
        """Distinct texts that stand for at least `min_count` rows, the most frequent first."""
        rows = pl.lit(1, pl.Int64) if counts is None else pl.Series(counts)
        seen = texts.alias("value").to_frame().with_columns(rows.alias("count")).drop_nulls("value")
        seen = seen.group_by("value").agg(pl.col("count").sum())
        seen = seen.filter((pl.col("count") >= max(min_count, 1)) & (pl.col("value") != ""))
        return tuple(seen.sort(["count", "value"], descending=[True, False])["value"])

    def look_up(self, texts: pl.Series) -> Ids:
        """The place of each text of a column. The work grows with the column, not with the vocabulary."""
        known, places = self._sorted
        if not len(known):
            return np.zeros(len(texts), dtype=np.int32)
        distinct = texts.drop_nulls().unique().sort()  # a search in order keeps to the processor's cache
        nearest = np.minimum(known.search_sorted(distinct).to_numpy(), len(known) - 1)
        found = (known.gather(nearest) == distinct).to_numpy()
        table = pl.DataFrame({"value": distinct, "id": np.where(found, places[nearest], np.int32(0))})
        joined = texts.alias("value").to_frame().join(table, on="value", how="left", maintain_order="left")
        return joined["id"].fill_null(0).to_numpy()

    def place_of(self, value: Any, row: int, name: str) -> int:
        """The place of one value of a request; RowError for what no field can hold."""
        place = self.places.get(value) if isinstance(value, str) else None  # mostly the whole work
        if place is None:
            text = text_of(value, row, name)
            place = self.places.get(spelled(text), 0) if text else 0
        return place

    @cached_property
    def _sorted(self) -> tuple[pl.Series, Ids]:
        values = pl.Series(self._values, dtype=pl.String)
        order = values.arg_sort().to_numpy()
        return values.gather(order), (1 + order).astype(np.int32)

    @cached_property
    def places(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self._values, 1)}
