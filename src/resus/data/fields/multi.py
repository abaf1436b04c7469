"""A field with several values per row, such as genres or tags."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
import pydantic

from resus.arrays import Array, Booleans, Floats, Ids, Integers
from resus.data.fields.base import Encoded, Field, FieldOptions, Recoder
from resus.data.fields.values import as_text, text_of
from resus.data.fields.vocabulary import Vocabulary

MAX_VALUES = 1000  # of a row
WIDEST_MULTI_HOT = 128  # ids; a tree sees only the first value of a wider field


class MultiOptions(FieldOptions):
    """Text is split at the separator. A row keeps its first `max_values` values."""

    separator: str = "|"
    max_values: int = pydantic.Field(default=8, ge=1, le=MAX_VALUES)


@dataclass(frozen=True)
class MultiField(Field):
    """Each known value has its own id. The values of a row share the weight 1; empty slots have the weight 0."""

    kind = "multi"
    options = MultiOptions
    weighted = True
    takes_lists = True

    slots: Annotated[int, pydantic.Field(ge=1, le=MAX_VALUES)] = 1
    separator: str = "|"

    @classmethod
    def learn(
        cls, name: str, column: pl.Series, options: MultiOptions, *, min_count: int = 1, counts: Integers | None = None
    ) -> Self:
        texts, lengths = _split(column, options.separator)
        counts = None if counts is None else np.repeat(counts, lengths)
        slots = max(1, min(options.max_values, int(lengths.max(initial=1))))
        return cls(name, Vocabulary.learn(texts, min_count, counts), slots, options.separator)

    @property
    def columns(self) -> int:
        return self.slots

    @cached_property
    def _weights(self) -> Floats:
        """`[slots + 1, slots]`: the weights of a row by its number of values."""
        used = np.arange(self.slots + 1)[:, None]
        filled = np.arange(self.slots) < np.maximum(used, 1)
        return (filled / np.maximum(used, 1)).astype(np.float32)

    def encode(self, column: pl.Series) -> Encoded:
        texts, lengths = _split(column, self.separator, self.slots)
        ids = np.zeros((len(column), self.slots), dtype=np.int32)
        ids[np.arange(self.slots) < lengths[:, None]] = self.vocabulary.look_up(texts)
        return ids, self._weights[lengths]

    def encode_values(self, values: Sequence[Any]) -> Encoded:
        rows = [self._places_of(value, row) for row, value in enumerate(values)]
        empty = [[0] * (self.slots - used) for used in range(self.slots + 1)]
        ids = np.array([places + empty[len(places)] for places in rows], dtype=np.int32).reshape(-1, self.slots)
        return ids, self._weights[[len(places) for places in rows]]

    def _places_of(self, value: Any, row: int) -> list[int]:
        if not isinstance(value, list | tuple):
            text = text_of(value, row, self.name)
            value = () if text is None else text.split(self.separator) if self.separator else text
        return [self.vocabulary.place_of(one, row, self.name) for one in value][: self.slots]

    def never_seen(self, column: pl.Series, ids: Ids, weights: Floats | None) -> Booleans:
        """The rows with at least one such value."""
        assert weights is not None
        rows: Booleans = ((ids == 0) & (weights > 0)).any(axis=1)
        some = np.flatnonzero(rows)
        if len(some):
            texts, lengths = _split(column.gather(some), self.separator, self.slots)
            unknown = (self.vocabulary.look_up(texts) == 0) & (texts.fill_null("") != "").to_numpy()
            rows = np.zeros_like(rows)
            rows[np.repeat(some, lengths)[unknown]] = True
        return rows

    def decode(self, ids: Ids, weights: Floats | None) -> list[str | None]:
        assert weights is not None
        return [self.values[place - 1] if place else None for place in ids[weights > 0]]

    def grown(self, newer: Self) -> Self:
        return replace(super().grown(newer), slots=max(self.slots, newer.slots))

    def recoder(self, newer: Self) -> Recoder:
        own, kept = self._ids_of(newer), min(self.slots, newer.slots)

        def recode(ids: Ids, weights: Floats | None) -> Encoded:
            assert weights is not None
            recoded = np.zeros((len(ids), self.slots), dtype=np.int32)
            recoded[:, :kept] = own[ids[:, :kept]]
            return recoded, self._weights[np.minimum((weights > 0).sum(axis=1), self.slots)]

        return recode

    @property
    def _is_multi_hot(self) -> bool:
        return self.ids <= WIDEST_MULTI_HOT

    @property
    def tree_columns(self) -> tuple[bool, ...]:
        return (False,) * self.ids if self._is_multi_hot else (True,)

    def tree_matrix(self, ids: Ids, weights: Floats | None) -> Array:
        assert weights is not None
        if not self._is_multi_hot:
            return super().tree_matrix(ids, weights)
        hot = np.zeros((len(ids), self.ids), dtype=np.float32)
        rows, slots = np.nonzero(weights > 0)
        hot[rows, ids[rows, slots]] = 1.0
        return hot


def _split(column: pl.Series, separator: str, most: int | None = None) -> tuple[pl.Series, Integers]:
    """The (first) values of all rows as text, one after the other, and how many each row has."""
    if isinstance(column.dtype, pl.Array):
        column = column.cast(pl.List(column.dtype.inner))
    if not isinstance(column.dtype, pl.List):
        text = column if column.dtype == pl.String else as_text(column)
        column = text.str.split(separator)
    column = column if most is None else column.list.head(most)
    lengths = column.list.len().fill_null(0).cast(pl.Int64)
    return as_text(column.filter(lengths > 0).explode()), lengths.to_numpy()
