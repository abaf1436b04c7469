"""A field kind: a year, of which the model sees only the decade."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl

from resus.arrays import Floats, Ids, Integers
from resus.data.fields.base import Encoded, Field, FieldOptions


@dataclass(frozen=True)
class DecadeField(Field):
    kind = "decade"

    @classmethod
    def learn(
        cls, name: str, column: pl.Series, options: FieldOptions, *, min_count: int = 1, counts: Integers | None = None
    ) -> Self:
        return cls(name, tuple(sorted({text for text in map(_decade, column) if text})))

    def encode(self, column: pl.Series) -> Encoded:
        return self.encode_values(column.to_list())

    def encode_values(self, values: Sequence[Any]) -> Encoded:
        ids = [1 + self.values.index(text) if (text := _decade(value)) in self.values else 0 for value in values]
        return np.array(ids, dtype=np.int32).reshape(-1, 1), None

    def decode(self, ids: Ids, weights: Floats | None) -> str | None:
        return self.values[ids[0] - 1] if ids[0] else None


def _decade(year: Any) -> str:
    return "" if year is None else str(int(year) // 10 * 10)
