"""From a file to the text of a schema that `resus prepare` reads, with a reason beside each line."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from resus.arrays import Booleans
from resus.data.drafting.fields import DraftField, LeftOut, another_name, field_of
from resus.data.drafting.leaks import gives_label_away
from resus.data.drafting.roles import Column, Roles, find_roles
from resus.data.fields.values import as_times
from resus.data.options import BuildOptions
from resus.data.problems import DRAW, Problem, event_key, refuse
from resus.data.readers.delimited import FileRows
from resus.data.readers.files import (
    PARQUET_SUFFIXES,
    every_column,
    find_parts,
    kind_of,
    read_parts,
    separator_of,
    unusable_file,
)
from resus.data.readers.packed import DamagedError, open_text
from resus.data.readers.tables import joined_table
from resus.data.schema import TableSchema
from resus.errors import DataError

TEXT_SEPARATORS = (",", "\t", ";", "|")
_EXAMPLE = "write the schema by hand, as in examples/schema.yaml"
_WIDTH = 24  # of a line before its remark


@dataclass
class Draft:
    """A schema with remarks, what was left out, and what looks wrong with the table."""

    path: Path
    said: dict[str, Any]
    remarks: dict[str, str] = field(default_factory=dict)
    fields: list[DraftField] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    suspicious: list[str] = field(default_factory=list)
    rows: int = 0

    @property
    def schema(self) -> TableSchema:
        return TableSchema.model_validate(self.said | {"fields": {one.name: one.said for one in self.fields}})

    def text_for(self, out: Path | None) -> str:
        """YAML for a file, with what was found as comments."""
        lines = [f"# Drafted from {self.path.name}, {self.rows:,} rows. Check each line, then run", "#"]
        lines += [f"#   resus prepare {self.path} --schema {out or 'schema.yaml'}", "#"]
        lines += [f"# Suspicious: {one}" for one in self.suspicious]
        lines += [_line(f"{key}: {_yaml(value)}", self.remarks.get(key, "")) for key, value in self.said.items()]
        lines.append("fields:" if self.fields else "fields: {}")
        lines += [_line(f"  {_yaml(one.name)}: {_yaml(one.said)}", one.remark) for one in self.fields]
        if self.left_out:
            lines += ["", "# Left out:"] + [f"#   {one.name}: {one.reason}" for one in self.left_out]
        return "\n".join(line.rstrip() for line in lines) + "\n"


def draft_schema(path: Path) -> Draft:
    """Draft the schema of a table; DataError if it cannot be read, or if nothing names its users or items."""
    read, format_of_text = _read(path)
    refuse(read.problems)
    frame = read.frame
    if frame is None or frame.is_empty():
        raise DataError(f"{path}: there is no row of data; check that the file is complete")
    columns = [Column(frame[name]) for name in frame.columns]
    roles = find_roles(columns)
    for role in ("user", "item"):
        if getattr(roles, role) is None:
            other = "items" if role == "user" else "users"
            raise DataError(
                f"{path}: no column among {', '.join(frame.columns)} seems to name the {role}; {_EXAMPLE}, or, if this "
                f"is a table of {other}, name it under '{other}:' in the schema of the events"
            )
    draft = Draft(path, {}, rows=frame.height)
    _describe_roles(draft, roles, {column.name: column for column in columns})
    draft.said |= format_of_text
    _describe_fields(draft, roles, columns)
    _make_readable(draft, read)
    return draft


def _describe_roles(draft: Draft, roles: Roles, by_name: dict[str, Column]) -> None:
    for role in ("user", "item"):
        name = getattr(roles, role)
        column = by_name[name]
        draft.said[role] = name
        guessed = "; a guess, check it" if role in roles.guessed else ""
        draft.remarks[role] = f"{column.distinct:,} {role}s, {column.present / column.distinct:.1f} rows each{guessed}"
        if column.distinct == 1:
            draft.suspicious.append(f"every row has the same {role}, {column.text.drop_nulls()[0]!r}")
    if roles.time is not None:
        _describe_time(draft, by_name[roles.time])
    label = by_name[roles.label] if roles.label is not None else None
    if label is None:
        draft.said["negatives"] = 2
        draft.remarks["negatives"] = "no column is a label, so every row is a click: two items are drawn per row"
    else:
        _describe_label(draft, label)


def _describe_time(draft: Draft, column: Column) -> None:
    draft.said["time"] = column.name
    times, unit = as_times(column.values).drop_nulls(), column.time_unit
    first, last = times.min(), times.max()
    draft.remarks["time"] = f"{unit}, {first!s} to {last!s}"
    if unit not in ("dates", "numbers", None):
        per_second = {"seconds": 1e6, "milliseconds": 1e3, "microseconds": 1, "nanoseconds": 1e-3}[str(unit)]
        days = (pl.Series(column.finite) * per_second).clip(-6e16, 6e16).cast(pl.Int64).cast(pl.Datetime("us"))
        draft.remarks["time"] = f"{unit} since 1970, {days.quantile(0.01)!s:.10} to {days.quantile(0.99)!s:.10}"
    if len(column.finite) and column.finite.min() < 0:
        negative = int((column.finite < 0).sum())
        draft.suspicious.append(
            f"{negative:,} times in '{column.name}' are negative, the first {column.finite.min():g}"
        )
    elif len(column.finite) and unit not in ("numbers", None) and column.finite.min() == 0:
        draft.suspicious.append(f"{int((column.finite == 0).sum()):,} times in '{column.name}' are 0, which is 1970")


def _describe_label(draft: Draft, column: Column) -> None:
    draft.said["label"] = column.name
    values, counts = np.unique(column.finite, return_counts=True)
    if column.is_binary:
        draft.remarks["label"] = f"0 or 1, {column.finite.mean():.1%} are 1"
        if len(values) == 1 and values[0] == 1:
            draft.remarks["label"] = "always 1"
            draft.said["negatives"] = 2
            draft.remarks["negatives"] = "every row is a click: two items are drawn per row"
        elif len(values) == 1:
            draft.suspicious.append(f"the label '{column.name}' is always 0, so there is nothing to learn")
        return
    shares = np.cumsum(counts[::-1])[::-1] / counts.sum()
    place = int(np.abs(shares[1:] - 0.5).argmin()) + 1
    draft.said["label_threshold"] = float(values[place]) if values[place] % 1 else int(values[place])
    draft.remarks["label"] = f"{len(values)} different values from {values[0]:g} to {values[-1]:g}"
    draft.remarks["label_threshold"] = f"{shares[place]:.0%} of the rows are this or more, and count as 1"
    if values[0] < 0:
        draft.suspicious.append(
            f"{int(counts[0]):,} labels in '{column.name}' are {values[0]:g}: if that is 'no rating', delete the rows"
        )


def _describe_fields(draft: Draft, roles: Roles, columns: list[Column]) -> None:
    by_name = {column.name: column for column in columns}
    clicked = _clicked(draft, by_name)
    for column in columns:
        if column.name in (roles.user, roles.item, roles.time, roles.label):
            continue
        found = field_of(column, draft.rows)
        if isinstance(found, DraftField):
            reason = (clicked is not None and gives_label_away(column, clicked)) or None
            for role in ("user", "item"):
                reason = reason or another_name(column, by_name[str(getattr(roles, role))], role)
            found = LeftOut(column.name, reason) if reason else found
        if isinstance(found, LeftOut):
            draft.left_out.append(found)
        else:
            draft.fields.append(found)
            draft.suspicious += [found.suspicious] if found.suspicious else []


def _clicked(draft: Draft, by_name: dict[str, Column]) -> Booleans | None:
    """Which rows have the label 1; None if all have, or there is no label."""
    name = draft.said.get("label")
    if name is None or "negatives" in draft.said:
        return None
    numbers = by_name[name].numbers
    assert numbers is not None
    clicked: Booleans = np.nan_to_num(numbers, nan=-np.inf) >= draft.said.get("label_threshold", 1)
    return clicked


def _make_readable(draft: Draft, read: FileRows) -> None:
    """Choose what to do with equal events and single ones, and leave fields out that could not be read."""
    schema = draft.schema
    assert read.frame is not None
    frame = read.frame
    nested = [name for name in event_key(schema) if frame[name].dtype.is_nested()]
    events = frame.select(event_key(schema)).with_columns(pl.col(nested).cast(pl.List(pl.String)).list.join("|"))
    repeats = events.height - events.n_unique()
    if repeats:
        draft.said["duplicates"] = "keep" if schema.negatives else "first"
        what = "user, item and time" if schema.time else "user, item and fields"
        draft.remarks["duplicates"] = f"{repeats:,} rows repeat the {what} of another one"
    single = int(frame[schema.user].is_unique().sum())
    if single and schema.negatives is None:
        draft.said["single_events"] = "drop"
        draft.remarks["single_events"] = f"{single:,} users have a single row, which leaves nothing to predict"
    problems = _problems(draft, read)
    unusable = {problem.column: problem for problem in problems if problem.column not in _roles_of(draft)}
    for one in [one for one in draft.fields if one.name in unusable]:
        draft.fields.remove(one)
        draft.left_out.append(LeftOut(one.name, unusable[one.name].what))
    rest = [problem for problem in _problems(draft, read) if DRAW not in problem.fix] if unusable else problems
    for problem in rest:
        row = "" if problem.row is None else f", row {problem.row:,}"
        column = f"'{problem.column}'" if problem.column else "the table"
        draft.suspicious.append(f"{column}{row}: {problem.what}; {problem.fix}")


def _problems(draft: Draft, read: FileRows) -> list[Problem]:
    table = joined_table(draft.path.stem, draft.schema, read)
    return table.check(draft.schema.build_options(BuildOptions()))


def _roles_of(draft: Draft) -> set[str | None]:
    return {draft.said.get(role) for role in ("user", "item", "time", "label")} | {None}


def _read(path: Path) -> tuple[FileRows, dict[str, Any]]:
    """All columns, and the keys of the schema that say how the text is written."""
    parts = find_parts(path)
    if isinstance(parts, Problem):
        raise DataError(str(parts))
    said: dict[str, Any] = {}
    if kind_of(parts[0]) not in PARQUET_SUFFIXES:
        said = _written(_head(parts[0]), separator_of(parts[0]))
    encoding = said.get("encoding", "utf-8")
    separator = said.get("separator")
    return read_parts(path, parts, separator=separator, encoding=encoding, wanted=(), choose=every_column), said


def _head(path: Path) -> bytes:
    """The first bytes of a text; none if only the reader can say what is wrong with it."""
    refuse([problem for problem in [unusable_file(path)] if problem is not None])
    try:
        with open_text(path) as stream:
            return stream.read(1 << 16)
    except DamagedError:
        return b""


def _written(head: bytes, usual: str) -> dict[str, Any]:
    """Separator and encoding of a text, where they are not the usual ones."""
    said: dict[str, Any] = {}
    line = head.split(b"\n", 1)[0].decode("utf-8", errors="replace")
    if usual not in line:
        others = [separator for separator in TEXT_SEPARATORS if separator in line]
        said |= {"separator": max(others, key=line.count)} if others else {}
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # not a letter that the end cuts
            said["encoding"] = "latin-1"
    return said


def _line(said: str, remark: str) -> str:
    return f"{said:<{_WIDTH}} # {remark}" if remark else said


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").strip()
