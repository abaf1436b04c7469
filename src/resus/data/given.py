"""Whatever a user gives as data becomes a log: a log, its folder, a file, or a table in memory."""

from pathlib import Path
from typing import Any, Unpack

from resus.data.build import assemble_log
from resus.data.log.log import InteractionLog
from resus.data.log.manifest import MANIFEST
from resus.data.options import BuildOptions, PrepareOptions, TableOptions
from resus.data.problems import Problem, refuse
from resus.data.readers.delimited import FileRows
from resus.data.readers.files import unusable_file
from resus.data.readers.frames import Table, as_frame
from resus.data.readers.tables import RawTable, ScoreWriter, joined_table
from resus.data.schema import SchemaLike, TableSchema
from resus.data.sources import source_at
from resus.errors import ConfigError, DataError

Data = InteractionLog | Table | Path | str


def build_log(
    table: Data,
    schema: SchemaLike | None = None,
    options: BuildOptions | None = None,
    *,
    name: str | None = None,
    where: str = "the table",
    truth: tuple[str, str] | None = None,
    **chosen: Unpack[TableOptions],
) -> InteractionLog:
    """Turn a table, or a file that holds one, into a log in memory. A log, or the folder of one, is opened.

    `table` is a polars or pandas frame, an Arrow table, a mapping of arrays, or a path. `schema` is a path, a mapping
    or a `TableSchema`. Options are given one by one, such as `duplicates="first"`, or as `options`. Errors name the
    table `where`, whose first row is row 1, or the file and its line. `truth` names the two columns of a planted world
    that become `InteractionLog.truth` and `crowd`.
    """
    wanted = PrepareOptions.of(options, chosen)
    return log_of(table, schema, wanted, name=name, where=where, truth=truth)


def log_of(
    data: Any,
    schema: SchemaLike | None,
    options: PrepareOptions,
    *,
    name: str | None = None,
    where: str = "the table",
    truth: tuple[str, str] | None = None,
    writer: ScoreWriter | None = None,
) -> InteractionLog:
    """What `build_log` does, with a `writer` that adds the scores of a model to a table."""
    opened = opened_log(data)
    if opened is not None:
        if options != PrepareOptions():
            raise ConfigError(
                f"the log '{opened.name}' is built already, so options of a table change nothing: leave them out"
            )
        return opened
    roles = None if schema is None else TableSchema.of(schema)
    if isinstance(data, str | Path):
        table = _read(Path(data), roles, options, writer)
    elif roles is None:
        raise DataError(
            "a table was given without a schema: pass schema={'user': …, 'item': …, 'label': …, 'fields': {…}}"
        )
    else:
        options.refuse_unused({"label_threshold", "negatives"}, where)
        roles = roles.drawing(options.negatives)
        if options.label_threshold is not None:
            roles = roles.model_copy(update={"label_threshold": options.label_threshold})
        rows = FileRows(where, as_frame(data, where), None, ())
        table = joined_table("log", roles, rows, truth=truth)
    if writer is not None:
        refuse(table.problems)
        table = writer.on_table(table)
    build = options.build_options(table.defaults)
    refuse(table.check(build))
    log = assemble_log(table, build)
    facts = {"score": writer.facts if writer else None, **({"name": name} if name else {})}
    return log.with_facts(**facts)


def opened_log(data: Any) -> InteractionLog | None:
    """The log, if `data` is one or the folder of one."""
    if isinstance(data, InteractionLog):
        return data
    if isinstance(data, str | Path) and (Path(data) / MANIFEST).is_file():
        return InteractionLog.open(data)
    return None


def _read(path: Path, schema: TableSchema | None, options: PrepareOptions, writer: ScoreWriter | None) -> RawTable:
    if path.is_dir() and not any(path.iterdir()):
        raise DataError(f"{path} is an empty folder: give a prepared log, a file, or a table")
    found = source_at(path, schema, writer)
    if isinstance(found, Problem):
        raise DataError(str(found))
    options.refuse_unused(found.options, found.name)
    refuse([problem for file in found.files if (problem := unusable_file(file)) is not None])
    return found.read(options)
