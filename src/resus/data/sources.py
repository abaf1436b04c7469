"""Which source a name or a path stands for: a published data set, RecBole files, or a table of the user's own."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from resus.checking import nearest_key
from resus.data.datasets import DATA_SETS
from resus.data.datasets.base import Source
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.problems import Findings, Problem
from resus.data.readers import recbole
from resus.data.readers.files import estimated_bytes, find_parts, table_name
from resus.data.readers.side_tables import read_sides, side_files
from resus.data.readers.tables import ScoreWriter, read_table
from resus.data.schema import TableSchema
from resus.data.stream.blocks import Block, Events, blocks_of_parts, blocks_of_stream
from resus.errors import ConfigError, DataError
from resus.progress import Progress
from resus.wording import advice

STREAM = "the table"
STREAMED_BYTES = 1 << 27  # larger tables are read in blocks


def find_source(
    name: str,
    path: Path | None,
    schema: TableSchema | None,
    progress: Progress | None = None,
    writer: ScoreWriter | None = None,
) -> Source:
    """The source of `name`, a data set's name or a path; `path` is where the files of a data set are."""
    place = Path(name)
    known = {alias: data_set for data_set in DATA_SETS.values() for alias in (data_set.name, *data_set.aliases)}
    if name.lower() not in known and not (place.exists() or place.suffix or len(place.parts) > 1):
        nearest = nearest_key(name.lower(), known)
        hint = f"did you mean '{nearest}'? " if nearest else ""
        choices = f"choose {', '.join(DATA_SETS)} or planted, or give the path of a table"
        raise ConfigError(f"there is no data set '{name}': {hint}{choices}")
    if name.lower() in known:
        data_set = known[name.lower()]
        if schema is not None:
            raise ConfigError(f"data set '{data_set.name}' has its own schema: leave the schema file out")
        return data_set.find(path, progress)
    if path is not None:
        raise ConfigError(f"'{name}' is a path already: leave the other path out, or name a data set")
    found = source_at(place, schema, writer)
    if isinstance(found, Problem):
        raise DataError(str(found))
    return found


def refuse_own_schema(path: Path) -> None:
    """Refuse to draft a schema for what has one: a published data set, or RecBole files."""
    for data_set in DATA_SETS.values():
        is_file_of = path.name in data_set.files and path.suffix == ".dat"
        if (path / data_set.files[0]).is_file() or is_file_of:
            folder = path if path.is_dir() else path.parent
            raise ConfigError(
                f"{path} belongs to the data set {data_set.name}, which needs no schema: prepare {data_set.name} with "
                + advice(python=f"path={str(folder)!r}", command=f"--path {folder}")
            )
    if path.suffix == ".inter" or (path.is_dir() and any(path.glob("*.inter"))):
        raise ConfigError(f"{path} holds RecBole files, which need no schema: resus prepare {path}")


def source_at(path: Path, schema: TableSchema | None, writer: ScoreWriter | None = None) -> Source | Problem:
    """What a path holds: a published data set, RecBole files, or a table of the user's own."""
    for data_set in DATA_SETS.values():
        if (path / data_set.files[0]).is_file():
            return data_set.in_folder(path)
        if schema is None and path.name in data_set.files:
            return data_set.in_folder(path.parent)
    inters = sorted(path.glob("*.inter")) if path.is_dir() else [path] if path.suffix == ".inter" else []
    if len(inters) > 1:
        return Problem(str(path), None, None, f"the folder holds {len(inters)} .inter files", "name the one to read")
    options = frozenset({"label_threshold", "negatives"})
    if inters:
        read = partial(recbole.read, inters[0], schema)
        return Source(inters[0].stem, tuple(recbole.files_of(inters[0])), read, options)
    parts = find_parts(path)
    if isinstance(parts, Problem):
        return parts
    beside = side_files(schema) if schema else []
    read = partial(read_table, path, schema, writer=writer)
    large = schema is not None and writer is None and estimated_bytes(parts) > STREAMED_BYTES
    events = partial(table_events, path, parts, schema) if schema is not None and large else None
    return Source(table_name(path), (*parts, *beside), read, options, events=events)


def stream_events(stream: Any, schema: TableSchema, options: PrepareOptions) -> Events | None:
    """A table that comes as a stream; None if negatives are drawn, which needs all rows at once."""
    if schema.drawing(options.negatives).negatives is not None:
        return None
    options.refuse_unused({"label_threshold"}, STREAM)
    if options.label_threshold is not None:
        schema = schema.model_copy(update={"label_threshold": options.label_threshold})
    sides, problems = read_sides(schema)

    def read(findings: Findings) -> Iterator[Block]:
        return blocks_of_stream(stream, STREAM, schema.columns, findings)

    return Events("log", STREAM, schema, read, sides, problems, schema.build_options(BuildOptions()))


def table_events(path: Path, parts: list[Path], schema: TableSchema, options: PrepareOptions) -> Events | None:
    """A table of the user's own, to be read in blocks; None if negatives are drawn, which needs all rows at once."""
    if schema.drawing(options.negatives).negatives is not None:
        return None
    if options.label_threshold is not None:
        schema = schema.model_copy(update={"label_threshold": options.label_threshold})
    sides, problems = read_sides(schema)
    read = partial(blocks_of_parts, parts, schema)
    return Events(table_name(path), str(path), schema, read, sides, problems, schema.build_options(BuildOptions()))
