"""Everything that can be wrong with a table, found in one pass over its columns."""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from resus.checking import nearest_key
from resus.data.fields.base import BadRows
from resus.data.fields.numeric import bad_numbers
from resus.data.fields.values import as_numbers, as_text, as_times, is_missing, joined_lists
from resus.data.options import BuildOptions
from resus.data.schema import TableSchema
from resus.errors import DataError
from resus.wording import advice, setting

Place = Callable[[int], tuple[str, int]]  # file and line of a row
DRAW = "write 'negatives: 2' in the schema, which draws two items per row that the user has not had"
_FILL = "fill it or delete the row"


@dataclass(frozen=True)
class Problem:
    """What is wrong, where, and what to do."""

    where: str
    row: int | None
    column: str | None
    what: str
    fix: str

    @property
    def parts(self) -> tuple[str, int | None, str | None, str, str]:
        return self.where, self.row, self.column, self.what, self.fix

    def __str__(self) -> str:
        row = f", row {self.row}" if self.row is not None else ""
        column = f", column '{self.column}'" if self.column is not None else ""
        return f"{self.where}{row}{column}: {self.what}; {self.fix}"


def refuse(problems: Sequence[Problem]) -> None:
    """Raise the first problem, if there is one."""
    if not problems:
        return
    others = len(problems) - 1
    all_of_them = advice(
        python=", see the error's 'problems'", command=": 'resus doctor' on the same file and schema lists them all"
    )
    error = DataError(f"{problems[0]}{f' (and {others} more{all_of_them})' if others else ''}")
    error.problems = tuple(problems)
    raise error


class Findings:
    """Problems that are found block by block: of each kind the first one, and how many there are."""

    def __init__(self) -> None:
        self.stopped = False
        self._found: dict[Hashable, tuple[Problem, str | None]] = {}
        self._counts: dict[Hashable, int] = {}

    def add(
        self,
        kind: Hashable,
        where: str,
        row: int | None,
        column: str | None,
        what: str,
        fix: str,
        *,
        count: int = 1,
        noun: str | None = "rows",
    ) -> None:
        """One more block has `count` problems of this `kind`; `what` and `row` are of the first.

        Without a `noun`, their number is not said.
        """
        self._found.setdefault(kind, (Problem(where, row, column, what, fix), noun))
        self._counts[kind] = self._counts.get(kind, 0) + count

    def stop(self, problem: Problem) -> None:
        """After this problem no further row can be read."""
        self.stopped = True
        self._found[object()] = (problem, None)

    def problems(self) -> list[Problem]:
        said = []
        for kind, (problem, noun) in self._found.items():
            count = self._counts.get(kind, 1)
            many = f" (the first of {count:,} such {noun})" if noun and count > 1 else ""
            said.append(replace(problem, what=problem.what + many))
        return said


def find_problems(
    frame: pl.DataFrame,
    schema: TableSchema,
    options: BuildOptions,
    *,
    where: str,
    lines: pl.Series | None = None,
    place: Place | None = None,
) -> list[Problem]:
    """Each kind of problem once per column, with its first row; `lines` are the rows' line numbers where known.

    `place` tells the file and line of a row, if there are several files. Fields of side tables are checked there.
    """
    finder = Finder(where, place or (lambda row: (where, 1 + row if lines is None else int(lines[row]))))
    problems = missing_columns(frame, schema, where)
    if frame.is_empty():
        return [*problems, Problem(where, None, None, "there is no row of data", "check that the file is complete")]
    problems += nested_columns(frame, schema, where)
    usable = {name for name in schema.columns if name in frame.columns} - {problem.column for problem in problems}
    for name, found in bad_rows(frame, schema, usable):
        problems += finder.problems(name, found)
    if schema.label in usable:
        labels = usable_labels(frame[str(schema.label)], schema)
        problems += same_label(labels.unique().to_list(), schema, where)
    if options.duplicates == "error" and usable.issuperset(event_key(schema)):
        problems += _repeated_events(frame, schema, finder)
    if schema.negatives is None and options.single_events == "error" and schema.user in usable:
        problems += _single_events(frame[schema.user], finder)
    return [*problems, *_single_item(frame, schema, where)]


def bad_rows(
    frame: pl.DataFrame,
    schema: TableSchema,
    usable: Collection[str],
    *,
    dates: bool | None = None,
    trained: bool = False,
) -> Iterator[tuple[str, Sequence[BadRows]]]:
    """By column, the rows that no log can have, whatever the other rows are; only of the `usable` columns.

    `dates` says whether times are dates, if the frame is part of a longer table; `trained`, that the schema is that of
    a model, so that no advice may change it.
    """
    for name, noun in ((schema.user, "user"), (schema.item, "item")):
        if name in usable:
            yield name, [BadRows(is_missing(frame[name]), f"the {noun} is empty", _FILL)]
    if schema.label is not None and schema.label in usable:
        yield schema.label, _bad_labels(frame[schema.label], schema, trained)
    if schema.time is not None and schema.time in usable:
        yield schema.time, _bad_times(frame[schema.time], dates)
    for name, field in schema.fields.items():
        if name in usable and name in schema.event_columns:
            yield name, field.bad_rows(frame[name])


@dataclass(frozen=True)
class Finder:
    """Words the problems of a table's rows."""

    where: str
    place: Place

    def beside(self, index: int, other: int) -> str:
        """A row as it is called in a sentence about another one."""
        where, line = self.place(index)
        return f"row {line}" + (f" of {where}" if where != self.place(other)[0] else "")

    def problems(self, column: str, found: Sequence[BadRows], noun: str = "rows") -> list[Problem]:
        """One problem for each kind of bad rows that there are."""
        problems = []
        for mask, what, fix in found:
            bad = mask.fill_null(False).arg_true()
            if not bad.is_empty():
                first = int(bad[0])
                many = f" (the first of {len(bad):,} such {noun})" if len(bad) > 1 else ""
                said = what if isinstance(what, str) else what(first)
                problems.append(Problem(*self.place(first), column, said + many, fix))
        return problems


def missing_columns(frame: pl.DataFrame, schema: TableSchema, where: str) -> list[Problem]:
    missing = [name for name in schema.event_columns if name not in frame.columns]
    known = ", ".join(name for name in frame.columns if name not in (*schema.of_user, *schema.of_item))
    roles = {
        getattr(schema, role): f"the schema says '{role}: {{}}', but " for role in ("time", "label", "item", "user")
    }
    problems = []
    for name in missing:
        nearest = nearest_key(name, frame.columns)
        fix = f"did you mean '{nearest}'?" if nearest else "add it, or correct the schema"
        said = roles.get(name, "").format(name)
        problems.append(Problem(where, None, name, f"{said}there is no such column among {known}", fix))
    return problems


def clashing_columns(present: Collection[str], schema: TableSchema, where: str) -> list[Problem]:
    """Columns of the events that are also fields of a side table, so that a value has two sources."""
    problems = []
    for role, names in (("users", schema.of_user), ("items", schema.of_item)):
        fix = (
            f"rename one of them, or move the field from {role} to fields in the schema to use the column of the events"
        )
        what = f"the events and the table of {role} both have this column"
        problems += [Problem(where, None, name, what, fix) for name in names if name in present]
    return problems


def nested_columns(frame: pl.DataFrame, schema: TableSchema, where: str) -> list[Problem]:
    lists = {name for name, field in schema.fields.items() if field.field_class.takes_lists}
    return [
        Problem(where, None, name, "each cell holds several values", "declare the field multi, or keep one value")
        for name in schema.columns
        if name in frame.columns and name not in lists and frame[name].dtype.is_nested()
    ]


def _bad_labels(column: pl.Series, schema: TableSchema, trained: bool) -> list[BadRows]:
    threshold = schema.label_threshold
    wanted = "0 or 1" if threshold is None else "a number"
    found = bad_numbers(column, f"write {wanted}, or delete the row")
    if threshold is None:
        numbers = pl.Series(as_numbers(column)[0])
        largest = numbers.filter(numbers.is_finite()).to_numpy().max(initial=1.0)
        fix = "write 0 or 1"
        if not trained:
            fix += ", or set label_threshold: values from there on count as 1"
            fix += f" (such as {setting('label_threshold', largest)})"
        graded = numbers.is_finite() & (numbers != 0) & (numbers != 1)
        found.append(BadRows(graded, lambda first: f"the label {column[first]!r} is neither 0 nor 1", fix))
    return found


def usable_labels(column: pl.Series, schema: TableSchema) -> pl.Series:
    """The labels that are numbers, under the rule of the schema."""
    numbers = pl.Series(as_numbers(column)[0])
    usable = numbers.filter(numbers.is_finite())
    return usable if schema.label_threshold is None else (usable >= schema.label_threshold).cast(pl.Int8)


def same_label(labels: Collection[float], schema: TableSchema, where: str) -> list[Problem]:
    """The problem that every row has the same label, which drawn negatives solve."""
    if len(labels) != 1:
        return []
    (label,), threshold = labels, schema.label_threshold
    if schema.negatives is not None and label == 1:
        return []
    rule = "" if threshold is None else f" under the rule '{schema.label} >= {threshold:g}'"
    what = f"every label is {label:g}{rule}, so there is nothing to learn"
    fix = "add rows with the other label" if threshold is None else "choose another label_threshold"
    if label == 1 and schema.negatives is None:
        fix += f", or, if these are all clicks, plays or purchases, {DRAW}"
    return [Problem(where, None, schema.label, what, fix)]


def _bad_times(column: pl.Series, dates: bool | None) -> list[BadRows]:
    missing, times = is_missing(column), as_times(column, dates=dates)
    unusable = times.is_null() | times.is_infinite() if times.dtype.is_float() else times.is_null()
    fix = "write a number or an ISO date in every row"
    if not bool((unusable & ~missing).any()):
        return [BadRows(missing, "the time is missing", fix)]
    are_dates = times.dtype.is_temporal()
    other = ~missing & unusable & as_times(column, dates=not are_dates).is_not_null()
    kinds = ("a number where earlier rows have dates", "a date where earlier rows have numbers")
    return [
        BadRows(missing, "the time is missing", fix),
        BadRows(other, lambda first: f"{column[first]!r} is {kinds[not are_dates]}", "write all times in the same way"),
        BadRows(~missing & unusable & ~other, lambda first: f"{column[first]!r} is neither a number nor a date", fix),
    ]


def event_key(schema: TableSchema) -> list[str]:
    """The columns that make two rows the same event: user, item and time, or all fields if there is no time."""
    return [schema.user, schema.item, schema.time] if schema.time else [schema.user, *schema.fields]


def events_of(frame: pl.DataFrame, schema: TableSchema) -> pl.DataFrame:
    """The columns that make two rows the same event, as they are read: however a value is spelled, it is the same."""
    columns = []
    for name in event_key(schema):
        column, kind = frame[name], schema.fields.get(name)
        if column.dtype.is_nested():
            column = joined_lists(column)
        elif name == schema.time:
            column = as_times(column)
        elif kind is not None and kind.field_class.is_number:
            column = pl.Series(as_numbers(column)[0])
        elif kind is None or not kind.field_class.takes_lists or column.dtype != pl.String:
            column = as_text(column)
        columns.append(column.alias(name))
    return pl.DataFrame(columns)


def _repeated_events(frame: pl.DataFrame, schema: TableSchema, finder: Finder) -> list[Problem]:
    events = events_of(frame, schema).with_row_index("row number")
    earliest = events.select(pl.col("row number").min().over(event_key(schema))).to_series()
    repeats = earliest != events["row number"]
    named = ~is_missing(frame[schema.user]) & ~is_missing(frame[schema.item])

    def what(first: int) -> str:
        same = "user, item and time" if schema.time else "user, item and fields"
        return f"the same {same} as in {finder.beside(int(earliest[first]), first)}"

    return finder.problems(schema.user, [BadRows(named & repeats, what, drop_repeats())])


def drop_repeats() -> str:
    return f"delete the copy, or set duplicates to first, last or keep ({setting('duplicates', 'first')})"


def drop_single() -> str:
    return f"add rows, or set single_events to drop or keep ({setting('single_events', 'drop')})"


def _single_item(frame: pl.DataFrame, schema: TableSchema, where: str) -> list[Problem]:
    """With drawn negatives, a single event of a user leaves rows to predict, but there must be items to draw."""
    alone = schema.item in frame.columns and as_text(frame[schema.item].drop_nulls()).n_unique() == 1
    if schema.negatives is None or not alone:
        return []
    fix = "check the item column, or leave negatives out"
    return [Problem(where, None, schema.item, "a single item leaves no negative to draw", fix)]


def _single_events(column: pl.Series, finder: Finder) -> list[Problem]:
    users = as_text(column)
    alone = BadRows(
        ~is_missing(column) & users.is_unique(),
        lambda first: f"user {users[first]!r} has a single row, so there is nothing to predict after it",
        drop_single(),
    )
    return finder.problems(column.name, [alone], noun="users")
