"""Everything that can be wrong with a table, found in one pass over its columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from resus.checking import nearest_key
from resus.data.schema import TableSchema
from resus.data.times import as_times
from resus.errors import DataError

_FILL = "fill it or delete the row"


@dataclass(frozen=True)
class Problem:
    """What is wrong, where, and what to do."""

    where: str
    row: int | None
    column: str | None
    what: str
    fix: str

    def __str__(self) -> str:
        row = f", row {self.row}" if self.row is not None else ""
        column = f", column '{self.column}'" if self.column is not None else ""
        return f"{self.where}{row}{column}: {self.what}; {self.fix}"


def refuse(problems: Sequence[Problem]) -> None:
    """Raise the first problem, if there is one."""
    if not problems:
        return
    others = len(problems) - 1
    more = f" (and {others} more: 'resus doctor' on the same file and schema lists them all)" if others else ""
    raise DataError(f"{problems[0]}{more}")


def find_problems(
    frame: pl.DataFrame,
    schema: TableSchema,
    *,
    where: str,
    first_line: int,
    duplicates: bool,
    single_events: bool,
    lines: pl.Series | None = None,
) -> list[Problem]:
    """Each kind of problem once per column, with its first row; `lines` are the rows' line numbers where known."""
    finder = _Finder(where, first_line, lines)
    problems = _missing_columns(frame, schema, where)
    if frame.is_empty():
        return [*problems, Problem(where, None, None, "there is no row of data", "check that the file is whole")]
    problems += _nested_columns(frame, schema, where)
    usable = {name for name in schema.columns if name in frame.columns} - {problem.column for problem in problems}
    checks: list[tuple[str | None, Callable[[pl.Series], list[Problem]]]] = [
        (schema.user, lambda users: finder.problem(_is_blank(users), users.name, lambda _: "the user is empty", _FILL)),
        (schema.item, lambda items: finder.problem(_is_blank(items), items.name, lambda _: "the item is empty", _FILL)),
        (schema.label, lambda labels: _label_problems(labels, schema, finder)),
        (schema.time, lambda times: _time_problems(times, finder)),
    ]
    fix = "write a number; a field that is no model's score may be declared categorical instead"
    numeric = [name for name, field in schema.fields.items() if field.kind == "numeric"]
    checks += [(name, lambda numbers: _number_problems(numbers, finder, fix)) for name in numeric]
    for name, check in checks:
        if name in usable:
            problems += check(frame[name])
    if duplicates and usable.issuperset(event_key(schema)):
        problems += _repeated_events(frame, schema, finder)
    if single_events and schema.user in usable:
        problems += _single_events(frame[schema.user], finder)
    return problems


@dataclass(frozen=True)
class _Finder:
    where: str
    first_line: int
    lines: pl.Series | None

    def line(self, index: int) -> int:
        return int(self.lines[index]) if self.lines is not None else self.first_line + index

    def problem(
        self, mask: pl.Series, column: str, what: Callable[[int], str], fix: str, noun: str = "rows"
    ) -> list[Problem]:
        """One problem for all rows under the mask; `what` is told the position of the first."""
        bad = mask.fill_null(False).arg_true()
        if bad.is_empty():
            return []
        first = int(bad[0])
        many = f" (the first of {len(bad):,} such {noun})" if len(bad) > 1 else ""
        return [Problem(self.where, self.line(first), column, what(first) + many, fix)]


def _missing_columns(frame: pl.DataFrame, schema: TableSchema, where: str) -> list[Problem]:
    missing = [name for name in schema.columns if name not in frame.columns]
    known = ", ".join(frame.columns)
    problems = []
    for name in missing:
        nearest = nearest_key(name, frame.columns)
        fix = f"did you mean '{nearest}'?" if nearest else "add it, or correct the schema"
        problems.append(Problem(where, None, name, f"there is no such column among {known}", fix))
    return problems


def _nested_columns(frame: pl.DataFrame, schema: TableSchema, where: str) -> list[Problem]:
    lists = {name for name, field in schema.fields.items() if field.kind == "multi"}
    return [
        Problem(where, None, name, "each cell holds several values", "declare the field multi, or keep one value")
        for name in schema.columns
        if name in frame.columns and name not in lists and frame[name].dtype.is_nested()
    ]


def _is_blank(series: pl.Series) -> pl.Series:
    if series.dtype == pl.String:
        return series.is_null() | (series.str.strip_chars() == "")
    return series.is_null() | series.is_nan() if series.dtype.is_float() else series.is_null()


def _number_problems(series: pl.Series, finder: _Finder, fix: str) -> list[Problem]:
    blank = _is_blank(series)
    numbers = series.cast(pl.Float64, strict=False)
    unusable = ~blank & (numbers.is_null() | ~numbers.is_finite())
    return [
        *finder.problem(blank, series.name, lambda _: "the value is missing", fix),
        *finder.problem(unusable, series.name, lambda first: f"{series[first]!r} is not a finite number", fix),
    ]


def _label_problems(series: pl.Series, schema: TableSchema, finder: _Finder) -> list[Problem]:
    threshold = schema.label_threshold
    wanted = "0 or 1" if threshold is None else "a number"
    problems = _number_problems(series, finder, f"write {wanted}, or delete the row")
    numbers = series.cast(pl.Float64, strict=False)
    usable = numbers.filter(numbers.is_finite().fill_null(False))
    if threshold is None:
        highest = usable.to_numpy().max(initial=1.0)
        problems += finder.problem(
            numbers.is_finite() & (numbers != 0) & (numbers != 1),
            schema.label,
            lambda first: f"the label {series[first]!r} is neither 0 nor 1",
            "write 0 or 1, or set label_threshold, from which on a value counts as 1 "
            f"(such as --set label_threshold={highest:g})",
        )
    labels = usable if threshold is None else (usable >= threshold).cast(pl.Int8)
    if labels.n_unique() == 1:
        rule = "" if threshold is None else f" under the rule '{schema.label} >= {threshold:g}'"
        what = f"every label is {labels[0]:g}{rule}, so there is nothing to tell apart"
        fix = "add the missing kind of rows" if threshold is None else "choose another label_threshold"
        problems.append(Problem(finder.where, None, schema.label, what, fix))
    return problems


def _time_problems(series: pl.Series, finder: _Finder) -> list[Problem]:
    blank = _is_blank(series)
    times = as_times(series)
    unusable = times.is_null() | times.is_infinite() if times.dtype.is_float() else times.is_null()
    fix = "write a number or an ISO date in every row"
    return [
        *finder.problem(blank, series.name, lambda _: "the time is missing", fix),
        *finder.problem(
            ~blank & unusable, series.name, lambda first: f"{series[first]!r} is neither a number nor a date", fix
        ),
    ]


def event_key(schema: TableSchema) -> list[str]:
    """The columns that make two rows the same event: user, item and time, or all fields where there is no time."""
    return [schema.user, schema.item, schema.time] if schema.time else [schema.user, *schema.fields]


def _repeated_events(frame: pl.DataFrame, schema: TableSchema, finder: _Finder) -> list[Problem]:
    key = event_key(schema)
    nested = [name for name in key if frame[name].dtype.is_nested()]
    events = frame.select(key).with_columns(pl.col(nested).cast(pl.List(pl.String)).list.join("|"))
    events = events.with_row_index("row number")
    earliest = events.select(pl.col("row number").min().over(key)).to_series()
    repeats = earliest != events["row number"]
    named = ~_is_blank(frame[schema.user]) & ~_is_blank(frame[schema.item])

    def what(first: int) -> str:
        same = "user, item and time" if schema.time else "user, item and fields"
        return f"the same {same} as in row {finder.line(int(earliest[first]))}"

    fix = "delete the copy, or set duplicates to first, last or keep (--set duplicates=first)"
    return finder.problem(named & repeats, schema.user, what, fix)


def _single_events(users: pl.Series, finder: _Finder) -> list[Problem]:
    named = ~_is_blank(users)
    return finder.problem(
        named & users.is_unique(),
        users.name,
        lambda first: f"user {users[first]!r} has a single row, too few for a support and a query",
        "add rows, or set single_events to drop or keep (--set single_events=drop)",
        noun="users",
    )
