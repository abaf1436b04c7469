"""What is read fast is what the strict reader reads; all else is left to it."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resus.data.readers.delimited import read_delimited
from resus.data.readers.plain_csv import NotPlain, read_plain_blocks

PLAIN = ["7", "0", "10", "99", "100", "1494000000", "9223372036854775807"]
UNUSUAL = ["007", "+7", "-7", " 7", "7 ", '"7"', "", "7.0", "1e3", "x", "9223372036854775808", "7\r"]


def read(path: Path, block_bytes: int) -> pl.DataFrame:
    blocks = read_plain_blocks(path, numbers=["number"], texts=["text"], block_bytes=block_bytes)
    return pl.concat([frame for frame, _ in blocks])


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.lists(st.tuples(st.sampled_from(PLAIN), st.sampled_from(["", "a", "ä b", " "])), min_size=1, max_size=9),
    end=st.sampled_from(["\n", "\r\n"]),
    block_bytes=st.integers(1, 100),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    text_last=st.booleans(),
    last_end=st.booleans(),
)
def test_plain_rows_are_read_as_they_are(
    tmp_path: Path,
    cells: list[tuple[str, str]],
    end: str,
    block_bytes: int,
    mark: bytes,
    text_last: bool,
    last_end: bool,
) -> None:
    names, order = ["number ", "other", "text"], (0, 2, 1) if not text_last else (0, 1, 2)
    rows = [names, *([number, "x", text] for number, text in cells)]
    lines = [",".join(row[place] for place in order) for row in rows]
    path = tmp_path / "rows.csv"
    path.write_bytes(mark + (end.join(lines) + (end if last_end else "")).encode())
    frame = read(path, block_bytes)
    strict = read_delimited(path, separator=",")
    assert strict.frame is not None
    expected = strict.frame.rename(str.strip).select("number", "text")
    assert frame.with_columns(pl.col("number").cast(pl.String)).equals(expected)
    *_, (_, done) = read_plain_blocks(path, numbers=["number"], texts=["text"], block_bytes=block_bytes)
    assert done == path.stat().st_size - len(mark)


@pytest.mark.parametrize("block_bytes", [1, 1000])
@pytest.mark.parametrize("cell", UNUSUAL)
def test_a_number_in_other_words_is_left_to_the_strict_reader(tmp_path: Path, cell: str, block_bytes: int) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(f"number,text\n1,a\n{cell},b\n3,c\n".encode())
    with pytest.raises(NotPlain):
        read(path, block_bytes)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"number\n1\n",
        b"number;text\n1;a\n",
        b"number,text,text\n1,a,b\n",
        b"number,text,\n1,a,b\n",
        b'"number",text\n1,a\n',
        b"\xff,number,text\n1,2,a\n",
        b"number,text\n1,a\n\n2,b\n",
        b"number,text\n1,a\n2\n",
        b"number,text\n1,a\n2,b,c\n",
        b"number,text\n" + b"1,a\n" * 300 + b"2,b,c\n",
        b'number,text\n1,"a"\n',
        b"number,text\n1,\xff\n",
        b"number,text\n1,a\0b\n",
    ],
)
def test_a_file_in_another_shape_is_left_to_the_strict_reader(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(NotPlain):
        read(path, 50)
