"""A field with one number per row, such as a price or an age."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
import pydantic

from resus.arrays import Array, Booleans, Doubles, Floats, Ids, Integers
from resus.data.fields.base import BadRows, Encoded, Field, FieldOptions, Recoder
from resus.data.fields.values import as_numbers, is_missing, number_of
from resus.errors import RowError

LARGEST_WEIGHT = 1e9  # its fourth power is still finite in float32
MISSING_FIX = "give a number, or set 'missing' of this field to mean, zero or flag"
_NO_NUMBER = "write a number, or declare the field categorical if it is not the score of a model"

Missing = Literal["mean", "zero", "flag", "refuse"]


class NumericOptions(FieldOptions):
    """A number x becomes (x - center) / scale. The defaults map the numbers of the table to 0 … 1.

    `missing` says what a missing number is: the mean of the table's numbers and a flag, the number 0, a flag alone, or
    a mistake.
    """

    center: float | None = None
    scale: float | None = pydantic.Field(default=None, gt=0)
    missing: Missing = "mean"


@dataclass(frozen=True)
class NumericField(Field):
    """A number is id 1, and the scaled number is its weight. Id 0 is the flag of a missing number, with weight 1.

    With `missing: mean` there is a second column for the flag, which has no weight unless the number is missing; a
    missing number has the weight of the mean in the first column. Of a flag that training never saw, a model knows
    nothing: its vector is 0.
    """

    kind = "numeric"
    options = NumericOptions
    weighted = True
    is_number = True

    center: float = 0.0
    scale: Annotated[float, pydantic.Field(gt=0)] = 1.0
    missing: Missing = "flag"
    mean: float = 0.0

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
        present = np.isfinite(numbers)
        if not present.all():
            numbers, counts = numbers[present], None if counts is None else counts[present]
        low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
        center = low if options.center is None else options.center
        scale = ((high - low) or 1.0) if options.scale is None else options.scale
        rows = len(numbers) if counts is None else int(counts.sum())
        mean = float(np.average(numbers, weights=counts)) if rows else 0.0
        return cls(name, (), center, scale, options.missing, mean if options.missing == "mean" else 0.0)

    @property
    def ids(self) -> int:
        return 2

    @property
    def columns(self) -> int:
        return 2 if self.missing == "mean" else 1

    @property
    def tells_missing(self) -> bool:
        return self.missing != "zero"

    @property
    def refuses_missing(self) -> bool:
        return self.missing == "refuse"

    def encode(self, column: pl.Series) -> Encoded:
        numbers, bad = as_numbers(column)
        if bool(bad.any()):
            row = int(bad.arg_true()[0])
            raise RowError(row, self.name, f"{column[row]!r} is not a number", "write a number")
        infinite = np.flatnonzero(np.isinf(numbers))
        if len(infinite):
            row = int(infinite[0])
            raise RowError(row, self.name, f"{column[row]!r} is not a finite number", "write a finite number")
        if self.missing == "refuse" and np.isnan(numbers).any():
            raise RowError(int(np.isnan(numbers).argmax()), self.name, "the value is missing", MISSING_FIX)
        return self._encoded(numbers)

    def encode_values(self, values: Sequence[Any]) -> Encoded:
        numbers = [number_of(value, row, self.name) for row, value in enumerate(values)]
        far = (
            row
            for row, number in enumerate(numbers)
            if number is not None and abs((number - self.center) / self.scale) > LARGEST_WEIGHT
        )
        row = next(far, None)
        if row is not None:
            what = "the number is too far from all numbers of the training data"
            raise RowError(row, self.name, what, "send another number")
        return self._encoded(np.array(numbers, dtype=np.float64))  # None becomes NaN

    def _encoded(self, numbers: Doubles) -> Encoded:
        """Ids and weights of numbers, NaN where one is missing."""
        absent = np.isnan(numbers)
        filled = {"mean": self.mean, "zero": 0.0}.get(self.missing)
        scaled = (np.where(absent, 0.0 if filled is None else filled, numbers) - self.center) / self.scale
        if filled is None:
            return (~absent).astype(np.int32)[:, None], np.where(absent, 1.0, scaled).astype(np.float32)[:, None]
        ids = np.ones((len(numbers), self.columns), dtype=np.int32)
        weights = np.zeros((len(numbers), self.columns), dtype=np.float32)
        weights[:, 0] = scaled
        if self.missing == "mean":
            ids[absent, 1], weights[absent, 1] = 0, 1.0
        return ids, weights

    def is_unknown(self, ids: Ids) -> Booleans:
        """A missing number; with `missing: zero`, there is none."""
        absent: Booleans = ids[:, -1] == 0
        return absent

    def never_seen(self, column: pl.Series, ids: Ids, weights: Floats | None) -> Booleans:
        """No number is unknown."""
        return np.zeros(len(ids), dtype=np.bool_)

    def decode(self, ids: Ids, weights: Floats | None) -> int | float | None:
        assert weights is not None
        return self._shortest(weights[0]) if ids[-1] else None

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
        return (False,) * self.columns

    def tree_matrix(self, ids: Ids, weights: Floats | None) -> Array:
        assert weights is not None
        return np.where(ids[:, :1] > 0, weights, np.nan)

    def numbers(self, ids: Ids, weights: Floats) -> Doubles:
        return np.where(ids[:, -1] > 0, weights[:, 0].astype(np.float64) * self.scale + self.center, np.nan)

    def grown(self, newer: Self) -> Self:  # numbers keep their scale
        return self

    def recoder(self, newer: Self) -> Recoder:
        def recode(ids: Ids, weights: Floats | None) -> Encoded:
            assert weights is not None
            if newer == self:
                return ids, weights  # exactly
            return self.encode(pl.Series(newer.numbers(ids, weights)))

        return recode

    def frequent_values(self, ids: Ids, weights: Floats | None, limit: int) -> tuple[str, ...]:
        assert weights is not None
        found, counts = np.unique(weights[ids[:, -1] > 0, 0], return_counts=True)
        return tuple(str(self._shortest(found[place])) for place in np.argsort(-counts, kind="stable")[:limit])

    @classmethod
    def bad_rows(cls, column: pl.Series, options: NumericOptions) -> list[BadRows]:
        numbers, bad = as_numbers(column)
        unusable = bad | pl.Series(np.isinf(numbers))
        found = [BadRows(unusable, lambda row: f"{column[row]!r} is not a finite number", _NO_NUMBER)]
        if options.missing == "refuse":
            found.append(BadRows(pl.Series(np.isnan(numbers)) & ~bad, "the value is missing", MISSING_FIX))
        return found


def bad_numbers(column: pl.Series, fix: str) -> list[BadRows]:
    """The rows of a column that hold no finite number."""
    missing = is_missing(column)
    unusable = pl.Series(~np.isfinite(as_numbers(column)[0])) & ~missing
    return [
        BadRows(missing, "the value is missing", fix),
        BadRows(unusable, lambda row: f"{column[row]!r} is not a finite number", fix),
    ]
