"""The rows of one file or of several parts, of any kind: CSV or TSV, also compressed, and Parquet."""

import glob
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from resus.checking import nearest_key
from resus.data.problems import Problem
from resus.data.readers.delimited import FileRows, read_delimited
from resus.data.readers.frames import as_frame
from resus.files import check_regular, memory_bytes, reason_of

PARQUET_SUFFIXES = (".parquet", ".pq")
TAB_SUFFIXES = (".tsv", ".tab")
TEXT_SUFFIXES = (".csv", *TAB_SUFFIXES)
PACKED_SUFFIXES = (".gz", ".zst")
_CELL_BYTES = 4  # at least, of a cell in memory
_WILD = "*?["

Wanted = Callable[[Collection[str], str], list[str] | None]  # of the present columns of a file, those to read


def kind_of(path: Path) -> str:
    """The ending that says what a file holds, without that of a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in PACKED_SUFFIXES), "")


def estimated_bytes(parts: Sequence[Path]) -> int:
    """How many bytes of text the parts hold; compressed files and Parquet hold about five times their size."""
    plain = [kind_of(part) not in PARQUET_SUFFIXES and part.suffix.lower() not in PACKED_SUFFIXES for part in parts]
    sizes = [part.stat().st_size if part.is_file() else 0 for part in parts]
    return sum(size * (1 if is_plain else 5) for size, is_plain in zip(sizes, plain, strict=True))


def table_name(path: Path) -> str:
    """What a table is called: its file or folder without endings and signs of a pattern."""
    name = path.name
    while name != (shorter := name.removesuffix(Path(name).suffix) if _is_ending(Path(name).suffix) else name):
        name = shorter
    return re.sub(r"[*?\[\]]+", "", name).strip("-_. ") or path.parent.name or "table"


def _is_ending(suffix: str) -> bool:
    return suffix.lower() in (*PACKED_SUFFIXES, *TEXT_SUFFIXES, *PARQUET_SUFFIXES, ".inter", ".txt", ".dat")


def find_parts(path: Path) -> list[Path] | Problem:
    """The files that a path names: itself, the parts in a folder, or what matches a pattern such as `part-*.csv`.

    Parts are read in the order of their names, which is then the order of events at the same time.
    """
    if path.is_dir():
        listed = sorted(part for part in path.iterdir() if part.name[0] not in "._")
        parts = [part for part in listed if kind_of(part) in (*TEXT_SUFFIXES, *PARQUET_SUFFIXES)]
        if not parts:
            known = ", ".join((*TEXT_SUFFIXES, *PARQUET_SUFFIXES))
            fix = f"name a file, or a folder of parts that end in {known} (also .gz or .zst)"
            return Problem(str(path), None, None, "the folder holds no known data set and no table", fix)
    elif any(sign in str(path) for sign in _WILD) and not path.exists():
        parts = sorted(part for part in map(Path, glob.glob(str(path))) if not part.is_dir())  # noqa: PTH207 - absolute
        if not parts:
            return _no_match(path)
    else:
        return [path]
    kinds = {kind_of(part) in PARQUET_SUFFIXES for part in parts}
    if len(kinds) > 1:
        other = next(part for part in parts if kind_of(part) != kind_of(parts[0]))
        what = f"Parquet and text stand side by side, such as {parts[0].name} and {other.name}"
        return Problem(
            str(path), None, None, what, "name a pattern that matches parts of one kind, such as '*.parquet'"
        )
    return parts


def files_at(path: Path) -> list[Path]:
    """The files that a path names; the path itself if there are none."""
    parts = find_parts(path)
    return [path] if isinstance(parts, Problem) else parts


def is_one_parquet(path: Path) -> bool:
    """Whether a path names one Parquet file, and neither a folder nor a pattern that ends like one."""
    return path.suffix.lower() in PARQUET_SUFFIXES and files_at(path) == [path] and not path.is_dir()


def _no_match(path: Path) -> Problem:
    return Problem(str(path), None, None, "no file matches the pattern", "check the folder and the pattern")


def read_parts(
    path: Path, parts: list[Path], *, separator: str | None, encoding: str, wanted: Collection[str], choose: Wanted
) -> FileRows:
    """All rows of all parts, which must have the same columns."""
    reads = [read_rows(part, separator=separator, encoding=encoding, wanted=wanted, choose=choose) for part in parts]
    if len(reads) == 1:
        return reads[0]
    problems = [problem for read in reads for problem in read.problems]
    whole = [read for read in reads if read.frame is not None]
    if not whole:
        return FileRows(str(path), None, None, tuple(problems))
    first, *others = whole
    assert first.frame is not None
    for other in others:
        assert other.frame is not None
        problems += different_columns(first.where, first.frame, other.where, other.frame)
    if (problems and len(whole) < len(reads)) or any(problem.column is not None for problem in problems):
        return FileRows(str(path), None, None, tuple(problems))
    frames = [read.frame.select(first.frame.columns) for read in whole if read.frame is not None]
    lengths = [frame.height for frame in frames]
    lines = [
        pl.int_range(1, frame.height + 1, eager=True) if read.lines is None else read.lines.cast(pl.Int64)
        for read, frame in zip(whole, frames, strict=True)
    ]
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    return FileRows(
        str(path),
        pl.concat(frames, how="vertical_relaxed"),
        pl.concat(lines),
        tuple(problems),
        tuple(starts),
        tuple(read.where for read in whole),
    )


def different_columns(first_name: str, first: pl.DataFrame, name: str, frame: pl.DataFrame) -> list[Problem]:
    """What makes a part no part of the same table as the first one."""
    fix, other = "write all parts with the same columns", Path(first_name).name
    for column in first.columns:
        if column not in frame.columns:
            nearest = nearest_key(column, frame.columns)
            hint = f"did you mean '{nearest}'?" if nearest else fix
            return [Problem(name, None, column, f"the column is missing, which {other} has", hint)]
    for column in frame.columns:
        if column not in first.columns:
            return [Problem(name, None, column, f"there is a column that {other} does not have", fix)]
    for column, kind in frame.schema.items():
        try:
            pl.concat([part.select(column).clear() for part in (first, frame)], how="vertical_relaxed")
        except (pl.exceptions.PolarsError, TypeError):
            what = f"the column holds {kind} values here and {first.schema[column]} values in {other}"
            return [Problem(name, None, column, what, "write all parts with the same types")]
    return []


def read_rows(path: Path, *, separator: str | None, encoding: str, wanted: Collection[str], choose: Wanted) -> FileRows:
    """The rows of one file, of the columns that `choose` picks if it is Parquet."""
    if kind_of(path) in PARQUET_SUFFIXES:
        return read_parquet(path, choose)
    return read_delimited(path, separator=separator or separator_of(path), encoding=encoding, wanted=wanted)


def separator_of(path: Path) -> str:
    return "\t" if kind_of(path) in TAB_SUFFIXES else ","


def every_column(present: Collection[str], where: str) -> None:
    """Read all columns."""


def read_parquet(path: Path, choose: Wanted = every_column) -> FileRows:
    """The rows of a Parquet file; row numbers count from 1."""
    where = str(path)
    unusable = unusable_file(path)
    if unusable is not None:
        return FileRows(where, None, None, (unusable,))
    try:
        # Arrow, not polars, whose reader panics on some damaged files
        with pq.ParquetFile(path) as file:
            present, rows = file.schema_arrow.names, file.metadata.num_rows
        columns = choose(present, where) or present
        if rows * len(columns) * _CELL_BYTES > memory_bytes():
            what = f"its {rows:,} rows do not fit in memory"
            return FileRows(where, None, None, (Problem(where, None, None, what, "split it into several files"),))
        table = pq.read_table(path, columns=columns, partitioning=None).replace_schema_metadata(None)
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
        if any(sign in str(path) for sign in _WILD):
            return _no_match(path)
        return Problem(str(path), None, None, "the file does not exist", "check the path")
    except OSError as error:
        return Problem(str(path), None, None, f"it cannot be read ({reason_of(error)})", "check the path")
    return None
