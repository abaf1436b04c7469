"""Raw columns as a model takes them: numbers, codes of categories, text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.arrays import Doubles
from resus.data.fields.values import as_numbers, as_text
from resus.data.fields.vocabulary import Vocabulary
from resus.errors import DataError, RowError


def numbers(column: pl.Series) -> Doubles:
    """NaN where a value is missing. Text and booleans are read as in a numeric field."""
    found, bad = as_numbers(column)
    if bool(bad.any()):
        row = int(bad.arg_true()[0])
        fix = "the model reads a number here: write one, or give a model that reads this column as it is"
        raise RowError(row, column.name, f"{column[row]!r} is not a number", fix)
    return found


def text(column: pl.Series, missing: str) -> npt.NDArray[np.object_]:
    """Text as it stands in the table; whole numbers without '.0'."""
    words = column if column.dtype == pl.String else as_text(column)
    return np.asarray(words.fill_null(missing).to_numpy(), dtype=object)


def matrix(frame: pl.DataFrame, listed: Mapping[int, "Categories"]) -> Doubles:
    """`[N, F]` numbers; the columns at the places of `listed` as codes."""
    columns = [
        listed[place].codes(column) if place in listed else numbers(column) for place, column in enumerate(frame)
    ]
    return np.column_stack(columns)


@dataclass(frozen=True, eq=False)
class Categories:
    """The categories that a model file lists for a column: text, numbers or booleans.

    If they are numbers or booleans, text that says one, as in CSV, counts as one.
    """

    words: tuple[str, ...]
    are_numbers: bool  # a boolean is one, too
    are_booleans: bool

    @classmethod
    def of(cls, values: Sequence[Any]) -> Self:
        are_booleans = all(isinstance(value, bool) for value in values)
        are_numbers = all(isinstance(value, int | float) for value in values)
        fractions = are_numbers and any(isinstance(value, float) for value in values)
        given = values if are_numbers else list(map(str, values))
        words = as_text(pl.Series(list(given), dtype=pl.Float64 if fractions else None, strict=False))
        return cls(tuple(words), are_numbers, are_booleans)

    def codes(self, column: pl.Series) -> Doubles:
        """Places in the list; NaN for a value that is not in it, as if it were missing."""
        places = self._known.look_up(self._written_alike(column))
        return np.where(places > 0, places - 1.0, np.nan)

    @cached_property
    def _known(self) -> Vocabulary:
        return Vocabulary(self.words)

    def _written_alike(self, column: pl.Series) -> pl.Series:
        if column.dtype in (pl.Categorical, pl.Enum):
            column = column.cast(pl.String)
        if self.are_numbers and column.dtype == pl.String:
            column = as_text(column.str.strip_chars())
            column = column.replace({"true": "1", "false": "0"}) if self.are_booleans else column
            whole = column.cast(pl.Int64, strict=False).cast(pl.String)
            column = whole.fill_null(as_text(column.cast(pl.Float64, strict=False)))
        column = as_text(column)
        return column.replace({"1": "true", "0": "false"}) if self.are_booleans else column


@runtime_checkable
class ListsCategories(Protocol):
    """A model whose file lists the categories that it knows, by the place of their column."""

    listed: Mapping[int, Categories]


def refuse_foreign_categories(frame: pl.DataFrame, listed: Mapping[int, Categories], model: str, where: str) -> None:
    """Refuse a column with no listed value at all: its values are written in another way than the model learned."""
    for place, categories in listed.items():
        column = frame[:, place]
        values = as_text(column).drop_nulls()
        values = values.filter(values.str.strip_chars() != "")
        if len(values) and np.isnan(categories.codes(column)).all():
            known = categories.words
            raise DataError(
                f"{where}, column '{column.name}': none of its values, such as {values[0]!r}, is among the "
                f"{len(known):,} categories of {model}{f', such as {known[0]!r}' if known else ''}: write them as "
                "for the training of the model"
            )
