"""The fields of events as JSON, made from whole columns of a table."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from resus.data.fields.values import as_text, is_missing
from resus.serving.limits import MAX_TEXT, MAX_VALUES

_NOT_PLAIN = r"[^ !#-\[\]-~]"  # a character that JSON writes in another way


def as_objects(columns: Mapping[str, pl.Series]) -> pl.Series:
    """One JSON object per row, as the service writes it, of values that are JSON. A missing value is left out."""
    named = [
        (pl.lit(f"{json.dumps(name)}:") + pl.lit(column)).alias(str(place))
        for place, (name, column) in enumerate(columns.items())
    ]
    joined = pl.concat_str(named, separator=",", ignore_nulls=True).fill_null("")
    return pl.select("{" + joined + "}").to_series()


def json_of(column: pl.Series) -> pl.Series:
    """Each value of a column as JSON; null where it is missing."""
    kind = column.dtype
    if kind.is_nested():
        return pl.Series([_dumped_list(value) for value in column.to_list()], dtype=pl.String)
    if kind == pl.Boolean or kind.is_integer():
        return column.cast(pl.String)
    if kind.is_float() or kind.is_decimal():
        return _of_distinct(column.cast(pl.Float64).fill_nan(None), json.dumps)
    text = column.cast(pl.String) if kind in (pl.String, pl.Categorical, pl.Enum) else as_text(column)
    text = text.set(is_missing(text), None)
    if text.str.contains(_NOT_PLAIN).any():
        return _of_distinct(text, json.dumps)
    return pl.select('"' + pl.lit(text) + '"').to_series()


def may_be_refused(column: pl.Series, texts: pl.Series) -> pl.Series:
    """Where a value, or its JSON in `texts`, may break a limit of requests; elsewhere it surely does not."""
    kind = column.dtype
    if kind.is_nested():
        long = column.list.len() > MAX_VALUES if isinstance(kind, pl.List) else pl.repeat(True, len(column), eager=True)
        return (long | (texts.str.len_bytes() > MAX_TEXT)).fill_null(False)
    if kind.is_float():
        return column.is_infinite().fill_null(False)
    if kind == pl.UInt64:
        return (column >= 2**63).fill_null(False)
    return (texts.str.len_bytes() > MAX_TEXT).fill_null(False)


def _of_distinct(column: pl.Series, write: Callable[[Any], str]) -> pl.Series:
    """Write each distinct value once."""
    distinct = column.drop_nulls().unique()
    written = pl.Series([write(value) for value in distinct.to_list()], dtype=pl.String)
    return column.replace_strict(distinct, written, default=None, return_dtype=pl.String)


def _dumped_list(value: Any) -> str | None:
    return None if value is None or value == [] else json.dumps(value, separators=(",", ":"), default=str)
