"""Blocks of a Parquet file hold the rows of the file; a damaged file gives one sentence that names it."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.errors import DataError
from resus.scoring.blocks import ParquetBlocks

ROWS = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


def table(rows: int) -> pa.Table:
    """Column types that a round trip through another library might change."""
    numbers = list(range(rows))
    return pa.table(
        {
            "number": pa.array(numbers, pa.int16()),
            "word": pa.array([f"w{number % 4}" for number in numbers], pa.string()).dictionary_encode(),
            "tags": pa.array([[str(number)] * (number % 3) for number in numbers], pa.list_(pa.string())),
            "a.b": pa.array([None if number % 5 == 0 else number / 4 for number in numbers], pa.float32()),
            "at": pa.array(numbers, pa.timestamp("ms")),
        }
    )


@given(rows=st.integers(0, ROWS), group=st.integers(1, 30), size=st.integers(1, 30), start=st.integers(0, 30))
@settings(max_examples=50, deadline=None)
def test_blocks_are_the_file_from_a_row_on(folder: Path, rows: int, group: int, size: int, start: int) -> None:
    pq.write_table(table(rows), folder / "t.parquet", row_group_size=group)
    whole = pq.read_table(folder / "t.parquet")
    blocks = list(ParquetBlocks(folder / "t.parquet").tables(size, start=start))
    left = max(0, rows - start)
    assert [block.num_rows for block in blocks] == ([size] * (left // size) + [left % size] * (left % size > 0) or [0])
    joined = pa.concat_tables(blocks)
    assert joined.schema.equals(whole.schema)
    assert joined.to_pylist() == whole.slice(start).to_pylist()


def test_only_the_columns_asked_for_are_read(folder: Path) -> None:
    pq.write_table(table(ROWS), folder / "t.parquet", row_group_size=4)
    frames = list(ParquetBlocks(folder / "t.parquet").frames(["a.b", "number"], 10))
    assert [frame.columns for frame in frames] == [["a.b", "number"]] * 3
    assert pl.concat(frames)["number"].to_list() == list(range(ROWS))


def test_a_damaged_file_is_named(folder: Path) -> None:
    """Truncated anywhere or with changed bytes: never a crash, and a truncated file is always noticed."""
    path = folder / "whole.parquet"
    pq.write_table(table(ROWS), path, row_group_size=7)
    content = path.read_bytes()
    damaged = folder / "damaged.parquet"
    for cut in range(0, len(content), 97):
        damaged.write_bytes(content[:cut])
        with pytest.raises(DataError, match=r"damaged\.parquet: it is not a whole Parquet file"):
            list(ParquetBlocks(damaged).tables(5))
    for place in range(4, len(content) - 8, 41):
        damaged.write_bytes(content[:place] + b"\xff\x00\xff" + content[place + 3 :])
        try:
            list(ParquetBlocks(damaged).tables(5))
        except DataError as error:
            assert "damaged.parquet" in str(error)  # noqa: PT017  # some changed bytes are valid values


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.parquet: the file does not exist"):
        ParquetBlocks(folder / "nowhere.parquet")


def test_two_columns_of_one_name_are_refused(folder: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), folder / "two.parquet")
    with pytest.raises(DataError, match=r"two\.parquet, column 'x': two columns have this name"):
        ParquetBlocks(folder / "two.parquet")
