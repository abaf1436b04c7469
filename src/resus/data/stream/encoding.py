"""From staged rows to the blocks of a log: filters, vocabularies, ids."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from resus.arrays import Array, Booleans, Doubles, Floats, Ids, Integers
from resus.data.fields.base import Encoded, Field
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import as_numbers
from resus.data.log.column_files import ColumnWriter, map_column
from resus.data.options import BuildOptions
from resus.data.readers.side_tables import NO_ROW, SideRows
from resus.data.schema import TableSchema
from resus.data.stream.sorting import SortedRows
from resus.data.stream.staging import LABEL, ROW, TIME, USER, column_of, truths_of
from resus.progress import Progress


@dataclass(frozen=True)
class Vocabularies:
    """What the codes of staged rows stand for, and the rows of the side tables that users and items have."""

    users: pl.Series  # text of each user, in the order of the log
    values: dict[str, pl.Series]  # by field, of each code
    sides: dict[str, SideRows]  # by field of a side table
    side_rows: dict[str, Integers] = field(default_factory=dict)  # by role, of each user or item; NO_ROW if none


class Filter:
    """Which rows of the sorted blocks a log keeps."""

    def __init__(self, schema: TableSchema, build: BuildOptions, frequent: Booleans | None) -> None:
        self._item = column_of(schema.item)
        own = [column_of(name) for name in schema.fields if name in schema.event_columns]
        self._event = [USER, self._item, TIME] if schema.time else [USER, *own]
        self._build = build
        self._frequent = frequent

    def distinct(self, block: pl.DataFrame) -> pl.DataFrame:
        """Without repeated events, if the options say so."""
        keep = self._build.duplicates
        if keep == "first" or keep == "last":
            return block.unique(subset=self._event, keep=keep, maintain_order=True)
        return block

    def repeats(self, block: pl.DataFrame) -> pl.DataFrame:
        """Rows of events that were before, and the earliest row of the same event."""
        earliest = block.select(ROW, earliest=pl.col(ROW).min().over(self._event))
        return earliest.filter(pl.col(ROW) != pl.col("earliest"))

    def __call__(self, block: pl.DataFrame) -> pl.DataFrame:
        block = self.distinct(block)
        if self._frequent is not None:
            block = block.filter(pl.Series(self._frequent[block[self._item].to_numpy()]))
        if self._build.single_events == "drop":
            block = block.filter(pl.len().over(USER) > 1)
        return block


@dataclass
class Seen:
    """How many rows there are of each user and of each code of a field."""

    by_user: Integers
    by_code: dict[str, Integers]


def count(
    rows: SortedRows, keep: Filter, words: Vocabularies, schema: TableSchema, folder: Path, progress: Progress
) -> tuple[Seen, dict[str, Path]]:
    """Count what is kept, and write each column of numbers to a file, in the order of the log."""
    seen = Seen(
        np.zeros(len(words.users), dtype=np.int64),
        {name: np.zeros(len(values), dtype=np.int64) for name, values in words.values.items()},
    )
    numbers = [name for name, kind in schema.fields.items() if kind.field_class.is_number]
    files = {name: folder / f"numbers-{place}.npy" for place, name in enumerate(numbers)}
    writers = {name: ColumnWriter(path, np.float64) for name, path in files.items()}
    of_side = {name: _side_numbers(words.sides[name], name) for name in numbers if name in words.sides}
    done = 0
    try:
        for block in rows:
            done += block.height
            kept = keep(block)
            seen.by_user += np.bincount(kept[USER].to_numpy(), minlength=len(seen.by_user))
            for name, counts in seen.by_code.items():
                codes = kept[column_of(name)].to_numpy()
                counts += np.bincount(codes[codes >= 0], minlength=len(counts))
            for name, writer in writers.items():
                if name in of_side:
                    side = _rows_of(kept, words, words.sides[name], schema)
                    writer.add(np.append(of_side[name], np.nan)[side])
                else:
                    writer.add(kept[column_of(name)].to_numpy().astype(np.float64))
            progress("counting", done, rows.rows, "rows")
    finally:
        for writer in writers.values():
            writer.__exit__()
    return seen, files


def learn(words: Vocabularies, seen: Seen, numbers: dict[str, Path], schema: TableSchema, min_count: int) -> FeatureMap:
    """The fields of a schema, as `FeatureMap.learn` learns them from the rows."""
    fields: list[Field] = []
    for name, kind in schema.fields.items():
        if name in numbers:
            column = pl.Series(name, map_column(numbers[name], np.float64))
            fields.append(kind.learn(name, column, min_count=min_count))
            continue
        if name in words.sides:
            side = words.sides[name]
            values, counts = side.frame[name], _counts_of_side(side, words, seen, schema)
        else:
            values, counts = words.values[name], seen.by_code[name]
        used = counts > 0
        fields.append(kind.learn(name, values.filter(pl.Series(used)), min_count=min_count, counts=counts[used]))
    return FeatureMap(fields=tuple(fields), item=schema.item)


def _counts_of_side(side: SideRows, words: Vocabularies, seen: Seen, schema: TableSchema) -> Integers:
    """How many kept events each row of a side table has."""
    rows = words.side_rows[side.role][:-1]
    counts = seen.by_user if side.role == "users" else seen.by_code[schema.item]
    named = rows != NO_ROW
    return np.bincount(rows[named], weights=counts[named], minlength=len(side.keys)).astype(np.int64)


def _side_numbers(side: SideRows, name: str) -> Doubles:
    return as_numbers(side.frame[name])[0]


def _rows_of(block: pl.DataFrame, words: Vocabularies, side: SideRows, schema: TableSchema) -> Integers:
    """The row of a side table for each event; -1, the last one, if there is none."""
    owners = block[USER] if side.role == "users" else block[column_of(schema.item)]
    rows: Integers = words.side_rows[side.role][owners.to_numpy()]
    return rows


def encoded_blocks(
    rows: SortedRows,
    keep: Filter,
    words: Vocabularies,
    features: FeatureMap,
    schema: TableSchema,
    truth: tuple[str, str] | None,
    progress: Progress,
) -> Iterator[dict[str, Array]]:
    """The rows of the log. A value is encoded once, and its ids are copied to its rows."""
    tables = {each.name: _table_of(each, words) for each in features.fields if not _is_own_number(each, words)}
    done = 0
    for block in rows:
        done += block.height
        kept = keep(block)
        if kept.height:
            parts = (_encoded(each, kept, words, tables, schema) for each in features.fields)
            ids, weights = features.side_by_side(kept.height, parts)
            labels = kept[LABEL].to_numpy().astype(np.float32)
            found: dict[str, Array] = {"ids": ids, "labels": labels}
            found |= {} if weights is None else {"weights": weights}
            yield found | truths_of(kept, truth)
        progress("writing the log", done, rows.rows, "rows")


def _is_own_number(each: Field, words: Vocabularies) -> bool:
    return each.is_number and each.name not in words.sides


def _table_of(each: Field, words: Vocabularies) -> Encoded:
    """Ids and weights of each value, and at the end those of a missing one."""
    side = words.sides.get(each.name)
    values = words.values[each.name] if side is None else side.frame[each.name]
    return each.encode(pl.concat([values, values.clear(1)]))


def _encoded(
    each: Field, block: pl.DataFrame, words: Vocabularies, tables: dict[str, Encoded], schema: TableSchema
) -> tuple[Ids, Floats | None]:
    if _is_own_number(each, words):
        return each.encode(block[column_of(each.name)])
    side = words.sides.get(each.name)
    places = block[column_of(each.name)].to_numpy() if side is None else _rows_of(block, words, side, schema)
    ids, weights = tables[each.name]
    return ids[places], None if weights is None else weights[places]
