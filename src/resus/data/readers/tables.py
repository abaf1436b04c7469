"""Tables of the user's own, CSV or Parquet: read with a schema, joined and written."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow.parquet as pq
import yaml

from resus.data.log.manifest import ScoreFacts, SideCounts
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.problems import Place, Problem, clashing_columns, find_problems, refuse
from resus.data.readers.delimited import FileRows
from resus.data.readers.files import (
    PARQUET_SUFFIXES,
    TAB_SUFFIXES,
    every_column,
    files_at,
    find_parts,
    read_parts,
    table_name,
)
from resus.data.readers.side_tables import join_sides, read_sides
from resus.data.schema import TableSchema
from resus.errors import ConfigError, DataError
from resus.files import atomic_path
from resus.wording import advice, option

OWN_DEFAULTS = BuildOptions()

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
    sides: Mapping[str, SideCounts] = field(default_factory=dict)
    place: Place | None = None  # of a row, if there are several files

    def check(self, options: BuildOptions) -> list[Problem]:
        """All problems: first those of the file, then those of the rows."""
        if self.frame is None or self.schema is None:
            return list(self.problems)
        found = find_problems(self.frame, self.schema, options, where=self.where, lines=self.lines, place=self.place)
        return [*self.problems, *found]

    @property
    def notices(self) -> list[str]:
        """What is no mistake, but good to know: users and items without a row, rows that nothing names."""
        return [said for role, counts in self.sides.items() if (said := counts.sentence(role[:-1]))]


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
    """Read a table of one or several files with its schema, its side tables, and the columns that a `writer` needs."""
    if schema is not None and options.label_threshold is not None:
        schema = schema.model_copy(update={"label_threshold": options.label_threshold})
    schema = schema and schema.drawing(options.negatives)
    name, parts = table_name(path), find_parts(path)
    if isinstance(parts, Problem):
        return RawTable(name, str(path), schema, None, (parts,))

    def choose(present: Collection[str], where: str) -> list[str] | None:
        if schema is None:
            return None
        columns = [name for name in schema.columns if name in present]
        if writer is not None:
            joined = [*present, *schema.of_user, *schema.of_item]
            columns += [name for name in writer.columns_to_learn_from(schema, joined, where) if name in present]
        return list(dict.fromkeys(columns))

    read = read_parts(
        path,
        parts,
        separator=schema.separator if schema else None,
        encoding=schema.encoding if schema else "utf-8",
        wanted=schema.event_columns if schema else (),
        choose=choose,
    )
    if schema is None:
        guess = () if read.frame is None else (_no_schema(read.frame, read.where),)
        return RawTable(name, read.where, None, read.frame, (*read.problems, *guess), read.lines)
    return joined_table(name, schema, read)


def joined_table(
    name: str,
    schema: TableSchema,
    read: FileRows,
    *,
    defaults: BuildOptions = OWN_DEFAULTS,
    truth: tuple[str, str] | None = None,
) -> RawTable:
    """The table of these events with the fields of its side tables."""
    sides, problems = read_sides(schema, None if read.frame is None else read.frame.columns)
    frame, counts = read.frame, dict[str, SideCounts]()
    if frame is not None:
        problems += clashing_columns(frame.columns, schema, read.where)
        frame, unmatched, counts = join_sides(frame, sides, read.place)
        problems += unmatched
    return RawTable(
        name=name,
        where=read.where,
        schema=schema,
        frame=frame,
        problems=(*read.problems, *problems),
        lines=read.lines,
        defaults=schema.build_options(defaults),
        truth=truth,
        sides=counts,
        place=read.place,
    )


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
    return Problem(
        where, None, None, what, f"write a schema file, for instance {guess}, and name it with {option('schema')}"
    )


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
    """All rows and columns of a table of one or several files; DataError if something is wrong with it."""
    parts = find_parts(path)
    refuse([parts] if isinstance(parts, Problem) else [])
    assert not isinstance(parts, Problem)
    read = read_parts(path, parts, separator=schema.separator, encoding=schema.encoding, wanted=(), choose=every_column)
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
                "Parquet" + advice(python="", command=", with --out FILE.parquet")
            )


def check_ending(path: Path) -> None:
    """Refuse to write a kind of file that is not known."""
    known = (".csv", *TAB_SUFFIXES, *PARQUET_SUFFIXES)
    if path.suffix.lower() not in known:
        raise ConfigError(f"{path} ends in none of {', '.join(known)}: choose one of these endings")


def check_out(out: Path, *tables: Path | None) -> None:
    """Refuse to write to a folder, or over a file of the tables that are read."""
    if out.is_dir():
        raise ConfigError(f"{out} is a folder: name a file for the scores")
    files = [file for table in tables if table is not None for file in files_at(table)]
    if out.exists() and any(file.exists() and out.samefile(file) for file in files):
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
