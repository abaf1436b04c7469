"""From a raw table to an InteractionLog: checks, labels, filters, order, vocabularies, ids."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import as_numbers, as_text, as_times, order_of_ids
from resus.data.log.log import InteractionLog
from resus.data.log.manifest import Manifest
from resus.data.negatives.settings import DrawnNegatives
from resus.data.negatives.table import with_negatives
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.problems import event_key, events_of, refuse
from resus.data.readers.delimited import FileRows
from resus.data.readers.tables import RawTable, joined_table
from resus.data.schema import TableSchema

LABEL = "label of the event, 0 or 1"  # a column beside those of the table


def log_of_frame(
    frame: pl.DataFrame,
    schema: TableSchema,
    options: BuildOptions | None = None,
    *,
    name: str = "log",
    where: str = "the table",
    truth: tuple[str, str] | None = None,
) -> InteractionLog:
    """Check a frame and turn it into a log in memory. Errors name the table `where`, whose first row is row 1.

    `truth` names the two columns of a planted world that become `InteractionLog.truth` and `crowd`.
    """
    options = options or schema.build_options(BuildOptions())
    raw = joined_table(name, schema, FileRows(where, frame, None, ()), truth=truth)
    refuse(raw.check(options))
    return assemble_log(raw, options)


def assemble_log(table: RawTable, options: BuildOptions) -> InteractionLog:
    """The log of a table that was checked before."""
    assert table.schema is not None
    schema, truth = table.schema, table.truth
    frame, negatives = rows_of_log(table, options)
    features = FeatureMap.learn(frame, schema, options.min_count)
    ids, weights = features.encode(frame, table.where)
    users = frame[schema.user]
    starts = np.flatnonzero((users != users.shift(1)).fill_null(True).to_numpy())
    return InteractionLog(
        features=features,
        ids=ids,
        weights=weights,
        labels=frame[LABEL].to_numpy().astype(np.float32),
        offsets=np.append(starts, frame.height).astype(np.int64),
        user_ids=users.gather(starts).to_arrow(),
        ordered=schema.time is not None,
        truth=frame[truth[0]].to_numpy().astype(np.float32) if truth else None,
        crowd=frame[truth[1]].to_numpy().astype(np.float32) if truth else None,
        manifest=Manifest(
            name=table.name,
            table=schema.stored(),
            options=PrepareOptions(**options.model_dump()),
            negatives=negatives,
            sides=dict(table.sides),
        ),
    )


def rows_of_log(
    table: RawTable, options: BuildOptions, more: Sequence[str] = ()
) -> tuple[pl.DataFrame, DrawnNegatives | None]:
    """The rows of the log of a table in their order, with `more` of its columns; and how negatives were drawn."""
    assert table.frame is not None
    assert table.schema is not None
    schema = table.schema
    frame = table.frame.select(list(dict.fromkeys([*schema.columns, *(table.truth or ()), *more])))
    frame = frame.with_columns(as_text(frame[name]) for name in (schema.user, schema.item))  # `3.0` and `3` are one
    frame = _label(frame, schema)
    frame = _filter(frame, schema, options)
    negatives = None
    if schema.negatives is not None:
        frame, negatives = with_negatives(
            frame,
            schema.negatives,
            user=schema.user,
            item=schema.item,
            label=LABEL,
            of_item=schema.of_item,
            may_be_of_item=[name for name in schema.fields if name not in schema.of_user],
            seed=options.seed,
            times=as_times(frame[schema.time]) if schema.time else None,
        )
    return _sort(frame, schema), negatives


def _label(frame: pl.DataFrame, schema: TableSchema) -> pl.DataFrame:
    """With the label of each row as 0 or 1; without a column of labels, every row is a click."""
    if schema.label is None:
        return frame.with_columns(pl.lit(1.0, pl.Float32).alias(LABEL))
    numbers, _ = as_numbers(frame[schema.label])
    clicked = numbers if schema.label_threshold is None else numbers >= schema.label_threshold
    return frame.with_columns(pl.Series(LABEL, clicked, dtype=pl.Float32))


def _filter(frame: pl.DataFrame, schema: TableSchema, options: BuildOptions) -> pl.DataFrame:
    if options.duplicates == "first" or options.duplicates == "last":
        events = events_of(frame, schema).with_row_index("row number")
        kept = events.unique(subset=event_key(schema), keep=options.duplicates, maintain_order=True)
        frame = frame[kept["row number"]]
    if options.min_item_count > 1:
        frame = frame.filter(pl.len().over(schema.item) >= options.min_item_count)
    if options.single_events == "drop":
        frame = frame.filter(pl.len().over(schema.user) > 1)
    return frame


def _sort(frame: pl.DataFrame, schema: TableSchema) -> pl.DataFrame:
    """By user, then by time; ties keep the order of the file."""
    by = order_of_ids(frame[schema.user])
    by |= {"time": as_times(frame[schema.time])} if schema.time else {}
    order = pl.DataFrame(by).with_row_index("row").sort([*by, "row"])["row"]
    return frame[order]
