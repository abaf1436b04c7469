"""Tables of the user's own, CSV or Parquet: read with a schema, joined and written."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from resus.data.log.manifest import ScoreFacts
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.problems import Problem, find_problems, refuse
from resus.data.readers.delimited import FileRows, read_delimited
from resus.data.readers.frames import as_frame
from resus.data.schema import TableSchema
from resus.errors import ConfigError, DataError
from resus.files import atomic_path, check_regular, memory_bytes, reason_of

PARQUET_SUFFIXES = (".parquet", ".pq")
TAB_SUFFIXES = (".tsv", ".tab")
OWN_DEFAULTS = BuildOptions()
_CELL_BYTES = 4  # at least, of a cell in memory

_ROLES = {
    "user": ("user", "uid", "member", "visitor", "customer"),
    "item": ("item", "movie", "product", "article", "sku", "adgroup", "ad_id", "video", "song"),
    "label": ("label", "click", "clk", "target", "rating"),
    "time": ("time", "date"),
}


@dataclass(frozen=True)
class RawTable:
    """A table as it was read: its rows, unless nothing was readable, its problems, and the defaults for its log.

    `lines` are the line numbers of the rows in the file `where`; without them the first row is row 1. `truth` names the
    two columns with the probabilities of a planted world.
    """

    name: str
    where: str
    schema: TableSchema | None
    frame: pl.DataFrame | None
    problems: tuple[Problem, ...] = ()
    lines: pl.Series | None = None
    defaults: BuildOptions = OWN_DEFAULTS
    truth: tuple[str, str] | None = None

    def check(self, options: BuildOptions) -> list[Problem]:
        """All problems: first those of the file, then those of the rows."""
        if self.frame is None or self.schema is None:
            return list(self.problems)
        return [*self.problems, *find_problems(self.frame, self.schema, options, where=self.where, lines=self.lines)]


class ScoreWriter(Protocol):
    """Adds the scores of a model to a table, as one more column."""

    @property
    def facts(self) -> ScoreFacts:
        """What a manifest says about it."""

    def columns_to_learn_from(self, schema: TableSchema, present: Collection[str], where: str) -> list[str]:
        """Which of the columns it reads. Its own column must not be there yet."""

    def on_table(self, table: RawTable) -> RawTable:
        """The table with the column, and with the field in its schema."""


def read_table(
    path: Path, schema: TableSchema | None, options: PrepareOptions, *, writer: ScoreWriter | None = None
) -> RawTable:
    """Read a CSV, TSV or Parquet file with its schema, and the columns that a `writer` needs."""
    if schema is not None and options.label_threshold is not None:
        schema = schema.model_copy(update={"label_threshold": options.label_threshold})
    schema = schema and schema.drawing(options.negatives)
    if path.suffix.lower() in PARQUET_SUFFIXES:
        read = _read_parquet(path, schema, writer)
    else:
        separator = _separator(path, schema)
        encoding = schema.encoding if schema else "utf-8"
        wanted = schema.columns if schema else ()
        read = read_delimited(path, separator=separator, encoding=encoding, wanted=wanted)
    problems = read.problems
    if schema is None and read.frame is not None:
        problems = (*problems, _no_schema(read.frame, read.where))
    defaults = schema.build_options(OWN_DEFAULTS) if schema else OWN_DEFAULTS
    return RawTable(path.stem, read.where, schema, read.frame, problems, read.lines, defaults)


def attach(
    events: pl.DataFrame, rows: FileRows, key: str, problems: list[Problem], *, unlisted: str | None = None
) -> pl.DataFrame:
    """Join the columns of another file by `key`. A key that is listed twice is a problem.

    If `unlisted` is given, the word for the events, a key that is not listed is a problem, too.
    """
    assert rows.frame is not None
    repeats = (~rows.frame[key].is_first_distinct()).arg_true()
    if len(repeats):
        assert rows.lines is not None
        value, line = rows.frame[key][int(repeats[0])], int(rows.lines[int(repeats[0])])
        problems.append(Problem(rows.where, line, key, f"{value!r} is listed twice", "delete one of the rows"))
    listed = rows.frame.unique(subset=key, keep="first", maintain_order=True)
    absent = events.filter(pl.col(key).is_not_null()).join(listed, on=key, how="anti")
    if unlisted and absent.height:
        what = f"{absent.height:,} {unlisted} name a {key} that is not listed, the first {absent[key][0]!r}"
        problems.append(Problem(rows.where, None, key, what, "fetch the file again: rows are missing"))
    return events.join(listed, on=key, how="left", maintain_order="left")


def _separator(path: Path, schema: TableSchema | None) -> str:
    return (schema and schema.separator) or ("\t" if path.suffix.lower() in TAB_SUFFIXES else ",")


def _read_parquet(path: Path, schema: TableSchema | None, writer: ScoreWriter | None = None) -> FileRows:
    where = str(path)
    unusable = unusable_file(path)
    if unusable is not None:
        return FileRows(where, None, None, (unusable,))
    try:
        # Arrow, not polars, whose reader panics on some damaged files
        with pq.ParquetFile(path) as file:
            present, rows = file.schema_arrow.names, file.metadata.num_rows
        columns = [name for name in schema.columns if name in present] if schema else present
        if schema and writer:
            columns = list(dict.fromkeys([*columns, *writer.columns_to_learn_from(schema, present, where)]))
        if rows * len(columns or present) * _CELL_BYTES > memory_bytes():
            what = f"its {rows:,} rows do not fit in memory"
            return FileRows(where, None, None, (Problem(where, None, None, what, "split it into several files"),))
        table = pq.read_table(path, columns=columns or present).replace_schema_metadata(None)
        table.validate(full=True)
        return FileRows(where, as_frame(table, where), None, ())
    except (pa.ArrowException, pl.exceptions.PolarsError, UnicodeDecodeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        problem = Problem(where, None, None, f"it is not a whole Parquet file ({reason})", "fetch or write it again")
        return FileRows(where, None, None, (problem,))


def unusable_file(path: Path) -> Problem | None:
    """Why a path cannot be read as a file: it is missing, or something else, such as a pipe that may never end."""
    try:
        check_regular(path)
    except FileNotFoundError:
        return Problem(str(path), None, None, "the file does not exist", "check the path")
    except OSError as error:
        return Problem(str(path), None, None, f"it cannot be read ({reason_of(error)})", "check the path")
    return None


def _no_schema(frame: pl.DataFrame, where: str) -> Problem:
    """The problem of a table without a schema. Its fix is a guess at one, in YAML to paste into a file."""
    taken: dict[str, str] = {}
    for role, hints in _ROLES.items():
        free = [name for name in frame.columns if name not in taken.values()]
        match = next((name for hint in hints for name in free if hint in name.lower()), None)
        if match or role != "time":
            taken[role] = match or "?"
    fields = {name: _guess_kind(frame[name]) for name in frame.columns if name not in taken.values()}
    guess = yaml.safe_dump(taken | {"fields": fields}, default_flow_style=True, sort_keys=False, width=10_000).strip()
    what = f"no schema says what its columns {', '.join(frame.columns)} mean"
    return Problem(where, None, None, what, f"write a schema file, for instance {guess}, and name it with --schema")


def _guess_kind(series: pl.Series) -> str:
    if series.dtype.is_nested():
        return "multi"
    if series.dtype != pl.String:
        return "numeric" if series.dtype.is_float() else "categorical"
    if bool(series.str.contains("|", literal=True).any()):
        return "multi"
    numbers = series.cast(pl.Float64, strict=False)
    fractional = bool(series.str.contains(".", literal=True).any())
    return "numeric" if fractional and numbers.null_count() == series.null_count() else "categorical"


def read_plain(path: Path, schema: TableSchema) -> pl.DataFrame:
    """All rows and columns of a CSV, TSV or Parquet file; DataError if something is wrong with it."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        read = _read_parquet(path, None)
    else:
        read = read_delimited(path, separator=_separator(path, schema), encoding=schema.encoding)
    refuse(read.problems)
    assert read.frame is not None
    return read.frame


def refuse_lists(kinds: Mapping[str, pl.DataType], out: Path | None) -> None:
    """Refuse to write cells that CSV cannot hold: lists, structures and bytes."""
    if out is not None and out.suffix.lower() in PARQUET_SUFFIXES:
        return
    for name, kind in kinds.items():
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise DataError(
                f"the column '{name}' holds {str(kind).partition('(')[0].lower()} values, which CSV cannot hold: write "
                "Parquet, with --out FILE.parquet"
            )


def check_ending(path: Path) -> None:
    """Refuse to write a kind of file that is not known."""
    known = (".csv", *TAB_SUFFIXES, *PARQUET_SUFFIXES)
    if path.suffix.lower() not in known:
        raise ConfigError(f"{path} ends in none of {', '.join(known)}: choose one of these endings")


def check_out(out: Path, *tables: Path) -> None:
    """Refuse to write to a folder, or over one of the tables that are read."""
    if out.is_dir():
        raise ConfigError(f"{out} is a folder: name a file for the scores")
    if out.exists() and any(table.exists() and out.samefile(table) for table in tables):
        raise ConfigError(f"{out} is also an input table: name another file for the scores")


def write_plain(frame: pl.DataFrame, path: Path) -> None:
    """Write a CSV, TSV or Parquet file, by its ending; whole or not at all."""
    check_ending(path)
    refuse_lists(frame.schema, path)
    with atomic_path(path) as aside:
        if path.suffix.lower() in PARQUET_SUFFIXES:
            pq.write_table(frame.to_arrow(), aside)
        else:
            frame.write_csv(aside, separator="\t" if path.suffix.lower() in TAB_SUFFIXES else ",")
