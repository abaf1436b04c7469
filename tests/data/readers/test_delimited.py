import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resus.data.readers import delimited
from resus.data.readers.delimited import read_columns, read_delimited

CELLS = st.lists(st.sampled_from([*'ab,;"\n\té|', "\r\n"]), max_size=6).map("".join)
ROWS = st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=8)
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def written(rows: list[list[str]], separator: str, line_end: str) -> list[str]:
    """Each row as Python's own CSV writer puts it."""
    texts = []
    for row in rows:
        sink = io.StringIO()
        csv.writer(sink, delimiter=separator, lineterminator=line_end).writerow(row)
        texts.append(sink.getvalue())
    return texts


@shared_folder
@given(
    rows=ROWS,
    separator=st.sampled_from([",", ";", "\t"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
    blanks=st.lists(st.integers(0, 2), min_size=9, max_size=9),
    block=st.sampled_from([1, 5, 1 << 20]),
)
def test_reads_what_a_csv_writer_wrote_and_keeps_the_line_numbers(
    tmp_path: Path, rows: list[list[str]], separator: str, line_end: str, mark: str, blanks: list[int], block: int
) -> None:
    texts = written([["p", "q", "r"], *rows], separator, line_end)
    padded = [text + line_end * blank for text, blank in zip(texts, blanks, strict=False)]
    path = tmp_path / "table.csv"
    path.write_bytes((mark + "".join(padded)).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_BLOCK", block)
        read = read_delimited(path, separator=separator)
    assert read.problems == ()
    assert read.frame is not None
    assert read.lines is not None
    assert [[cell or "" for cell in row] for row in read.frame.rows()] == rows
    assert read.lines.to_list() == [1 + "".join(padded[: i + 1]).count("\n") for i in range(len(rows))]


@shared_folder
@given(widths=st.lists(st.integers(1, 5), min_size=1, max_size=12), newline=st.booleans())
def test_rows_of_another_width_are_named_and_the_whole_ones_kept(
    tmp_path: Path, widths: list[int], newline: bool
) -> None:
    path = tmp_path / "table.csv"
    lines = [",".join(f"{row}.{cell}" for cell in range(width)) for row, width in enumerate(widths)]
    path.write_text("p,q,r\n" + "\n".join(lines) + "\n" * newline)
    read = read_delimited(path, separator=",")
    assert read.frame is not None
    assert [row[0] for row in read.frame.rows()] == [f"{row}.0" for row, width in enumerate(widths) if width == 3]
    cut = not newline and widths[-1] < 3
    few = [row + 2 for row, width in enumerate(widths) if width < 3 and not (cut and row == len(widths) - 1)]
    many = [row + 2 for row, width in enumerate(widths) if width > 3]
    expected = [len(widths) + 1] * cut + few[:1] + many[:1]
    assert [problem.row for problem in read.problems] == expected
    assert ("cut short" in "".join(map(str, read.problems))) == cut


@pytest.mark.parametrize(
    ("content", "row", "what"),
    [
        (b"", None, "empty"),
        (b"\xef\xbb\xbf\n", None, "empty"),
        (b"p,q\n1,2\n3,\xe9\n", 3, "0xe9 is not UTF-8"),
        ("p,q\n1,2\n".encode("utf-16"), 1, "not UTF-8"),
        (b"p;q\n1;2\n", 1, "separated by ';', not by ','"),
        (b"p,q,p\n1,2,3\n", 1, "two columns"),
        (b"p,,q\n1,2,3\n", 1, "number 2 has no name"),
        (b'p,q\n1,2\n3,4" screen\n', 3, "quote"),
        (b'p,q\n1,"2\n3,4\n', 2, "quote"),
        (b'p,q\n1,2\n"3,4\n5,"6"\n', 3, "quote"),
    ],
)
def test_a_broken_file_is_answered_with_its_row(tmp_path: Path, content: bytes, row: int | None, what: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    problem = read_delimited(path, separator=",").problems[0]
    assert (problem.where, problem.row) == (str(path), row)
    assert what in problem.what


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "gbk", "utf-8"])
def test_reads_the_encoding_that_it_is_told(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("p,q\n1,é\n".encode(encoding, "xmlcharrefreplace"))
    read = read_delimited(path, separator=",", encoding=encoding)
    assert read.problems == ()
    assert read.frame is not None
    assert read.frame.rows() == [("1", "é" if encoding != "gbk" else "é".encode("gbk").decode("gbk"))]


def test_an_unknown_encoding_a_missing_file_and_a_folder_are_problems(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("p,q\n1,2\n")
    assert "unknown" in read_delimited(path, separator=",", encoding="utf-9").problems[0].what
    assert "does not exist" in read_delimited(tmp_path / "no.csv", separator=",").problems[0].what
    assert "folder" in read_delimited(tmp_path, separator=",").problems[0].what


def test_without_quoting_a_quote_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text('"p\tq\n5" x\t"y\n')
    read = read_delimited(path, separator="\t", quoted=False)
    assert read.frame is not None
    assert read.frame.to_dict(as_series=False) == {'"p': ['5" x'], "q": ['"y']}


def test_separators_of_several_characters_and_given_names(tmp_path: Path) -> None:
    path = tmp_path / "table.dat"
    path.write_text("1::a:b::x\n2::c::y\n")
    read = read_delimited(path, separator="::", names=("p", "q", "r"), quoted=False)
    assert read.frame is not None
    assert read.lines is not None
    assert read.frame.rows() == [("1", "a:b", "x"), ("2", "c", "y")]
    assert read.lines.to_list() == [1, 2]


def test_a_published_layout_must_have_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("p,q \n1,2\n")
    read = read_columns(path, ["q"], separator=",")
    assert read.frame is not None
    assert read.frame.rows() == [("2",)]
    lacking = read_columns(path, ["p", "s", "t"], separator=",")
    assert lacking.frame is None
    assert [problem.column for problem in lacking.problems] == ["s", "t"]
