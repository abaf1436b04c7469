"""Staged rows in the order of a log: by user, then by time, then in the order of the files.

Few rows are sorted in memory by polars, many by DuckDB, which spills to disk. `python -m benchmarks.ingest engines`
compares it with polars' streaming engine.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from resus.data.stream.staging import ROW, TIME, USER, Staged
from resus.extras import need
from resus.progress import Progress

ENGINE_BYTES = 1 << 30
BLOCK_ROWS = 1 << 19
FILE = "sorted.parquet"


class SortedRows:
    """The rows in order, which can be read several times, in blocks of whole users."""

    def __init__(self, rows: int, read: Callable[[], Iterator[pl.DataFrame]]) -> None:
        self.rows = rows
        self._read = read

    def __iter__(self) -> Iterator[pl.DataFrame]:
        held: list[pl.DataFrame] = []
        for frame in self._read():
            if not held or frame[USER][-1] == held[-1][USER][-1]:
                held.append(frame)  # the user of the last row may go on
                continue
            cut = int(frame[USER].search_sorted(frame[USER][-1]))
            held.append(frame.head(cut))
            yield pl.concat(held, rechunk=True)
            held = [frame.slice(cut)]
        if held:
            yield pl.concat(held, rechunk=True)


def sort_rows(
    staged: Staged,
    changed: Callable[[pl.DataFrame], pl.DataFrame],
    folder: Path,
    progress: Progress,
    *,
    block_rows: int = BLOCK_ROWS,
) -> SortedRows:
    """Sort the rows, each block of which is `changed` before."""
    total = staged.blocks.rows

    def blocks() -> Iterator[pl.DataFrame]:
        done = 0
        for frame in staged.blocks:
            ready = changed(frame)
            done += frame.height
            progress("sorting by user and time", done, total, "rows")
            yield ready.with_columns(pl.col(TIME).cast(staged.times.kind)) if TIME in ready.columns else ready

    if staged.blocks.in_memory:
        whole = pl.concat(list(blocks()))
        by = [name for name in (USER, TIME, ROW) if name in whole.columns]
        ordered = whole.sort(by)
        return SortedRows(total, lambda: iter(ordered.iter_slices(block_rows)))
    _sort_on_disk(blocks(), folder)
    return SortedRows(total, lambda: _read(folder / FILE, block_rows))


def _sort_on_disk(blocks: Iterator[pl.DataFrame], folder: Path) -> None:
    need("large", "to sort a table of this size")
    import duckdb

    first = next(blocks)
    schema = first.to_arrow().schema

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_arrow().to_batches()
        for frame in blocks:
            yield from frame.to_arrow().cast(schema).to_batches()

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    by = ", ".join(f'"{name}"' for name in (USER, TIME, ROW) if name in schema.names)
    spill = folder / "sorting"
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{ENGINE_BYTES >> 20}MB",
        "temp_directory": str(spill),
        "threads": "2",
    }
    with duckdb.connect(config=settings) as engine:
        engine.register("staged", reader)
        engine.execute(f"COPY (SELECT * FROM staged ORDER BY {by}) TO ? (FORMAT parquet)", [str(folder / FILE)])  # noqa: S608 - own names


def _read(path: Path, block_rows: int) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(block_rows):
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            yield frame
