"""RecBole atomic files: `NAME.inter`, with `NAME.user` and `NAME.item` next to it, with 'name:type' headers."""

from pathlib import Path

import polars as pl

from resus.data.negatives.settings import NegativeSettings
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import FileRows, read_delimited
from resus.data.readers.side_tables import attach
from resus.data.readers.tables import OWN_DEFAULTS, RawTable
from resus.data.schema import FieldSchema, TableSchema

USER, ITEM, TIME, LABEL, RATING = "user_id", "item_id", "timestamp", "label", "rating"
_KINDS = {
    "token": FieldSchema(),
    "float": FieldSchema(kind="numeric"),
    "token_seq": FieldSchema(kind="multi", separator=" "),
}
_TYPES = [*_KINDS, "float_seq"]


def files_of(inter: Path) -> list[Path]:
    """The atomic files that belong to an `.inter` file."""
    beside = [inter.with_suffix(suffix) for suffix in (".user", ".item")]
    return [inter, *(path for path in beside if path.is_file())]


def read(inter: Path, schema: TableSchema | None, options: PrepareOptions) -> RawTable:
    """Interactions with the columns of their users and items. Without a schema, RecBole's default names give the roles.

    A `float_seq` becomes one numeric field per position, so its rows must have the same length.
    """
    problems: list[Problem] = []
    fields: dict[str, FieldSchema] = {}
    interactions, *sides = (_read_atomic(path, fields, problems) for path in files_of(inter))
    frame = interactions.frame
    user, item = (schema.user, schema.item) if schema else (USER, ITEM)
    for side in sides:
        key = user if side.where.endswith(".user") else item
        if frame is not None and side.frame is not None and key in frame.columns and key in side.frame.columns:
            frame = attach(frame, side, key, problems)
    schema = schema or _default_schema(fields, options.negatives)
    if options.label_threshold is not None:
        schema = schema.model_copy(update={"label_threshold": options.label_threshold})
    schema = schema.drawing(options.negatives)
    defaults = schema.build_options(OWN_DEFAULTS)
    return RawTable(inter.stem, interactions.where, schema, frame, tuple(problems), interactions.lines, defaults)


def _default_schema(fields: dict[str, FieldSchema], negatives: int | None) -> TableSchema:
    label = RATING if RATING in fields and LABEL not in fields else LABEL
    drawn = negatives and NegativeSettings(per_event=negatives)
    roles = {USER, TIME, LABEL, RATING}
    return TableSchema(
        user=USER,
        item=ITEM,
        label=label if label in fields or not drawn else None,
        negatives=drawn or None,
        time=TIME if TIME in fields else None,
        fields={name: field for name, field in fields.items() if name not in roles} | {ITEM: FieldSchema()},
    )


def _read_atomic(path: Path, fields: dict[str, FieldSchema], problems: list[Problem]) -> FileRows:
    """Read one file. Its header declares fields, which are added to `fields`, and loses its types."""
    read = read_delimited(path, separator="\t", quoted=False)
    problems += read.problems
    frame = read.frame
    if frame is None:
        return read
    vectors = []
    for column in frame.columns:
        name, _, kind = column.partition(":")
        if kind not in _TYPES:
            fix = f"write it as '{name}:TYPE' with one of {', '.join(_TYPES)}"
            problems.append(Problem(read.where, 1, column, "the header has no known type", fix))
        elif kind == "float_seq":
            vectors.append(column)
        else:
            fields.setdefault(name, _KINDS[kind])
    for column in vectors:
        frame = _spread(frame, column, read, fields, problems)
    frame = frame.rename(lambda column: column.partition(":")[0])
    return FileRows(read.where, frame, read.lines, ())


def _spread(
    frame: pl.DataFrame, column: str, read: FileRows, fields: dict[str, FieldSchema], problems: list[Problem]
) -> pl.DataFrame:
    """A vector's positions as numeric columns `name_0`, `name_1`, ..."""
    name = column.partition(":")[0]
    vectors = frame[column].str.split(" ")
    lengths = vectors.list.len().fill_null(0)
    ragged = (lengths != lengths.first()).arg_true() if len(lengths) else pl.Series([], dtype=pl.UInt32)
    if len(ragged):
        assert read.lines is not None
        first = int(ragged[0])
        what = f"{lengths[first]} numbers where the first row has {lengths[0]}"
        fix = "give all rows the same length, or declare it token_seq"
        problems.append(Problem(read.where, int(read.lines[first]), name, what, fix))
        return frame.drop(column)
    positions = range(int(lengths[0]) if len(lengths) else 0)
    fields.update({f"{name}_{position}": FieldSchema(kind="numeric") for position in positions})
    return frame.drop(column).with_columns(
        vectors.list.get(position).alias(f"{name}_{position}") for position in positions
    )
