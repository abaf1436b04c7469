"""The categories that a model's file lists, and where the values of a column stand among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import polars as pl

from resus.data.fields.feature_map import EncodedField, as_text
from resus.errors import DataError
from resus.external.scoring_model import Floats


@dataclass(frozen=True, eq=False)
class Categories:
    """Words, numbers or booleans; of numbers and booleans, text that says one, as CSV has it, counts as one."""

    known: EncodedField
    are_numbers: bool  # a boolean is one, too
    are_booleans: bool

    @classmethod
    def of(cls, values: Sequence[Any]) -> Self:
        are_booleans = all(isinstance(value, bool) for value in values)
        are_numbers = all(isinstance(value, int | float) for value in values)
        fractions = any(isinstance(value, float) for value in values)
        if are_numbers:
            words = tuple(as_text(pl.Series(list(values), dtype=pl.Float64 if fractions else None, strict=False)))
        else:
            words = tuple(map(str, values))
        return cls(EncodedField("categories", "categorical", 1, words), are_numbers, are_booleans)

    def codes(self, series: pl.Series) -> Floats:
        """Places in the list; NaN for a value that is not in it, as if it were missing."""
        places = self.known.look_up(self._written_alike(series))
        return np.where(places > 0, places - 1.0, np.nan)

    def _written_alike(self, series: pl.Series) -> pl.Series:
        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        if not self.are_numbers or series.dtype != pl.String:
            return as_text(series)
        series = series.str.strip_chars()
        if self.are_booleans:
            series = series.str.to_lowercase().replace({"true": "1", "false": "0"})
        whole = series.cast(pl.Int64, strict=False).cast(pl.String)
        return whole.fill_null(as_text(series.cast(pl.Float64, strict=False)))


@runtime_checkable
class ListsCategories(Protocol):
    """A model whose file lists, by the place of the column, all categories that it knows."""

    listed: Mapping[int, Categories]


def refuse_foreign(frame: pl.DataFrame, listed: Mapping[int, Categories], model: str, where: str) -> None:
    """A column of a whole table none of whose values is listed is written in another way than the model learned it."""
    for place, categories in listed.items():
        column = frame[:, place]
        values = as_text(column).drop_nulls()
        values = values.filter(values.str.strip_chars() != "")
        if len(values) and np.isnan(categories.codes(column)).all():
            known = categories.known.vocabulary
            raise DataError(
                f"{where}, column '{column.name}': none of its values, such as {values[0]!r}, is among the "
                f"{len(known):,} categories of {model}{f', such as {known[0]!r}' if known else ''}: write them as they "
                "were written for the model's training"
            )
