"""A table read a block of rows at a time: a Parquet file of any size, or a frame in memory."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from resus.data.problems import Problem, refuse
from resus.data.readers.files import is_one_parquet, unusable_file
from resus.data.readers.frames import as_frame
from resus.data.readers.tables import read_plain
from resus.data.schema import TableSchema

READ_BYTES = 1 << 20  # of a column at a time, because a row group can be as large as the file


class Blocks(Protocol):
    """A table that can be read several times, each time from the start and only the columns asked for."""

    @property
    def columns(self) -> list[str]: ...

    @property
    def rows(self) -> int: ...

    def frames(self, columns: Sequence[str], size: int) -> Iterator[pl.DataFrame]:
        """Blocks of `size` rows; the last one may be shorter."""


def open_blocks(path: Path, schema: TableSchema) -> Blocks:
    """Open a CSV, TSV or Parquet file, or parts. Text and parts are checked as a whole, so they are read to memory."""
    return ParquetBlocks(path) if is_one_parquet(path) else FrameBlocks(read_plain(path, schema))


class FrameBlocks:
    """A frame in memory."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self.columns = frame.columns
        self.rows = frame.height

    def frames(self, columns: Sequence[str], size: int) -> Iterator[pl.DataFrame]:
        return self._frame.select(columns).iter_slices(size)


class ParquetBlocks:
    """A Parquet file, read with Arrow because polars' reader panics on some damaged files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        unusable = unusable_file(path)
        refuse([unusable] if unusable else [])
        with self._whole(), pq.ParquetFile(path) as file:
            self._schema = file.schema_arrow.remove_metadata()
            self.rows = int(file.metadata.num_rows)
        self.columns: list[str] = self._schema.names
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            fix = "give each column its own name"
            refuse([Problem(str(path), None, twice, "two columns have this name", fix)])

    def frames(self, columns: Sequence[str], size: int) -> Iterator[pl.DataFrame]:
        for table in self.tables(size, columns=columns):
            yield as_frame(table, str(self.path))

    def tables(self, size: int, *, columns: Sequence[str] | None = None, start: int = 0) -> Iterator[pa.Table]:
        """Blocks of `size` rows from row `start` on, across the file's row groups; at least one block."""
        names = self.columns if columns is None else list(columns)
        waiting, held, none = [], 0, True
        for batch in self._batches(names, size, start):
            waiting.append(batch)
            held += batch.num_rows
            while held >= size:
                table = pa.Table.from_batches(waiting)
                yield table.slice(0, size)
                waiting, held, none = table.slice(size).to_batches(), held - size, False
        if held or none:
            schema = pa.schema([self._schema.field(name) for name in names])
            yield pa.Table.from_batches(waiting, schema=None if waiting else schema)

    def _batches(self, names: list[str], size: int, start: int) -> Iterator[pa.RecordBatch]:
        with self._whole(), pq.ParquetFile(self.path, buffer_size=READ_BYTES) as file:
            groups = range(file.metadata.num_row_groups)
            first = 0
            while first < len(groups) and start >= file.metadata.row_group(first).num_rows:
                start -= file.metadata.row_group(first).num_rows
                first += 1
            for batch in file.iter_batches(batch_size=size, row_groups=groups[first:], columns=names):
                skipped = min(start, batch.num_rows)
                start -= skipped
                if skipped < batch.num_rows:
                    batch.validate(full=True)
                    yield batch.slice(skipped).select(names).replace_schema_metadata(None)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno:  # the disk failed, not the file
                raise OSError(error.errno, os.strerror(error.errno), str(self.path)) from None
            reason = str(error).partition("\n")[0]
            what = f"it is not a whole Parquet file ({reason})"
            refuse([Problem(str(self.path), None, None, what, "download or write it again")])
