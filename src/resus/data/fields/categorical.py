"""A field with one value per row, such as an item, a device or a country."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl

from resus.arrays import Floats, Ids, Integers
from resus.data.fields.base import Encoded, Field, FieldOptions
from resus.data.fields.values import as_text
from resus.data.fields.vocabulary import Vocabulary
from resus.errors import RowError


@dataclass(frozen=True)
class CategoricalField(Field):
    """Each known value has its own id, with weight 1."""

    kind = "categorical"
    can_name_items = True

    @classmethod
    def learn(
        cls, name: str, column: pl.Series, options: FieldOptions, *, min_count: int = 1, counts: Integers | None = None
    ) -> Self:
        return cls(name, Vocabulary.learn(as_text(column), min_count, counts))

    def encode(self, column: pl.Series) -> Encoded:
        if column.dtype.is_nested():
            raise RowError(0, self.name, "a cell holds several values", "keep one value in each cell")
        return self.vocabulary.look_up(as_text(column))[:, None], None

    def encode_values(self, values: Sequence[Any]) -> Encoded:
        known = self.vocabulary.places
        places = [known.get(value) if isinstance(value, str) else None for value in values]
        if None in places:  # unknown, missing, or not spelled as in the vocabulary
            place_of, name = self.vocabulary.place_of, self.name
            both = enumerate(zip(places, values, strict=True))
            places = [place_of(value, row, name) if place is None else place for row, (place, value) in both]
        return np.array(places, dtype=np.int32).reshape(-1, 1), None

    def decode(self, ids: Ids, weights: Floats | None) -> str | None:
        return self.values[ids[0] - 1] if ids[0] else None
