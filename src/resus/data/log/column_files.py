"""Columns as plain .npy files: written block by block, read as one memory map or in blocks."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from resus.arrays import Array
from resus.checking import on_one_line
from resus.files import check_regular

BLOCK_ROWS = 1 << 18


class ColumnWriter:
    """A column that grows at its end; `width` is None for one value per row."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self.rows = 0
        self._dtype = np.dtype(dtype)
        self._row_shape = () if width is None else (width,)
        self._stream = path.open("wb")
        self._write_header()
        self._begin = self._stream.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        """Write the number of rows into the header; numpy leaves room for it."""
        with self._stream:
            self._stream.seek(0)
            self._write_header()
            assert self._stream.tell() == self._begin

    def add(self, block: Array) -> None:
        assert block.shape[1:] == self._row_shape
        assert block.dtype == self._dtype
        self._stream.write(np.ascontiguousarray(block).data)
        self.rows += len(block)

    def _write_header(self) -> None:
        description = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.rows, *self._row_shape),
        }
        np.lib.format.write_array_header_1_0(self._stream, description)


def map_column(path: Path, dtype: npt.DTypeLike) -> Array:
    """The whole column as a read-only memory map; ValueError if the file is cut short or has another type."""
    check_regular(path)
    try:
        mapped = np.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception as error:  # numpy raises whatever its parser meets in a bent header
        raise ValueError(f"{path.name} is not a whole column: {on_one_line(error)}") from None
    if mapped.dtype != np.dtype(dtype) or not mapped.flags.c_contiguous:
        raise ValueError(f"{path.name} does not hold {np.dtype(dtype)}")
    if path.stat().st_size != mapped.offset + mapped.nbytes:
        raise ValueError(f"{path.name} is longer than it says")
    return np.asarray(mapped)


def row_blocks(column: Array, rows: int = BLOCK_ROWS) -> Iterator[Array]:
    """A column in consecutive blocks of rows."""
    for start in range(0, len(column), rows):
        yield column[start : start + rows]


class ColumnReader:
    """A column that is read from its beginning, some rows at a time, without a memory map."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self._column = map_column(path, dtype)  # checks the file and touches no row
        self._stream = path.open("rb")
        self._stream.seek(path.stat().st_size - self._column.nbytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._stream.close()

    def take(self, rows: int) -> Array:
        """The next rows; fewer at the end of the column."""
        _, *width = self._column.shape
        return np.fromfile(self._stream, self._column.dtype, rows * math.prod(width)).reshape(-1, *width)

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[Array]:
        """The rest of the column."""
        while len(block := self.take(rows)):
            yield block
