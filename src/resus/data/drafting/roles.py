"""Which column names the user, the item, the time and the label: by what it is called and by what it holds."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from resus.arrays import Doubles
from resus.data.fields.values import as_numbers, as_text, as_times, is_missing

_USER = "user uid userid member visitor customer client account cookie person buyer shopper subscriber listener viewer"
_ITEM = (
    "item itemid iid movie film product article sku ad adgroup video song track book anime app listing business game "
    "recipe news asin isbn content restaurant course page offer story podcast creative show artist hotel job property"
)
_LABEL = (
    "label click clicked clicks clk target converted conversion purchase purchased bought liked like installed watched "
    "response rating ratings score stars grade used played y"
)
_TIME = "time timestamp datetime date ts created unixtime when shown played viewed at day"
HINTS = {role: names.split() for role, names in (("label", _LABEL), ("time", _TIME), ("user", _USER), ("item", _ITEM))}
NAMES_OF_IDS = {"id", "key", "code", "no", "nr", "uuid", "guid", "hash", "name"}
MOST_GRADES = 21  # different ratings
SOME_ROWS = 1000  # that show whether a column holds dates
_SINCE = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_EARLIEST, _LATEST = 1e8, 4.2e9  # seconds since 1970, from 1973 to 2103


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table, and what it looks like."""

    values: pl.Series

    @property
    def name(self) -> str:
        return self.values.name

    @cached_property
    def words(self) -> list[str]:
        """The words of the name: `userId`, `user_id` and `User ID` are the same."""
        spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", self.name)
        return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]

    @cached_property
    def nested(self) -> bool:
        return self.values.dtype.is_nested()

    @cached_property
    def text(self) -> pl.Series:
        """Each value as text; null where it is missing."""
        if self.nested:
            return self.values.cast(pl.List(pl.String), strict=False).list.join("|")
        return as_text(self.values.set(is_missing(self.values), None))

    @cached_property
    def missing(self) -> pl.Series:
        return self.text.is_null()

    @cached_property
    def distinct(self) -> int:
        return self.text.drop_nulls().n_unique()

    @cached_property
    def present(self) -> int:
        return len(self.values) - int(self.missing.sum())

    @cached_property
    def numbers(self) -> Doubles | None:
        """The numbers, NaN where one is missing; None if some value is not a number, or there is none."""
        if self.nested or not self.present or self.values.dtype.is_temporal():
            return None
        numbers, bad = as_numbers(self.values)
        return None if bool(bad.any()) or not np.isfinite(numbers).any() else numbers

    @cached_property
    def finite(self) -> Doubles:
        """The finite numbers."""
        return np.empty(0) if self.numbers is None else self.numbers[np.isfinite(self.numbers)]

    @cached_property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return bool(len(self.finite)) and bool((self.finite == np.floor(self.finite)).all())

    @cached_property
    def is_binary(self) -> bool:
        return bool(len(self.finite)) and bool(np.isin(self.finite, [0, 1]).all())

    @cached_property
    def has_fractions(self) -> bool:
        return bool(len(self.finite)) and not self.whole

    @cached_property
    def time_unit(self) -> str | None:
        """How the column says when: `dates`, `seconds` since 1970 and so on, `numbers`; None if it does not."""
        if self.nested or not self.present:
            return None
        if self.values.dtype.is_temporal():
            return None if self.values.dtype in (pl.Duration, pl.Time) else "dates"
        if self.numbers is None:
            some = as_times(self.values.filter(~self.missing).head(SOME_ROWS))  # to read dates is slow
            return "dates" if some.dtype.is_temporal() and some.is_not_null().mean() == 1 else None
        if self.values.dtype == pl.Boolean:
            return None
        low, high = np.quantile(self.finite, [0.05, 0.95])
        for unit, per_second in _SINCE.items():
            if low >= _EARLIEST * per_second and high <= _LATEST * per_second:
                return unit
        return "numbers"

    def hint(self, role: str) -> int:
        """How much the name says that the column has a role: 0 is not at all."""
        hints = HINTS[role]
        found = [word for word in self.words if word in hints]
        if not found:
            joined = "".join(self.words)
            return 1 if role != "label" and any(joined.startswith(hint) and len(hint) > 3 for hint in hints) else 0
        others = [word for word in self.words if word not in hints and word not in NAMES_OF_IDS]
        return (2 if others else 4) + (1 if NAMES_OF_IDS & set(self.words) else 0)


@dataclass(frozen=True)
class Roles:
    """Names of columns; None where no column fits."""

    user: str | None
    item: str | None
    time: str | None
    label: str | None
    guessed: tuple[str, ...] = ()  # roles whose names did not say so


def find_roles(columns: list[Column]) -> Roles:
    """Label and time by name and content; then user and item, which must repeat."""
    taken: set[str] = set()

    def best(fits: list[tuple[Column, float]]) -> str | None:
        free = [(column, score) for column, score in fits if column.name not in taken and score > 0]
        if not free:
            return None
        name = max(free, key=lambda pair: pair[1])[0].name
        taken.add(name)
        return name

    user = best([(column, column.hint("user") if _names(column) else 0) for column in columns])
    item = best([(column, column.hint("item") if _names(column) else 0) for column in columns])
    label = best([(column, _as_label(column)) for column in columns])
    time = best([(column, _as_time(column)) for column in columns])
    guessed = []
    for role in ("user", "item"):
        if (user if role == "user" else item) is not None:
            continue
        ids = [(column, float(_looks_like_id(column))) for column in columns]
        name = best(ids)
        if name is not None:
            guessed.append(role)
        user, item = (name, item) if role == "user" else (user, name)
    return Roles(user, item, time, label, tuple(guessed))


def _names(column: Column) -> bool:
    """Whether the values may be names of users or items."""
    return not column.nested and bool(column.present) and not column.has_fractions


def _looks_like_id(column: Column) -> bool:
    """Many values that repeat, as ids of users and items do."""
    few = column.distinct >= 10 and column.distinct <= 0.5 * column.present
    return _names(column) and few and column.time_unit in (None, "numbers") and bool(NAMES_OF_IDS & set(column.words))


def _as_label(column: Column) -> float:
    hint = column.hint("label")
    if not hint or not len(column.finite):
        return 0
    if column.is_binary:
        return hint + 10
    return hint if column.distinct <= MOST_GRADES else 0


def _as_time(column: Column) -> float:
    unit, hint = column.time_unit, column.hint("time")
    if unit is None or column.distinct < 2:
        return 0
    if unit == "numbers":
        return hint if column.whole or hint > 2 else 0
    return hint + 10
