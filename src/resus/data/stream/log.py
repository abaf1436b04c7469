"""The log of a table of any size, and all that is wrong with such a table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from resus.arrays import Ids, Integers
from resus.data.fields.values import order_of_ids
from resus.data.log.manifest import Manifest, SideCounts
from resus.data.log.writer import NO_EVENT, LogRows
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.problems import Findings, Problem, drop_repeats, drop_single, refuse
from resus.data.readers.side_tables import SideMatch
from resus.data.stream.blocks import Events
from resus.data.stream.encoding import Filter, Vocabularies, count, encoded_blocks, learn
from resus.data.stream.sorting import BLOCK_ROWS, SortedRows, sort_rows
from resus.data.stream.staging import IN_MEMORY_BYTES, ROW, USER, Staged, column_of, stage
from resus.errors import DataError
from resus.progress import Progress


@dataclass(frozen=True)
class Sizes:
    """How much is in memory at once."""

    in_memory: int = IN_MEMORY_BYTES
    block_rows: int = BLOCK_ROWS


@dataclass(frozen=True)
class SortedEvents:
    """All rows of a table in the order of the log, before any is dropped, or all problems of the table."""

    events: Events
    build: BuildOptions
    problems: list[Problem]
    sides: dict[str, SideCounts]
    rows: SortedRows | None = None
    words: Vocabularies | None = None
    items: Integers | None = None  # rows of each item that are no repeated events

    @property
    def notices(self) -> list[str]:
        """What is no mistake, but good to know."""
        return [said for role, counts in self.sides.items() if (said := counts.sentence(role[:-1]))]


def sort_events(
    events: Events, build: BuildOptions, folder: Path, progress: Progress, sizes: Sizes | None = None
) -> SortedEvents:
    """Read, check and sort a table. `folder` holds what is not in memory."""
    sizes = sizes or Sizes()
    findings = Findings()
    staged = stage(events, findings, folder, progress, limit=sizes.in_memory)
    problems = [*findings.problems(), *events.problems]
    if staged is None:
        return SortedEvents(events, build, problems, {})
    words, changed = _vocabularies(events, staged)
    matches = {side.role: SideMatch(side) for side in events.sides}

    def ready(frame: pl.DataFrame) -> pl.DataFrame:
        done = changed(frame)
        _match(done, frame, matches, words, staged, events)
        return done

    rows = sort_rows(staged, ready, folder, progress, block_rows=sizes.block_rows)
    for match in matches.values():
        problems += match.problems()
    keep = Filter(events.schema, build, None)
    items = _check_order(rows, keep, staged, events, build, problems, words, progress)
    counts = {role: match.counts for role, match in matches.items()}
    return SortedEvents(events, build, problems, counts, rows, words, items)


def log_rows(found: SortedEvents, folder: Path, progress: Progress) -> LogRows:
    """The rows of the log; DataError if the table has a problem. `folder` is needed until the last row is written."""
    refuse(found.problems)
    events, build, rows, words = found.events, found.build, found.rows, found.words
    assert rows is not None
    assert words is not None
    schema = events.schema
    frequent = None if found.items is None else found.items >= build.min_item_count
    keep = Filter(schema, build, frequent if build.min_item_count > 1 else None)
    seen, numbers = count(rows, keep, words, schema, folder, progress)
    kept = np.flatnonzero(seen.by_user)
    if not len(kept):
        raise DataError(NO_EVENT)
    features = learn(words, seen, numbers, schema, build.min_count)
    return LogRows(
        manifest=Manifest(
            name=events.name,
            table=schema.stored(),
            options=PrepareOptions(**build.model_dump()),
            sides=found.sides,
        ),
        features=features,
        user_ids=words.users.gather(kept).to_arrow(),
        offsets=np.concatenate([[0], np.cumsum(seen.by_user[kept])]),
        ordered=schema.time is not None,
        blocks=encoded_blocks(rows, keep, words, features, schema, events.truth, progress),
    )


def _vocabularies(events: Events, staged: Staged) -> tuple[Vocabularies, Callable[[pl.DataFrame], pl.DataFrame]]:
    """What the codes stand for, and how to change staged rows, see `changed`."""
    schema = events.schema
    to_rank, users = _ranked(*staged.codes[schema.user].same())
    same, values = {}, {}
    for name, codes in staged.codes.items():
        if name in schema.fields:
            same[name], values[name] = codes.same()
    sides = {name: side for side in events.sides for name in side.frame.columns}
    side_rows = {
        side.role: np.append(side.rows_of(users if side.role == "users" else values[schema.item]), -1)
        for side in events.sides
    }
    words = Vocabularies(users, values, sides, side_rows)

    def changed(frame: pl.DataFrame) -> pl.DataFrame:
        """With the users' places in the log instead of their codes, and one code for each value."""
        columns = [pl.Series(USER, to_rank[frame[USER].to_numpy()])]
        for name, place in same.items():
            column = column_of(name)
            columns.append(pl.Series(column, np.append(place, np.int32(-1))[frame[column].to_numpy()]))
        return frame.with_columns(columns)

    return words, changed


def _ranked(codes: Ids, texts: pl.Series) -> tuple[Ids, pl.Series]:
    """For each code the place of its user in the log, and the users in this order."""
    by = order_of_ids(texts)
    order = pl.DataFrame(by).with_row_index("code").sort([*by])["code"].to_numpy()
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return ranks[codes], texts.gather(order)


def _match(  # noqa: PLR0913, RUF100 - all that an event has to do with side tables
    done: pl.DataFrame,
    frame: pl.DataFrame,
    matches: dict[str, SideMatch],
    words: Vocabularies,
    staged: Staged,
    events: Events,
) -> None:
    """Count which rows of the side tables the events of a block name."""
    first = int(frame[ROW][0])
    for role, match in matches.items():
        owners = done[USER if role == "users" else column_of(events.schema.item)]
        rows = words.side_rows[role][owners.to_numpy()]
        names = words.users if role == "users" else words.values[events.schema.item]
        match.add(names, owners, rows, lambda row: staged.places(first + row))


def _check_order(  # noqa: PLR0913, RUF100
    rows: SortedRows,
    keep: Filter,
    staged: Staged,
    events: Events,
    build: BuildOptions,
    problems: list[Problem],
    words: Vocabularies,
    progress: Progress,
) -> Integers | None:
    """Find what only the order shows: repeated events and users with a single row. Count the rows of items."""
    schema = events.schema
    refused = {build.duplicates, build.single_events} & {"error"}
    if not refused and build.min_item_count == 1:
        return None
    items = np.zeros(len(words.values[schema.item]), dtype=np.int64)
    repeats = _Worst("the same " + ("user, item and time" if schema.time else "user, item and fields"))
    alone = _Worst("")
    done = 0
    for block in rows:
        done += block.height
        if build.duplicates == "error":
            found = keep.repeats(block)
            repeats.add(found[ROW], found["earliest"])
        if build.single_events == "error":
            single = block.filter(pl.len().over(USER) == 1)
            alone.add(single[ROW], single[USER])
        kept = keep.distinct(block)[column_of(schema.item)].to_numpy()
        items += np.bincount(kept, minlength=len(items))
        progress("checking", done, rows.rows, "rows")
    places = staged.places
    if repeats.count:
        where, line = places(repeats.row)
        other, before = places(repeats.beside)
        of_file = f" of {other}" if other != where else ""
        fix = drop_repeats()
        what = f"{repeats.what} as in row {before}{of_file}{repeats.many('rows')}"
        problems.append(Problem(where, line, schema.user, what, fix))
    if alone.count:
        user = words.users[alone.beside]
        what = f"user {user!r} has a single row, so there is nothing to predict after it{alone.many('users')}"
        fix = drop_single()
        problems.append(Problem(*places(alone.row), schema.user, what, fix))
    return items


class _Worst:
    """How often something is, and where in the files it is first."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.count = 0
        self.row = self.beside = -1

    def add(self, rows: pl.Series, beside: pl.Series) -> None:
        if len(rows):
            first = int(rows.arg_min() or 0)
            if not self.count or int(rows[first]) < self.row:
                self.row, self.beside = int(rows[first]), int(beside[first])
            self.count += len(rows)

    def many(self, noun: str) -> str:
        return f" (the first of {self.count:,} such {noun})" if self.count > 1 else ""
