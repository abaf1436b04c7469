"""Rows on their way to a log, as numbers: codes of texts, times, labels. Few are kept in memory, many on disk."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from resus.arrays import Floats, Ids
from resus.data.fields.values import LIST_SEPARATOR, as_numbers, as_text, as_times, joined_lists
from resus.data.problems import (
    Findings,
    Place,
    bad_rows,
    clashing_columns,
    missing_columns,
    nested_columns,
    same_label,
    usable_labels,
)
from resus.data.stream.blocks import Block, Events, Places
from resus.progress import Progress

IN_MEMORY_BYTES = 1 << 28
USER, TIME, LABEL, ROW = "user", "time", "label", "row"


class Codes:
    """Codes of the texts of a column, the same in every block; -1 where there is none."""

    def __init__(self, *, takes_lists: bool = False) -> None:
        self._takes_lists = takes_lists
        self._were_lists = False
        self._known = pl.Categories.random()
        self._kept = pl.Series([], dtype=pl.Categorical(self._known))  # polars forgets categories that nothing uses

    def of(self, column: pl.Series) -> pl.Series:
        if column.dtype.is_nested():
            self._were_lists = True
            column = joined_lists(column)
        elif column.dtype != pl.String:
            column = as_text(column)
        return column.cast(pl.Categorical(self._known)).to_physical().cast(pl.Int32).fill_null(-1)

    def texts(self) -> pl.Series:
        """The text of each code."""
        found: pl.Series = self._known.to_series()
        return found

    def values(self) -> pl.Series:
        """The value of each code, as a field learns from it."""
        return self.texts().str.split(LIST_SEPARATOR) if self._were_lists else self.texts()

    def same(self) -> tuple[Ids, pl.Series]:
        """For each code that of the distinct values, and these: `3.0` and `3` are one value, unless they are lists."""
        texts = self.texts()
        if self._takes_lists:
            return np.arange(len(texts), dtype=np.int32), self.values()
        spelled = as_text(texts)
        distinct = spelled.unique(maintain_order=True)
        codes = spelled.to_frame("text").join(
            distinct.to_frame("text").with_row_index("code"), on="text", how="left", maintain_order="left"
        )
        return codes["code"].cast(pl.Int32).to_numpy(), distinct


class Staged(NamedTuple):
    """All rows of a table in the order of the files, in blocks, and the codes that they use."""

    blocks: "Spilled"
    places: Places
    codes: dict[str, Codes]  # by the name of the column
    numbers: list[str]  # columns of fields that are numbers
    times: "Times"


class Spilled:
    """Frames in memory, or on disk once they are more than `limit` bytes."""

    def __init__(self, folder: Path, limit: int = IN_MEMORY_BYTES) -> None:
        self.in_memory = True
        self.rows = 0
        self._folder = folder
        self._limit = limit
        self._frames: list[pl.DataFrame] = []
        self._bytes = 0
        self._files = 0

    def add(self, frame: pl.DataFrame) -> None:
        self.rows += frame.height
        self._frames.append(frame)
        self._bytes += int(frame.estimated_size())
        if self._bytes > self._limit or not self.in_memory:
            self.in_memory = False
            for one in self._frames:
                one.write_ipc(self._file(self._files))
                self._files += 1
            self._frames = []

    def _file(self, number: int) -> Path:
        return self._folder / f"staged-{number}.arrow"

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """All frames; those on disk are deleted as soon as they were read."""
        yield from self._frames
        for number in range(self._files):
            frame = pl.read_ipc(self._file(number))
            self._file(number).unlink()
            yield frame


def stage(events: Events, findings: Findings, folder: Path, progress: Progress, *, limit: int) -> Staged | None:
    """Read and check all rows; None if they cannot be read, as `findings` say."""
    schema, places = events.schema, Places()
    assert schema.label is not None
    numbers = [name for name, field in schema.fields.items() if field.field_class.is_number]
    own = [name for name in schema.fields if name in schema.event_columns]
    codes = {schema.user: Codes()} | {
        name: Codes(takes_lists=schema.fields[name].field_class.takes_lists) for name in own if name not in numbers
    }
    times = Times()
    staged = Staged(Spilled(folder, limit), places, codes, [name for name in own if name in numbers], times)
    labels: set[float] = set()
    checked: set[str] | None = None
    for block in events.read(findings):
        if checked is None:
            checked = _usable(block.frame, events, findings)
        first = places.rows
        places.add(block)
        if not block.frame.height:
            continue
        if schema.time is not None and schema.time in checked and times.dates is None:
            times.learn(block.frame[schema.time])
        found = _check(block, events, checked, times, findings, partial(_later, places, first))
        labels |= set(usable_labels(block.frame[schema.label], schema).unique()) if schema.label in checked else set()
        if len(checked) == len(schema.event_columns) and not found:
            staged.blocks.add(_numbers_of(block, events, staged, first))
        done = places.rows
        progress("reading", done, int(done / block.share) if block.share else None, "rows")
    if not places.rows and not findings.stopped:
        findings.add("rows", events.where, None, None, "there is no row of data", "check that the file is complete")
    for problem in same_label(labels, schema, events.where):
        findings.add("label", *problem.parts, noun=None)
    return None if findings.problems() else staged


def _later(places: Places, first: int, row: int) -> tuple[str, int]:
    return places(first + row)


def _usable(frame: pl.DataFrame, events: Events, findings: Findings) -> set[str]:
    """The columns that can be used; what is wrong with the others is a finding."""
    wrong = missing_columns(frame, events.schema, events.where)
    wrong += nested_columns(frame, events.schema, events.where)
    wrong += clashing_columns(frame.columns, events.schema, events.where)
    for problem in wrong:
        findings.add(problem, *problem.parts, noun=None)
    return set(events.schema.event_columns) - {str(problem.column) for problem in wrong}


def _check(block: Block, events: Events, usable: set[str], times: "Times", findings: Findings, place: Place) -> bool:
    """Whether rows of the block are bad; each kind is a finding."""
    some = False
    for column, found in bad_rows(block.frame, events.schema, usable, dates=times.dates):
        for kind, (mask, what, fix) in enumerate(found):
            bad = mask.fill_null(False).arg_true()
            if len(bad):
                some = True
                said = what if isinstance(what, str) else what(int(bad[0]))
                where, line = place(int(bad[0]))
                findings.add((column, kind), where, line, column, said, fix, count=len(bad))
    return some


def _numbers_of(block: Block, events: Events, staged: Staged, first: int) -> pl.DataFrame:
    schema, frame = events.schema, block.frame
    assert schema.label is not None
    clicked, _ = as_numbers(frame[schema.label])
    label = clicked if schema.label_threshold is None else clicked >= schema.label_threshold
    columns: dict[str, Any] = {
        ROW: np.arange(first, first + frame.height),
        USER: staged.codes[schema.user].of(frame[schema.user]),
        LABEL: np.asarray(label, dtype=np.float32),
    }
    if schema.time is not None:
        columns[TIME] = staged.times.of(frame[schema.time])
    for name, codes in staged.codes.items():
        if name in schema.fields:
            columns[column_of(name)] = codes.of(frame[name])
    for name in staged.numbers:
        columns[column_of(name)] = as_numbers(frame[name])[0]
    for name in events.truth or ():
        columns[name] = frame[name].cast(pl.Float32)
    return pl.DataFrame(columns)


def column_of(field: str) -> str:
    """The staged column of a field."""
    return f"field {field}"


class Times:
    """Times as numbers that sort: whole numbers, or floats if one block has them, or the microseconds of dates."""

    def __init__(self) -> None:
        self.dates: bool | None = None  # whether the first time is a date, and so all of them are
        self.kind: type[pl.DataType] = pl.Int64

    def learn(self, column: pl.Series) -> None:
        """See the next block, before it is checked."""
        times = as_times(column, dates=self.dates)
        if self.dates is None and times.null_count() < len(times):
            self.dates = times.dtype.is_temporal()

    def of(self, column: pl.Series) -> pl.Series:
        times = as_times(column, dates=self.dates)
        if times.dtype.is_float() or times.dtype.is_decimal() or times.dtype == pl.UInt64:
            self.kind = pl.Float64
            return times.cast(pl.Float64)
        return times.to_physical().cast(pl.Int64)


def truths_of(frame: pl.DataFrame, names: tuple[str, str] | None) -> dict[str, Floats]:
    return {} if names is None else dict(zip(("truth", "crowd"), (frame[n].to_numpy() for n in names), strict=True))
