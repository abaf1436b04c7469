"""What kind of field a column would be, or why it is left out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from resus.data.drafting.roles import NAMES_OF_IDS, Column

SEPARATORS = ("|", ";", ", ", ",", "/", " ")
FEW_VALUES = 20  # different whole numbers are rather categories
NEARLY_ALL = 0.9  # different values per row, of an id
LONG_TEXT = 60  # characters, on average
FAR = 1000  # times the usual spread
_GROUPS = (
    "author brand campaign category cat city class country district genre group language location publisher region "
    "segment seller shop state store type zip postcode"
)
NAMES_OF_GROUPS = set(_GROUPS.split())  # their numbers stand for something


@dataclass(frozen=True)
class DraftField:
    """A field of the schema: what the schema says, and a remark."""

    name: str
    said: str | dict[str, Any]
    remark: str
    suspicious: str = ""


@dataclass(frozen=True)
class LeftOut:
    name: str
    reason: str


def field_of(column: Column, rows: int) -> DraftField | LeftOut:
    """The field of a column that has no other role."""
    is_time = column.time_unit not in (None, "numbers") and column.distinct > 1
    reason = None if is_time else _useless(column, rows)
    if reason is not None:
        return LeftOut(column.name, reason)
    if column.nested:
        return _multi(column, None) if _is_list(column) else LeftOut(column.name, "its cells are structures")
    if is_time:
        return LeftOut(column.name, "it is a time: take out of it what matters, such as the hour or the weekday")
    if column.numbers is not None and _is_number(column):
        return _numeric(column)
    separator = _separator(column) if column.numbers is None else None
    if separator is not None:
        return _multi(column, separator)
    if column.numbers is None and column.distinct > 0.5 * column.present and _length(column) > LONG_TEXT:
        return LeftOut(column.name, f"it is free text: {column.distinct:,} different texts")
    return DraftField(column.name, "categorical", _counted(column, "values"))


def another_name(column: Column, owner: Column, role: str) -> str | None:
    """Why a column says no more than the id of the user or item: each has its own value. None if it says more."""
    if column.nested or owner.distinct < 10 or column.distinct < NEARLY_ALL * owner.distinct:
        return None
    pairs = pl.DataFrame({"owner": owner.text, "value": column.text}).drop_nulls().n_unique()
    if pairs > 1.05 * owner.distinct or column.has_fractions:
        return None
    return f"it is another name of the {role}: {column.distinct:,} values for {owner.distinct:,} {role}s"


def _useless(column: Column, rows: int) -> str | None:
    if not column.present:
        return "it is empty"
    if column.distinct == 1:
        always = f"always {column.text.drop_nulls()[0]!r}"
        return always if column.present == rows else f"{always}, or missing"
    if column.numbers is None and "[" in str(column.text.drop_nulls()[0])[:1]:
        return "its cells are lists written as text: write the values with | between them"
    names_row = column.distinct > NEARLY_ALL * rows and rows >= 20 and not column.nested and not column.has_fractions
    if names_row and (column.numbers is None or NAMES_OF_IDS & set(column.words) or _counts_up(column)):
        return f"it is an id: {column.distinct:,} different values in {rows:,} rows"
    return None


def _counts_up(column: Column) -> bool:
    return bool((np.diff(column.finite) == 1).mean() > NEARLY_ALL)


def _is_number(column: Column) -> bool:
    if column.has_fractions:
        return True
    return column.distinct > FEW_VALUES and not (NAMES_OF_IDS | NAMES_OF_GROUPS) & set(column.words)


def _numeric(column: Column) -> DraftField:
    low, first, middle, last, high = np.quantile(column.finite, [0, 0.01, 0.5, 0.99, 1]).tolist()
    remark = f"{low:g} to {high:g}" + _missing(column)
    spread = max(last - first, abs(middle) * 0.1, 1e-9)
    if high - last > FAR * spread or first - low > FAR * spread:
        odd = high if high - last > first - low else low
        said = {"kind": "numeric", "center": float(f"{first:.4g}"), "scale": float(f"{spread:.4g}")}
        usual = f"98 % of the numbers lie from {first:.4g} to {last:.4g}"
        suspicious = f"'{column.name}' has the value {odd:g}, while {usual}"
        return DraftField(column.name, said, f"{remark}, but {usual}, by which they are scaled", suspicious)
    return DraftField(column.name, "numeric", remark)


def _is_list(column: Column) -> bool:
    kind = column.values.dtype
    return isinstance(kind, pl.List | pl.Array) and not (kind.inner or pl.Null()).is_nested()


def _multi(column: Column, separator: str | None) -> DraftField:
    cells = column.text.drop_nulls().str.split(separator or "|")
    parts = cells.explode().n_unique()
    options: dict[str, Any] = {"kind": "multi"}
    if separator not in (None, "|"):
        options["separator"] = separator
    most = int(cells.list.len().quantile(0.99) or 1)
    if most > 8:
        options["max_values"] = min(most, 50)
    between = "lists" if separator is None else f"separated by {separator!r}"
    remark = f"{parts:,} values, {between}{_missing(column)}"
    return DraftField(column.name, "multi" if len(options) == 1 else options, remark)


def _separator(column: Column) -> str | None:
    """What separates several values: cells that are split have far fewer different values than cells that are not."""
    cells = column.text.drop_nulls().unique(maintain_order=True)
    for separator in SEPARATORS:
        split = cells.str.split(separator)
        lengths = split.list.len()
        several = float((lengths > 1).mean() or 0)  # type: ignore[arg-type]
        if several < (0.8 if separator == " " else 0.2):
            continue
        parts = split.explode()
        short = float(parts.str.len_chars().mean() or 0) <= 30  # type: ignore[arg-type]
        clean = not bool(parts.str.contains(r"^\s|^$").mean() > 0.5)  # type: ignore[operator]
        if short and clean and parts.n_unique() <= 0.6 * len(parts) and parts.n_unique() <= max(0.8 * len(cells), 8):
            return separator
    return None


def _length(column: Column) -> float:
    return float(column.text.drop_nulls().str.len_chars().mean() or 0)  # type: ignore[arg-type]


def _counted(column: Column, noun: str) -> str:
    return f"{column.distinct:,} {noun}{_missing(column)}"


def _missing(column: Column) -> str:
    share = 1 - column.present / max(1, len(column.values))
    return f", {share:.1%} missing" if share else ""
