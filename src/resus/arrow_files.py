"""Arrow tables from files that may be damaged: nothing is unpacked, and every offset is checked before it is used."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from resus.arrays import Array

_MAGIC = b"ARROW1\0\0"
_HEADER, _COMPRESSION = 2, 3  # numbers of the fields of Arrow's tables Message and RecordBatch


def read_arrow(content: bytes | pa.Buffer) -> pa.Table:
    """The table of an Arrow file, as a view of its bytes. ValueError or ArrowException if it is not a whole one.

    A compressed file is refused, because a few bytes of it can stand for any number.
    """
    buffer = pa.py_buffer(content) if isinstance(content, bytes) else content
    if buffer.size <= len(_MAGIC) or buffer.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise ValueError("it is not an Arrow file")
    whole = pa.ipc.open_file(buffer)
    rows, batches = buffer.slice(len(_MAGIC)), 0
    for message in _messages(rows):
        if message.type not in ("schema", "record batch"):
            raise ValueError(f"it holds a {message.type}")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("it is compressed")
        batches += message.type == "record batch"
    if batches != whole.num_record_batches:
        raise ValueError("it is cut short")
    table = pa.ipc.open_stream(rows).read_all()  # not by its table of contents, which could name other bytes
    table.validate(full=True)
    return table


def lists_of(values: Array) -> pa.FixedSizeListArray:
    """A matrix as a column of an Arrow table."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def matrix_of(column: pa.ChunkedArray, width: int) -> Array:
    """The matrix in a column of an Arrow table."""
    flat = column.combine_chunks().flatten()
    if flat.null_count:
        raise ValueError("a value is missing")
    matrix: Array = np.from_dlpack(flat).reshape(-1, width).copy()  # to_numpy would import pandas
    return matrix


def _messages(rows: pa.Buffer) -> Iterator[pa.ipc.Message]:
    return iter(pa.ipc.MessageReader.open_stream(rows))


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch names a compression. Arrow has checked that the metadata is a whole flatbuffer."""
    batch = _field(metadata, _unsigned(metadata, 0, 4), _HEADER)
    return batch is None or _field(metadata, batch + _unsigned(metadata, batch, 4), _COMPRESSION) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table is; None if the table does not have it."""
    fields = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    place = fields + 4 + 2 * number
    offset = _unsigned(data, place, 2) if place < fields + _unsigned(data, fields, 2) else 0
    return table + offset if offset else None


def _unsigned(data: bytes, place: int, size: int) -> int:
    return int.from_bytes(data[place : place + size], "little")
