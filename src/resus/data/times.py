"""When an event happened, as something that sorts: a number or a date."""

import polars as pl


def as_times(series: pl.Series) -> pl.Series:
    """Text becomes numbers or, failing that, ISO dates; what is neither becomes null."""
    if series.dtype.is_float():
        return series.fill_nan(None)
    if series.dtype.is_numeric() or series.dtype.is_temporal():
        return series
    if series.dtype != pl.String:
        return series.clear(len(series))
    numbers = series.cast(pl.Int64, strict=False)
    if numbers.null_count() > series.null_count():
        numbers = series.cast(pl.Float64, strict=False).fill_nan(None)
    if numbers.null_count() == series.null_count():
        return numbers
    try:
        dates = series.str.to_datetime(strict=False)
    except pl.exceptions.ComputeError:  # no value looks like a date
        return numbers
    return dates if dates.null_count() < numbers.null_count() else numbers
