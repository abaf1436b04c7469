"""Raw columns as a model takes them: numbers, codes of categories, text."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.data.fields.feature_map import as_text
from resus.external.categories import Categories
from resus.external.scoring_model import Floats, RowError

_MEND = "the model reads a number here: mend it, or give a model that reads this column as it is"


def numbers(series: pl.Series) -> Floats:
    """NaN where a value is missing; text that is a number, as CSV has it, counts as one."""
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        series = series.str.strip_chars().replace("", None)
    elif not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        raise RowError(0, series.name, f"the column holds values of the kind {series.dtype}", _MEND)
    found = series.cast(pl.Float64, strict=False)
    bad = (found.is_null() & series.is_not_null()).arg_true()
    if len(bad):
        raise RowError(int(bad[0]), series.name, f"{series[int(bad[0])]!r} is not a number", _MEND)
    return found.fill_null(float("nan")).to_numpy()


def text(series: pl.Series, missing: str) -> npt.NDArray[np.object_]:
    """Values as text, whole numbers without '.0'."""
    return np.asarray(as_text(series).fill_null(missing).to_numpy(), dtype=object)


def matrix(frame: pl.DataFrame, listed: Mapping[int, Categories]) -> Floats:
    """`[N, F]` numbers; the columns at the places of `listed` as codes."""
    columns = [
        listed[place].codes(series) if place in listed else numbers(series) for place, series in enumerate(frame)
    ]
    return np.column_stack(columns)
