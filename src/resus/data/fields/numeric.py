"""A field with one number per row, such as a price or an age."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
import pydantic

from resus.arrays import Array, Doubles, Floats, Ids, Integers
from resus.data.fields.base import BadRows, Encoded, Field, FieldOptions, Recoder
from resus.data.fields.values import as_numbers, is_missing, number_of
from resus.errors import RowError

LARGEST_WEIGHT = 1e9  # its fourth power is still finite in float32
_FIX = "write a number, or declare the field categorical if it is not the score of a model"


class NumericOptions(FieldOptions):
    """A number x becomes (x - center) / scale. The defaults map the numbers of the table to 0 … 1."""

    center: float | None = None
    scale: float | None = pydantic.Field(default=None, gt=0)


@dataclass(frozen=True)
class NumericField(Field):
    """A number is id 1, and the scaled number is its weight. A missing number is id 0, with weight 1."""

    kind = "numeric"
    options = NumericOptions
    weighted = True
    is_number = True

    center: float = 0.0
    scale: Annotated[float, pydantic.Field(gt=0)] = 1.0

    @classmethod
    def learn(
        cls,
        name: str,
        column: pl.Series,
        options: NumericOptions,
        *,
        min_count: int = 1,
        counts: Integers | None = None,
    ) -> Self:
        numbers, _ = as_numbers(column)
        numbers = numbers[np.isfinite(numbers)]
        low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
        center = low if options.center is None else options.center
        scale = ((high - low) or 1.0) if options.scale is None else options.scale
        return cls(name, center=center, scale=scale)

    @property
    def ids(self) -> int:
        return 2

    def encode(self, column: pl.Series) -> Encoded:
        numbers, bad = as_numbers(column)
        if bool(bad.any()):
            row = int(bad.arg_true()[0])
            raise RowError(row, self.name, f"{column[row]!r} is not a number", "write a number")
        present = np.isfinite(numbers)
        weights = np.where(present, (numbers - self.center) / self.scale, 1.0)
        return present.astype(np.int32)[:, None], weights.astype(np.float32)[:, None]

    def encode_values(self, values: Sequence[Any]) -> Encoded:
        numbers = [number_of(value, row, self.name) for row, value in enumerate(values)]
        weights = [1.0 if number is None else (number - self.center) / self.scale for number in numbers]
        far = next((row for row, weight in enumerate(weights) if abs(weight) > LARGEST_WEIGHT), None)
        if far is not None:
            what = "the number is too far from all numbers of the training data"
            raise RowError(far, self.name, what, "send another number")
        present = np.array([number is not None for number in numbers], dtype=np.int32)
        return present.reshape(-1, 1), np.array(weights, dtype=np.float32).reshape(-1, 1)

    def decode(self, ids: Ids, weights: Floats | None) -> int | float | None:
        assert weights is not None
        return self._shortest(weights[0]) if ids[0] else None

    def _shortest(self, weight: np.float32) -> int | float:
        """The number with the fewest digits that has this weight."""
        exact = float(weight) * self.scale + self.center
        short = (0.0, *(float(f"{exact:.{digits}g}") for digits in range(1, 17)))
        number = next((each for each in short if np.float32((each - self.center) / self.scale) == weight), exact)
        return int(number) if number.is_integer() else number

    def example(self) -> float:
        return self.center

    @property
    def tree_columns(self) -> tuple[bool, ...]:
        return (False,)

    def tree_matrix(self, ids: Ids, weights: Floats | None) -> Array:
        assert weights is not None
        return np.where(ids > 0, weights, np.nan)

    def numbers(self, ids: Ids, weights: Floats) -> Doubles:
        return np.where(ids > 0, weights.astype(np.float64) * self.scale + self.center, np.nan)

    def grown(self, newer: Self) -> Self:  # numbers keep their scale
        return self

    def recoder(self, newer: Self) -> Recoder:
        def recode(ids: Ids, weights: Floats | None) -> Encoded:
            assert weights is not None
            if newer == self:
                return ids, weights  # exactly
            return self.encode(pl.Series(newer.numbers(ids[:, 0], weights[:, 0])))

        return recode

    def frequent_values(self, ids: Ids, weights: Floats | None, limit: int) -> tuple[str, ...]:
        assert weights is not None
        found, counts = np.unique(weights[ids > 0], return_counts=True)
        return tuple(str(self._shortest(found[place])) for place in np.argsort(-counts, kind="stable")[:limit])

    @classmethod
    def bad_rows(cls, column: pl.Series) -> list[BadRows]:
        return bad_numbers(column, _FIX)


def bad_numbers(column: pl.Series, fix: str) -> list[BadRows]:
    """The rows of a column that hold no finite number."""
    missing = is_missing(column)
    unusable = pl.Series(~np.isfinite(as_numbers(column)[0])) & ~missing
    return [
        BadRows(missing, "the value is missing", fix),
        BadRows(unusable, lambda row: f"{column[row]!r} is not a finite number", fix),
    ]
