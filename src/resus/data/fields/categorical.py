"""A field with one value per row, such as an item, a device or a country."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import polars as pl

from resus.arrays import Array, Floats, Ids, Integers
from resus.data.fields.base import Encoded, Field, FieldOptions
from resus.data.fields.values import as_text, spelled, text_of
from resus.errors import RowError


class Vocabulary:
    """The values that a field knows, as text, and the place of each; 0 is the place of all other values."""

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
        place = self._places.get(value) if isinstance(value, str) else None  # mostly the whole work
        if place is None:
            text = text_of(value, row, name)
            place = self._places.get(spelled(text), 0) if text else 0
        return place

    @cached_property
    def _sorted(self) -> tuple[pl.Series, Ids]:
        values = pl.Series(self._values, dtype=pl.String)
        order = values.arg_sort().to_numpy()
        return values.gather(order), (1 + order).astype(np.int32)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self._values, 1)}


@dataclass(frozen=True)
class CategoricalField(Field):
    """Each value of the vocabulary has an id of its own, with weight 1."""

    kind = "categorical"
    can_name_items = True

    vocabulary: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls, name: str, column: pl.Series, options: FieldOptions, *, min_count: int = 1, counts: Integers | None = None
    ) -> Self:
        return cls(name, Vocabulary.learn(as_text(column), min_count, counts))

    @property
    def ids(self) -> int:
        return 1 + len(self.vocabulary)

    @property
    def values(self) -> tuple[str, ...]:
        return self.vocabulary

    @cached_property
    def _known(self) -> Vocabulary:
        return Vocabulary(self.vocabulary)

    def encode(self, column: pl.Series) -> Encoded:
        if column.dtype.is_nested():
            raise RowError(0, self.name, "a cell holds several values", "keep one value in each cell")
        return self._known.look_up(as_text(column))[:, None], None

    def encode_values(self, values: Sequence[Any]) -> Encoded:
        place_of, name = self._known.place_of, self.name
        places = [place_of(value, row, name) for row, value in enumerate(values)]
        return np.array(places, dtype=np.int32).reshape(-1, 1), None

    def decode(self, ids: Ids, weights: Floats | None) -> str | None:
        return self.vocabulary[ids[0] - 1] if ids[0] else None

    def example(self) -> str | None:
        return self.vocabulary[0] if self.vocabulary else None

    @property
    def tree_columns(self) -> tuple[bool, ...]:
        return (True,)

    def tree_matrix(self, ids: Ids, weights: Floats | None) -> Array:
        return ids
