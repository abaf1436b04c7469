"""A table of events as blocks of rows: from text and Parquet parts, from Arrow streams and from lazy frames."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from resus.data.options import BuildOptions
from resus.data.problems import Findings, Problem
from resus.data.readers.delimited import read_delimited_blocks
from resus.data.readers.files import PARQUET_SUFFIXES, different_columns, kind_of, separator_of, unusable_file
from resus.data.readers.frames import as_frame
from resus.data.readers.side_tables import SideRows
from resus.data.schema import TableSchema

BLOCK_BYTES = 1 << 25
BLOCK_ROWS = 1 << 19
READ_BYTES = 1 << 20  # of a column at a time, because a row group can be as large as the file


class Block(NamedTuple):
    """Consecutive rows of one file, and the line of each; without lines, the row numbers of the file go on."""

    where: str
    frame: pl.DataFrame
    lines: pl.Series | None
    share: float = 0.0  # of the bytes of the table that were read so far


Read = Callable[[Findings], Iterator[Block]]


@dataclass(frozen=True)
class Events:
    """A table of events that is read in blocks, with its side tables and the problems of these."""

    name: str
    where: str
    schema: TableSchema
    read: Read
    sides: Sequence[SideRows] = ()
    problems: Sequence[Problem] = ()
    defaults: BuildOptions = field(default_factory=BuildOptions)
    truth: tuple[str, str] | None = None


class Places:
    """File and line of each row of a table; takes next to no memory where lines follow each other."""

    def __init__(self) -> None:
        self.rows = 0
        self._starts: list[int] = []
        self._blocks: list[tuple[str, int, pl.Series | None]] = []
        self._counted: dict[str, int] = {}

    def add(self, block: Block) -> None:
        height, lines = block.frame.height, block.lines
        if not height:
            return
        first = self._counted.get(block.where, 0) + 1 if lines is None else int(lines[0])
        regular = lines is None or int(lines[-1]) == first + height - 1
        self._starts.append(self.rows)
        self._blocks.append((block.where, first, None if regular else lines))
        self._counted[block.where] = self._counted.get(block.where, 0) + height
        self.rows += height

    def __call__(self, row: int) -> tuple[str, int]:
        number = bisect_right(self._starts, row) - 1
        where, first, lines = self._blocks[number]
        inside = row - self._starts[number]
        return where, first + inside if lines is None else int(lines[inside])


def blocks_of_parts(
    parts: Sequence[Path],
    schema: TableSchema,
    findings: Findings,
    *,
    block_bytes: int = BLOCK_BYTES,
    more: Sequence[str] = (),
) -> Iterator[Block]:
    """The rows of all parts, which must have the same columns; what is wrong goes to `findings`.

    The columns are those of the schema and `more`, if they are there; of text, all columns.
    """
    sizes = [part.stat().st_size if part.is_file() else 0 for part in parts]
    total, first = max(sum(sizes), 1), None
    for number, part in enumerate(parts):
        before = sum(sizes[:number])
        read = _parquet if kind_of(part) in PARQUET_SUFFIXES else _text
        for block in read(part, schema, findings, block_bytes, more):
            if first is None:
                first = block
            elif block.where != first.where:
                for problem in different_columns(first.where, first.frame, block.where, block.frame):
                    findings.stop(problem)
                    return
            yield block._replace(share=(before + block.share * sizes[number]) / total)
        if findings.stopped:
            return


def _text(
    part: Path, schema: TableSchema, findings: Findings, block_bytes: int, more: Sequence[str]
) -> Iterator[Block]:
    del more  # all columns are read
    size, taken = max(part.stat().st_size if part.is_file() else 1, 1), [0]
    blocks = read_delimited_blocks(
        part,
        findings,
        separator=schema.separator or separator_of(part),
        encoding=schema.encoding,
        wanted=schema.event_columns,
        block_bytes=block_bytes,
        progress=lambda done: taken.__setitem__(0, done),
    )
    for frame, lines in blocks:
        yield Block(str(part), frame, lines, taken[0] / size)


def _parquet(
    part: Path, schema: TableSchema, findings: Findings, block_bytes: int, more: Sequence[str]
) -> Iterator[Block]:
    where, unusable = str(part), unusable_file(part)
    if unusable is not None:
        findings.stop(unusable)
        return
    try:
        with pq.ParquetFile(part, buffer_size=READ_BYTES) as file:
            present, rows, done = file.schema_arrow.names, max(file.metadata.num_rows, 1), 0
            columns = [name for name in dict.fromkeys([*schema.columns, *more]) if name in present] or present
            size = max(1, min(BLOCK_ROWS, block_bytes // (8 * len(columns))))
            yield Block(where, as_frame(file.schema_arrow.empty_table().select(columns)), None)
            for batch in file.iter_batches(size, columns=columns):
                table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
                table.validate(full=True)
                done += batch.num_rows
                yield Block(where, as_frame(table, where), None, done / rows)
    except (pa.ArrowException, pl.exceptions.PolarsError, UnicodeDecodeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        fix = "fetch or write it again"
        findings.stop(Problem(where, None, None, f"it is not a whole Parquet file ({reason})", fix))


def is_stream(table: Any) -> bool:
    """Whether a table comes in parts: a lazy frame, an Arrow reader, or a relation of a library such as DuckDB."""
    if isinstance(table, pl.LazyFrame | pa.RecordBatchReader):
        return True
    whole = isinstance(table, pl.DataFrame | pa.Table) or type(table).__module__.partition(".")[0] == "pandas"
    return hasattr(table, "__arrow_c_stream__") and not whole


def blocks_of_stream(stream: Any, where: str, columns: Sequence[str], findings: Findings) -> Iterator[Block]:
    """The rows of a stream. If its library fails on the way, that is a finding."""
    try:
        yield from (
            _batches_of_lazy(stream, where, columns)
            if isinstance(stream, pl.LazyFrame)
            else _batches_of_arrow(stream, where, columns)
        )
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).partition("\n")[0]
        fix = "check the query or the files behind it"
        findings.stop(Problem(where, None, None, f"the stream broke off ({reason})", fix))


def _batches_of_lazy(stream: pl.LazyFrame, where: str, columns: Sequence[str]) -> Iterator[Block]:
    known = stream.collect_schema().names()
    wanted = [name for name in columns if name in known]
    lazy = stream.select(wanted) if wanted else stream
    yield Block(where, lazy.clear().collect(), None)
    for frame in lazy.collect_batches(chunk_size=BLOCK_ROWS, maintain_order=True, engine="streaming"):
        yield Block(where, frame, None)


def _batches_of_arrow(stream: Any, where: str, columns: Sequence[str]) -> Iterator[Block]:
    reader = pa.RecordBatchReader.from_stream(stream)
    wanted = [name for name in columns if name in reader.schema.names] or reader.schema.names
    yield Block(where, as_frame(reader.schema.empty_table().select(wanted), where), None)
    waiting, held = list[pa.RecordBatch](), 0
    for batch in reader:
        waiting.append(batch.select(wanted))
        held += batch.num_rows
        if held >= BLOCK_ROWS:
            yield Block(where, as_frame(pa.Table.from_batches(waiting), where), None)
            waiting, held = [], 0
    if held:
        yield Block(where, as_frame(pa.Table.from_batches(waiting), where), None)
