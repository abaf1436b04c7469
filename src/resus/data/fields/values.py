"""Raw values of tables and requests: one text, one number and one time for a value, however it was written.

The text of a value does not depend on where it comes from (CSV, Parquet, pandas, polars, JSON):

- `true`, `True` and `TRUE` are `true`, and so is a boolean;
- whole numbers have no fraction: 3, 3.0, "3" and "3.0" are `3`;
- a date is `2024-01-31`; a time of day follows a `T`, with its seconds and without zeros at its end, and a time zone
  is an offset: `2024-01-31T10:00:00.5+01:00`;
- None, null, NaN and empty text are missing.

All other text stays as it is: `007`, `1.10` and `1e5` are not numbers here, but names.
"""

import math
import re
from typing import Any

import numpy as np
import polars as pl

from resus.arrays import Doubles
from resus.errors import DataError, RowError

LIST_SEPARATOR = "\x1f"
LONGEST_TEXT = 1000  # characters in a value of a request
_LONGEST_SHOWN = 60  # characters of it in a message
_SPACES = " \t\r\n"
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INT64 = 2.0**63
_LARGEST_INTEGER = 10**300

_DAY, _CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_OFFSET = "Z|[+-][0-9]{2}(?::?[0-9]{2})?"
_SPELLINGS = (  # pattern of the whole text, and what it becomes; in this order
    ("True|TRUE", "true"),
    ("False|FALSE", "false"),
    (r"-?0\.0+", "0"),
    (r"(-?[1-9][0-9]*)\.0+", r"\1"),
    (rf"({_CLOCK})(?:\.0*|(\.[0-9]*[1-9])0*)", r"\1\2"),
    (rf"({_DAY})[T ]([0-9]{{2}}:[0-9]{{2}})({_OFFSET})?", r"\1T\2:00\3"),
    (rf"({_DAY})[T ]({_CLOCK})(?:\.0*|(\.[0-9]*[1-9])0*)?({_OFFSET})?", r"\1T\2\3\4"),
    (rf"({_DAY})T00:00:00", r"\1"),
    (rf"({_DAY}T.*)Z", r"\1+00:00"),
    (rf"({_DAY}T.*[+-][0-9]{{2}})([0-9]{{2}})", r"\1:\2"),
    (rf"({_DAY}T[^+-]*[+-][0-9]{{2}})", r"\1:00"),
)
_ANY_SPELLING = "|".join(f"(?:{pattern})" for pattern, _ in _SPELLINGS)
_LONGEST_SPELLING = 400  # of a whole number
_MAY_CHANGE = re.compile(_ANY_SPELLING)
_MOMENTS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f")
_DAYS_FIRST = (  # other orders and signs of a day
    (r"^([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})", "${1}-${2}-${3}"),
    (r"^([0-9]{1,2})[/-]([0-9]{1,2})[/-]([0-9]{4})", "${3}-${2}-${1}"),
)
_PATTERNS = [(re.compile(pattern), template) for pattern, template in _SPELLINGS]


def as_text(column: pl.Series) -> pl.Series:
    """Each value of a column as text; null where it is missing."""
    if column.dtype.is_float() or column.dtype.is_decimal():
        column = column.cast(pl.Float64) if column.dtype.is_decimal() else column.fill_nan(None)
        whole = column.cast(pl.Int64, strict=False)
        return whole.cast(pl.String).zip_with(column == whole, column.cast(pl.String))
    if column.dtype == pl.Duration:
        column = column.dt.to_string("iso")
    if column.dtype == pl.Time:
        column = column.dt.to_string("%H:%M:%S%.9f")  # a cast would drop the fraction
    column = column.cast(pl.String)
    if not bool(column.str.contains(f"^(?:{_ANY_SPELLING})$").any()):
        return column
    for pattern, template in _SPELLINGS:
        column = column.str.replace(f"^(?:{pattern})$", re.sub(r"\\(\d)", r"$${\1}", template).replace("$$", "$"))
    return column


def spelled(text: str) -> str:
    """What `as_text` makes of one text."""
    if len(text) <= _LONGEST_SPELLING and _MAY_CHANGE.fullmatch(text):
        for pattern, template in _PATTERNS:
            found = pattern.fullmatch(text)
            text = found.expand(template) if found else text
    return text


def text_of(value: Any, row: int, name: str) -> str | None:
    """The text of one value of a request, but for `spelled`; RowError for what no field can hold."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise RowError(row, name, f"the text is longer than {LONGEST_TEXT} characters", "shorten it")
        return value
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise RowError(row, name, "the number is too large", "send a smaller one")
        return str(value)
    number = _finite(value, row, name)
    if number.is_integer() and -_INT64 <= number < _INT64:
        return str(int(number))
    text = repr(number)
    return text if "e" not in text else str(pl.Series([number]).cast(pl.String)[0])  # polars writes exponents its way


def as_numbers(column: pl.Series) -> tuple[Doubles, pl.Series]:
    """Each value of a column as a number, NaN where it is missing; and where a value is there but is not a number."""
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        column = column.str.strip_chars(_SPACES).replace("", None)
    elif not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        return np.full(len(column), np.nan), column.is_not_null()
    numbers = column.cast(pl.Float64, strict=False)
    bad = numbers.is_null() & column.is_not_null()
    if column.dtype == pl.String and bool(bad.any()):
        booleans = as_text(column).replace_strict({"true": 1.0, "false": 0.0}, default=None, return_dtype=pl.Float64)
        numbers, bad = numbers.fill_null(booleans), bad & booleans.is_null()
    return numbers.fill_null(float("nan")).to_numpy(), bad


def number_of(value: Any, row: int, name: str) -> float | None:
    """The number of one value of a request; None where it is missing; RowError for text that is not a number."""
    if value is None:
        return None
    if not isinstance(value, str):
        return _finite(value, row, name)
    text = str(text_of(value, row, name)).strip(_SPACES)
    if _NUMBER.fullmatch(text):
        number = float(text)
    else:  # rare: let the reader of columns decide
        numbers, bad = as_numbers(pl.Series([text]))
        if bad[0]:
            raise RowError(row, name, f"{_shown(value)} is not a number", "send a number or null")
        number = float(numbers[0])
    if math.isinf(number):
        raise RowError(row, name, f"{_shown(value)} is not a finite number", "send a finite number or null")
    return None if math.isnan(number) else number


def as_times(column: pl.Series, *, dates: bool | None = None) -> pl.Series:
    """A column of times as something that sorts: numbers, or moments in microseconds. A text is read by itself.

    Texts are what the first of them is, or what `dates` says if the column is part of a longer one; others become null.
    """
    if column.dtype != pl.String and dates is not None and column.dtype.is_temporal() != dates:
        return pl.repeat(None, len(column), dtype=pl.Datetime("us") if dates else pl.Int64, eager=True)
    if column.dtype.is_float():
        return column.fill_nan(None)
    if column.dtype == pl.Date or isinstance(column.dtype, pl.Datetime):
        return column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)))
    if column.dtype.is_numeric() or column.dtype.is_temporal():
        return column
    if column.dtype != pl.String:
        return column.clear(len(column))
    numbers = column.cast(pl.Int64, strict=False)
    if numbers.null_count() > column.null_count():
        numbers = column.cast(pl.Float64, strict=False).fill_nan(None)
    if dates is False or (dates is None and numbers.null_count() == column.null_count()):
        return numbers
    moments = _moments(column)
    if dates is None:
        dates = _first(moments) < _first(numbers)
    return moments if dates else numbers


def _first(column: pl.Series) -> int:
    """The place of the first value; the length of the column if there is none."""
    found = column.is_not_null().arg_max()
    return found if found is not None and column[found] is not None else len(column)


def _moments(column: pl.Series) -> pl.Series:
    """Texts as moments, each by itself; one without a zone counts as UTC, and null is what no date is."""
    found = pl.Series(column.name, [None], dtype=pl.Datetime("us")).new_from_index(0, len(column))
    rest = column
    for pattern in _MOMENTS:
        found = found.fill_null(rest.str.to_datetime(pattern, time_unit="us", strict=False))
        if found.null_count() == column.null_count():
            return found
        rest = column.zip_with(found.is_null(), pl.Series([None], dtype=pl.String).new_from_index(0, len(column)))
    for pattern, template in _DAYS_FIRST:
        rest = rest.str.replace(pattern, template)
    rest = as_text(rest)
    for pattern in _MOMENTS:
        found = found.fill_null(rest.str.to_datetime(pattern, time_unit="us", strict=False))
    zoned = rest.str.to_datetime(f"{_MOMENTS[1]}%:z", time_unit="us", time_zone="UTC", strict=False)
    return found.fill_null(zoned.dt.replace_time_zone(None))


def joined_lists(column: pl.Series) -> pl.Series:
    """Lists as text, with `LIST_SEPARATOR` between their values; null where a list is empty."""
    if isinstance(column.dtype, pl.Array):
        column = column.cast(pl.List(column.dtype.inner))
    if not isinstance(column.dtype, pl.List):
        raise DataError(f"the column '{column.name}' holds structures: keep one value, or a list of values")
    long = column.to_frame("list").with_row_index("row").filter(pl.col("list").list.len() > 0).explode("list")
    texts = as_text(long["list"]).fill_null("")
    whole = long.select("row").with_columns(text=texts).group_by("row", maintain_order=True)
    joined = whole.agg(pl.col("text").str.join(LIST_SEPARATOR))
    rows = pl.DataFrame({"row": pl.arange(len(column), eager=True, dtype=pl.UInt32)})
    return rows.join(joined, on="row", how="left", maintain_order="left")["text"]


def order_of_ids(ids: pl.Series) -> dict[str, pl.Series]:
    """The columns that sort ids, which are texts: numbers as numbers, and `7` and `07` are two ids."""
    number = ids.cast(pl.Int64, strict=False)
    by = {"number": number} if number.null_count() == 0 else {}
    return by if by and number.n_unique() == ids.n_unique() else by | {"text": ids}


def seconds_of(text: str) -> float | None:
    """A time of a request in seconds since 1970, in UTC if it has no zone; None for text that is not a time."""
    if len(text) > _LONGEST_SPELLING:
        return None
    read = as_times(pl.Series([text]))
    if read.dtype.is_temporal():
        read = read.dt.epoch("us") / 1e6
    return None if read[0] is None else float(read[0])


def is_missing(column: pl.Series) -> pl.Series:
    """Where a value is null, NaN or blank text."""
    if column.dtype == pl.String:
        return column.is_null() | (column.str.strip_chars() == "")
    return column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()


def _shown(text: str) -> str:
    """A text as part of a sentence, cut if it is long."""
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _finite(value: Any, row: int, name: str) -> float:
    if not isinstance(value, int | float):
        what = "there is a list where one value belongs" if isinstance(value, list | tuple) else "the value is nested"
        raise RowError(row, name, what, "send a text, a number, true, false or null")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RowError(row, name, "the number is not finite", "send a finite number or null")
    return number
