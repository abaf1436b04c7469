"""Arrow files with flipped bits, cut short or compressed: a table or an error, never a crash."""

import random

import numpy as np
import pyarrow as pa
import pytest

from resus.arrow_files import read_arrow

TABLE = pa.table({"user": [f"u{number}" for number in range(40)], "first_row": range(40), "title": [None] * 40})


def written(table: pa.Table, rows: int = 15, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table, max_chunksize=rows)
    return bytes(sink.getvalue())


def test_a_table_comes_back() -> None:
    assert read_arrow(written(TABLE)).equals(TABLE)
    assert read_arrow(pa.py_buffer(written(TABLE))).equals(TABLE)
    empty = TABLE.slice(0, 0)
    assert read_arrow(written(empty)).equals(empty)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_file_is_not_unpacked(compression: str) -> None:
    zeros = pa.table({"zeros": np.zeros(1 << 22)})
    content = written(zeros, rows=1 << 20, compression=compression)
    del zeros
    held = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match="it is compressed"):
        read_arrow(content)
    assert pa.total_allocated_bytes() <= held


def test_dictionaries_and_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="it holds a dictionary"):
        read_arrow(written(pa.table({"word": pa.array(["a", "b", "a"]).dictionary_encode()})))
    for content in (b"", b"ARROW1", b"PAR1" * 9):
        with pytest.raises(ValueError, match="not an Arrow file"):
            read_arrow(content)


def test_any_damage_is_an_error_or_a_table() -> None:
    content = written(TABLE)
    for cut in range(1, len(content)):
        with pytest.raises((pa.ArrowException, OSError, ValueError)):
            read_arrow(content[:-cut])
    for seed in range(2000):
        draw = random.Random(seed)
        bent = bytearray(content)
        for _ in range(draw.choice([1, 1, 2, 8])):
            bent[draw.randrange(len(bent))] = draw.randrange(256)
        if seed % 4 == 0:
            del bent[draw.randrange(len(bent)) :]
        try:
            read_arrow(bytes(bent)).to_pydict()
        except (pa.ArrowException, OSError, ValueError):
            continue
