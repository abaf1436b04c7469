"""A column that was written in pieces is the column."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resus.arrays import Array
from resus.data.log.column_files import ColumnReader, ColumnWriter, map_column, row_blocks


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(0, 5), max_size=5), width=st.sampled_from([None, 1, 3]), take=st.integers(1, 7))
def test_pieces_are_one_column(tmp_path: Path, lengths: list[int], width: int | None, take: int) -> None:
    rows = sum(lengths)
    column = np.random.default_rng(rows).integers(99, size=rows if width is None else (rows, width)).astype(np.int32)
    path = tmp_path / "column.npy"
    with ColumnWriter(path, np.int32, width) as writer:
        for piece in np.split(column, np.cumsum(lengths)[:-1]) if lengths else []:
            writer.add(piece)
    assert np.array_equal(map_column(path, np.int32), column)
    assert map_column(path, np.int32).shape == column.shape
    with ColumnReader(path, np.int32) as reader:
        first = reader.take(take)
        assert np.array_equal(np.concatenate([first, *reader.blocks(take)]), column)
    assert np.array_equal(np.concatenate([column[:0], *row_blocks(column, take)]), column)


def test_a_column_is_mapped_and_not_to_be_written(tmp_path: Path) -> None:
    np.save(tmp_path / "column.npy", np.zeros(3, dtype=np.float32))
    column = map_column(tmp_path / "column.npy", np.float32)
    assert not column.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


@pytest.mark.parametrize(
    ("array", "change", "more"),
    [
        (np.zeros(9, dtype=np.float32), slice(0, 0), b""),
        (np.zeros(9, dtype=np.float32), slice(0, 20), b""),
        (np.zeros(9, dtype=np.float32), slice(0, -1), b""),
        (np.zeros(9, dtype=np.float64), slice(None), b""),
        (np.asfortranarray(np.zeros((3, 3), dtype=np.float32)), slice(None), b""),
        (np.array([{}], dtype=object), slice(None), b""),
        (np.zeros(9, dtype=np.float32), slice(None), b"more"),
    ],
)
def test_what_is_no_whole_column_is_refused(tmp_path: Path, array: Array, change: slice, more: bytes) -> None:
    path = tmp_path / "column.npy"
    np.save(path, array, allow_pickle=True)
    path.write_bytes(path.read_bytes()[change] + more)
    with pytest.raises(ValueError, match=r"column\.npy"):
        map_column(path, np.float32)
