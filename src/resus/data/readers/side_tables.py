"""Side tables: one row per user or per item, whose fields are joined to the events."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from resus.arrays import Booleans, Integers
from resus.checking import nearest_key
from resus.data.fields.base import BadRows
from resus.data.fields.values import as_text, is_missing
from resus.data.log.manifest import SideCounts
from resus.data.problems import Finder, Place, Problem
from resus.data.readers.delimited import FileRows
from resus.data.readers.files import files_at, find_parts, read_parts
from resus.data.readers.frames import as_frame
from resus.data.schema import FieldSchema, SideTable, TableSchema

NO_ROW = -1

_NOUNS = {"users": "user", "items": "item"}


@dataclass(frozen=True)
class SideRows:
    """The rows of one side table, each with its own key, and the column of the events that names them."""

    role: str  # users or items
    column: str
    key: str
    where: str
    keys: pl.Series  # text
    kinds: Mapping[str, FieldSchema]
    frame: pl.DataFrame  # the fields alone
    lines: pl.Series | None = None
    unlisted: str | None = None  # the word for the events, if each of them must name a row
    may_match_nothing: bool = False

    @property
    def noun(self) -> str:
        return _NOUNS[self.role]

    @property
    def article(self) -> str:
        return "an" if self.role == "items" else "a"

    def line(self, row: int) -> int:
        return int(self.lines[row]) if self.lines is not None else 1 + row

    def needs(self, name: str) -> bool:
        """Whether the value of a field must not be missing."""
        return any(bool(found.mask.any()) for found in self.kinds[name].bad_rows(self.frame[name].clear(1)))

    def fields_of(self, rows: Integers, names: Sequence[str] | None = None) -> list[pl.Series]:
        """The fields of these rows, or some of them; missing where there is no row."""
        positions = pl.Series(rows).replace(NO_ROW, None)
        return [self.frame[name].gather(positions) for name in names or self.frame.columns]

    def rows_of(self, values: pl.Series) -> Integers:
        """The row of each value of the events' column, `NO_ROW` where there is none."""
        rows = self.keys.alias("key").to_frame().with_row_index("row")
        asked = as_text(values).alias("key").to_frame()
        found = asked.join(rows, on="key", how="left", maintain_order="left")["row"].cast(pl.Int64)
        return found.fill_null(NO_ROW).to_numpy()


def side_files(schema: TableSchema) -> list[Path]:
    """All files of the side tables of a schema; a table that is missing is named all the same."""
    paths = [Path(side.path) for side in schema.sides.values() if side.path and side.frame is None]
    return [file for path in paths for file in files_at(path)]


def read_sides(schema: TableSchema, present: Collection[str] | None = None) -> tuple[list[SideRows], list[Problem]]:
    """The side tables of a schema. Those with a problem are left out.

    So are those whose key is a column that is not `present` in the events either: the schema names it wrongly.
    """
    found, problems = [], []
    for role, column, side in (("users", schema.user, schema.users), ("items", schema.item, schema.items)):
        misnamed = present is not None and column not in present
        if side is not None and not (misnamed and side.key == column):
            checked = side_of(role, column, side, read_side(role, side))
            problems += checked if isinstance(checked, list) else []
            found += [checked] if isinstance(checked, SideRows) else []
    return found, problems


def read_side(role: str, side: SideTable) -> FileRows:
    if side.frame is not None:
        where = f"the table of {role}"
        return FileRows(where, as_frame(side.frame, where), None, ())
    if not side.path:
        fix = "give its path or, in Python, its frame"
        return FileRows(role, None, None, (Problem(role, None, None, "the side table has no path", fix),))
    path = Path(side.path)
    parts = find_parts(path)
    if isinstance(parts, Problem):
        return FileRows(str(path), None, None, (parts,))
    wanted = side.columns
    return read_parts(
        path,
        parts,
        separator=side.separator,
        encoding=side.encoding,
        wanted=wanted,
        choose=lambda present, _: [name for name in wanted if name in present],
    )


def side_of(
    role: str, column: str, side: SideTable, read: FileRows, *, unlisted: str | None = None
) -> SideRows | list[Problem]:
    """The rows that were read, if nothing is wrong with them: columns, keys and values."""
    frame, key = read.frame, side.key
    assert key is not None
    if frame is None or read.problems:
        return list(read.problems)
    problems = _missing_columns(frame, side, read.where, role) or _nested_columns(frame, side, read.where)
    if frame.is_empty():
        problems.append(Problem(read.where, None, None, "there is no row of data", "check that the file is complete"))
    if not problems:
        problems += _bad_keys(frame[key], Finder(read.where, read.place), _NOUNS[role])
        for name, field in side.fields.items():
            problems += Finder(read.where, read.place).problems(name, field.bad_rows(frame[name]))
    if problems:
        return problems
    fields = frame.select(list(side.fields))
    return SideRows(role, column, key, read.where, as_text(frame[key]), side.fields, fields, read.lines, unlisted)


def _bad_keys(column: pl.Series, finder: Finder, noun: str) -> list[Problem]:
    """Keys that are empty or listed twice."""
    empty = BadRows(is_missing(column), f"the {noun} is empty", "fill it or delete the row")
    return finder.problems(column.name, [empty, _repeated_keys(as_text(column), finder, noun)])


def _repeated_keys(keys: pl.Series, finder: Finder, noun: str) -> BadRows:
    def what(again: int) -> str:
        earlier = int((keys == keys[again]).arg_true()[0])
        return f"{keys[again]!r} is listed twice, here and in {finder.beside(earlier, again)}"

    return BadRows(keys.is_not_null() & ~keys.is_first_distinct(), what, f"keep one row for each {noun}")


def _nested_columns(frame: pl.DataFrame, side: SideTable, where: str) -> list[Problem]:
    lists = {name for name, field in side.fields.items() if field.field_class.takes_lists}
    fix = "declare the field multi, or keep one value"
    nested = [name for name in side.columns if frame[name].dtype.is_nested() and name not in lists]
    return [Problem(where, None, name, "each cell holds several values", fix) for name in nested]


def _missing_columns(frame: pl.DataFrame, side: SideTable, where: str, role: str) -> list[Problem]:
    problems = []
    for name in side.columns:
        if name not in frame.columns:
            what = f"there is no such column among {', '.join(frame.columns)}"
            nearest = nearest_key(name, frame.columns)
            fix = f"did you mean '{nearest}'?" if nearest else "add it, or correct the schema"
            if name == side.key:
                what = f"the key of the {role} is missing: {what}"
                fix = f"set 'key' of {role} in the schema" + (f", such as 'key: {nearest}'" if nearest else "")
            problems.append(Problem(where, None, name, what, fix))
    return problems


class SideMatch:
    """Counts which rows of a side table the events name, and which events name none; block by block."""

    def __init__(self, side: SideRows) -> None:
        self.side = side
        self._used = np.zeros(len(side.keys), dtype=np.bool_)
        self._absent: dict[str, None] = {}
        self._events = 0
        self._without = 0
        self.first: tuple[str, int, str] | None = None  # file, line and key of the first event without a row

    def add(self, values: pl.Series, owners: pl.Series | None, rows: Integers, place: Place) -> None:
        """Some events name these rows; their users or items are `values`, or those of the places `owners`."""
        self._used[rows[rows != NO_ROW]] = True
        absent: Booleans = rows == NO_ROW
        self._events += len(rows)
        if absent.any():
            named = values.filter(pl.Series(absent)) if owners is None else values.gather(owners.filter(absent))
            texts = as_text(named)
            known = texts.is_not_null().arg_true()  # an event that names nobody misses no row
            self._without += len(known)
            if self.first is None and len(known):
                self.first = (*place(int(absent.nonzero()[0][known[0]])), str(texts[known[0]]))
            self._absent |= dict.fromkeys(texts.drop_nulls().unique().to_list())

    def problems(self) -> list[Problem]:
        """Keys that match nothing; events without a row whose fields need a value."""
        if self._events == 0 or self.first is None:
            return []
        side, (where, line, shown) = self.side, self.first
        if side.unlisted:
            what = f"{self._without:,} {side.unlisted} name a {side.column} that is not listed, the first {shown!r}"
            return [Problem(side.where, None, side.key, what, "fetch the file again: rows are missing")]
        if self._used.any() or side.may_match_nothing:
            needed = [name for name in side.kinds if side.needs(name)]
            many = f" (the first of {self._without:,} such rows)" if self._without > 1 else ""
            what = f"{side.noun} {shown!r} has no row in {side.where}, and the field must not be missing{many}"
            return [Problem(where, line, name, what, "add the row, or delete its events") for name in needed]
        what = (
            f"none of its {len(side.keys):,} rows names {side.article} {side.noun} of the events: the first key is "
            f"{side.keys[0]!r}, the first {side.noun} of the events {shown!r}"
        )
        return [
            Problem(
                side.where, side.line(0), side.key, what, f"write the same ids in both, or set 'key' of {side.role}"
            )
        ]

    @property
    def counts(self) -> SideCounts:
        unused = (~self._used).nonzero()[0]
        return SideCounts(
            table=self.side.where,
            rows=len(self.side.keys),
            unused=len(unused),
            first_unused=self.side.line(int(unused[0])) if len(unused) else None,
            missing=len(self._absent),
            events=self._without,
            first_missing=None if self.first is None else f"{Path(self.first[0]).name}, row {self.first[1]}",
        )


def join_sides(
    events: pl.DataFrame, sides: Sequence[SideRows], place: Place
) -> tuple[pl.DataFrame, list[Problem], dict[str, SideCounts]]:
    """The events with the fields of their users and items, what is wrong, and what matches."""
    problems, counts = [], {}
    for side in sides:
        if side.column not in events.columns or events[side.column].dtype.is_nested():
            continue  # the events have a problem of their own
        rows, match = side.rows_of(events[side.column]), SideMatch(side)
        match.add(events[side.column], None, rows, place)
        events = events.with_columns(side.fields_of(rows))
        problems += match.problems()
        counts[side.role] = match.counts
    return events, problems, counts


def attach(
    events: pl.DataFrame, rows: FileRows, key: str, problems: list[Problem], *, unlisted: str | None = None
) -> pl.DataFrame:
    """Join the columns of a published file that the events lack by `key`. A key that is listed twice is a problem.

    If `unlisted` is given, the word for the events, a key that is not listed is a problem, too.
    """
    assert rows.frame is not None
    finder, keys = Finder(rows.where, rows.place), as_text(rows.frame[key])
    problems += finder.problems(key, [_repeated_keys(keys, finder, key)])
    first = keys.is_first_distinct()
    others = rows.frame.filter(first).drop(name for name in rows.frame.columns if name in events.columns)
    side = SideRows(
        "items", key, key, rows.where, keys.filter(first), {}, others, unlisted=unlisted, may_match_nothing=True
    )
    joined, unmatched, _ = join_sides(events, [side], lambda row: (rows.where, 1 + row))
    problems += unmatched
    return joined
