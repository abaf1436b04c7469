"""Rows of a table as events, checked exactly as `POST /v1/events` checks them.

Columns as a whole show which rows are surely fine. The service's own check decides about all others, and words what is
wrong with them.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from hashlib import blake2b

import numpy as np
import polars as pl
from pydantic import ValidationError

from resus.checking import nearest_key
from resus.data.fields.base import Field
from resus.data.fields.numeric import LARGEST_WEIGHT, NumericField
from resus.data.fields.values import as_numbers, as_text
from resus.data.problems import Problem, bad_rows, nested_columns, refuse
from resus.data.schema import TableSchema
from resus.data.stream.blocks import Block
from resus.data.stream.staging import Times
from resus.errors import DataError, RowError
from resus.ingest.json_columns import as_objects, json_of, may_be_refused
from resus.serving.engine import Engine
from resus.serving.limits import MAX_AHEAD, MAX_EVENTS, MAX_FEATURES_BYTES, MAX_ID
from resus.serving.messages import PostedEvent
from resus.serving.messages.mistakes import sentence_of

USER, ID, TIME, LABEL, FEATURES = COLUMNS = ("user", "id", "time", "label", "features")
LONGEST_TIME = 32  # characters that an id adds to its item, at most
Refusal = tuple[str, int, str]  # file, row, and what is wrong


@dataclass
class Rows:
    """Turns blocks of one table into events. `id_column` names their ids; without it an id is the item and the time."""

    schema: TableSchema
    engine: Engine
    id_column: str | None = None
    latest: float = field(default_factory=lambda: time.time() + MAX_AHEAD)
    _times: Times = field(default_factory=Times)
    _done: dict[str, int] = field(default_factory=dict)  # rows, by file
    _checked: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are read besides those of the schema, if they are there."""
        return [*([self.id_column] if self.id_column else []), *sorted(self.own_columns)]

    @property
    def own_columns(self) -> frozenset[str]:
        """The columns that the user's own model reads."""
        own = self.engine.loaded.own
        return frozenset() if own is None else frozenset(own.facts.reads)

    def read(self, block: Block) -> tuple[pl.DataFrame, list[Refusal]]:
        """The events of a block in the columns `COLUMNS`, and its rows that are none, each with the reason."""
        if not self._checked:
            self._check_columns(block)
            self._checked = True
        frame, first = block.frame, self._done.get(block.where, 0) + 1
        self._done[block.where] = first - 1 + frame.height
        lines = pl.int_range(first, first + frame.height, eager=True) if block.lines is None else block.lines
        wrong: dict[int, str] = {}
        for row, reason in self._wrong_in_roles(frame):
            wrong.setdefault(row, reason)
        events, doubtful = self._events(frame)
        kept = pl.Series([True]).new_from_index(0, frame.height)
        if wrong:
            kept[list(wrong)] = False
        asked = (doubtful & kept).arg_true().to_list()
        if asked:
            wrong |= self._wrong_for_the_service(events, asked)
            kept[list(wrong)] = False
        refusals = [(block.where, int(lines[row]), reason) for row, reason in sorted(wrong.items())]
        return events.filter(kept), refusals

    def _check_columns(self, block: Block) -> None:
        """Refuse a table without the columns that every event needs, or with cells that no field takes."""
        present, schema = block.frame.columns, self.schema
        wanted = {"user": schema.user, "item": schema.item, "time": schema.time, "label": schema.label}
        for role, name in {**wanted, "id": self.id_column}.items():
            if name is not None and name not in present:
                nearest = nearest_key(name, present)
                fix = f"did you mean '{nearest}'?" if nearest else f"it holds {', '.join(present)}"
                refuse(
                    [Problem(block.where, None, name, f"there is no such column, which should hold the {role}", fix)]
                )
        if schema.time is None:
            what = "the schema of the run names no column of times, which every event needs"
            refuse([Problem(block.where, None, None, what, "prepare and train with 'time: COLUMN' in the schema")])
        if block.frame[str(schema.time)].dtype in (pl.Time, pl.Duration):
            fix = "give dates with a time of day, or seconds since 1970"
            refuse([Problem(block.where, None, schema.time, "these are no moments but times of day or durations", fix)])
        refuse(nested_columns(block.frame, schema, block.where))

    def _wrong_in_roles(self, frame: pl.DataFrame) -> Iterator[tuple[int, str]]:
        """The rows whose user, time or label cannot be read."""
        schema = self.schema
        if self._times.dates is None:
            self._times.learn(frame[str(schema.time)])
        usable = {schema.user, str(schema.time), *([schema.label] if schema.label else [])}
        for column, found in bad_rows(frame, schema, usable, dates=self._times.dates, trained=True):
            for mask, what, fix in found:
                for row in mask.fill_null(False).arg_true().to_list():
                    yield row, f"column '{column}': {what if isinstance(what, str) else what(row)}; {fix}"

    def _events(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """The events of all rows, and whether the service might refuse one."""
        loaded, schema = self.engine.loaded, self.schema
        items = as_text(frame[schema.item])
        texts = {name: json_of(frame[name]) for name in frame.columns if name in loaded.field_names}
        for name in self.own_columns & texts.keys():
            texts[name] = texts[name].fill_null("null")  # the user's own model knows an empty cell as a missing value
        texts[schema.item] = json_of(items.alias(schema.item))
        names = [name for name in texts if name != schema.item]
        events = pl.DataFrame(
            {
                USER: as_text(frame[schema.user]),
                TIME: self._seconds(frame[str(schema.time)]),
                LABEL: self._labels(frame),
                FEATURES: as_objects({name: texts[name] for name in [*names, schema.item]}),
            }
        )
        ids = _derived_ids(items, events[TIME]) if self.id_column is None else as_text(frame[self.id_column])
        events = events.with_columns(ids.alias(ID)).select(COLUMNS)
        doubts = [
            events.select(
                (pl.col(USER).str.len_chars() > MAX_ID)
                | (pl.col(ID).str.len_chars() > MAX_ID)
                | pl.col(ID).is_null()
                | (pl.col(TIME) > self.latest)
                | (pl.col(FEATURES).str.len_bytes() > MAX_FEATURES_BYTES)
                | (pl.col(FEATURES) == "{}")
            ).to_series(),
            items.str.len_chars() > MAX_ID,
            *(may_be_refused(frame[name], texts[name]) for name in names),
            *self._doubts_of_fields(frame),
        ]
        doubtful = reduce(lambda one, other: one | other, [doubt.fill_null(False) for doubt in doubts])
        return events, doubtful

    def _seconds(self, column: pl.Series) -> pl.Series:
        times = self._times.of(column).cast(pl.Float64)
        return times / 1e6 if self._times.dates else times

    def _labels(self, frame: pl.DataFrame) -> pl.Series:
        """As the schema reads them; without a label, each row is a click."""
        if self.schema.label is None:
            return pl.repeat(1.0, frame.height, dtype=pl.Float64, eager=True)
        numbers, threshold = as_numbers(frame[self.schema.label])[0], self.schema.label_threshold
        return pl.Series(numbers if threshold is None else (numbers >= threshold).astype(np.float64))

    def _doubts_of_fields(self, frame: pl.DataFrame) -> Iterable[pl.Series]:
        """For each field of the model, the rows with a value that it may refuse."""
        loaded, height = self.engine.loaded, frame.height
        if self.own_columns:  # what the user's own model can read, only that model knows
            yield pl.repeat(True, height, eager=True)
        for each in loaded.features.fields:
            needed = each.refuses_missing or each.name == loaded.config.predictor.score_column
            if each.name in frame.columns:
                yield _unreadable(each, frame[each.name], needed=needed)
            elif needed:
                yield pl.repeat(True, height, eager=True)

    def _wrong_for_the_service(self, events: pl.DataFrame, rows: Sequence[int]) -> dict[int, str]:
        """What the service says of these rows, if it refuses them."""
        wrong: dict[int, str] = {}
        for start in range(0, len(rows), MAX_EVENTS):
            some = list(rows[start : start + MAX_EVENTS])
            posted: dict[int, PostedEvent] = {}
            for row, values in zip(some, events[some].iter_rows(named=True), strict=True):
                try:
                    posted[row] = self._posted(values)
                except ValidationError as error:
                    wrong[row] = sentence_of(error.errors()[0])
            wrong |= refused(self.engine, posted)
        return wrong

    def _posted(self, values: dict[str, object]) -> PostedEvent:
        features = json.loads(str(values[FEATURES]))
        item = features.pop(self.schema.item, None)
        return PostedEvent.model_validate({**values, FEATURES: features, "item": item})


def refused(engine: Engine, posted: dict[int, PostedEvent]) -> dict[int, str]:
    """Which of these events the service refuses, by their keys, and what it says."""
    try:
        engine.check(list(posted.values()))
    except DataError:
        wrong = {}
        for key, event in posted.items():
            try:
                engine.check([event])
            except DataError as error:
                wrong[key] = str(error).removeprefix("events[0], ")
        return wrong
    return {}


def _unreadable(each: Field, column: pl.Series, *, needed: bool) -> pl.Series:
    """The rows of a column that a field may not be able to read."""
    if isinstance(each, NumericField):
        numbers, bad = as_numbers(column)
        far = np.abs((np.nan_to_num(numbers) - each.center) / each.scale) > LARGEST_WEIGHT
        return bad | pl.Series(np.isinf(numbers) | (far & ~np.isnan(numbers)) | (np.isnan(numbers) & needed))
    try:
        each.encode(column)
    except RowError:
        return pl.repeat(True, len(column), eager=True)
    return column.is_null() & needed


def _derived_ids(items: pl.Series, times: pl.Series) -> pl.Series:
    """The item and the microsecond, which tell the events of a user apart; the same in every import."""
    items = items.fill_null("")
    long = items.str.len_chars() > MAX_ID - LONGEST_TIME
    if long.any():
        digests = [blake2b(item.encode(), digest_size=32).hexdigest() for item in items.filter(long)]
        items = items.scatter(long.arg_true(), digests)
    microseconds = (times * 1e6).round().cast(pl.Int64, strict=False).cast(pl.String)
    return pl.select(pl.lit(items) + "@" + pl.lit(microseconds)).to_series()
