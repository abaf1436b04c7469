"""Tables of one file or of many parts, packed or not, give one log; parts that do not fit are named."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.doctor import diagnose
from resus.data.log.log import InteractionLog
from resus.data.prepare import prepare_log
from resus.data.problems import Findings
from resus.data.readers.delimited import read_delimited, read_delimited_blocks
from resus.data.readers.files import table_name
from resus.data.schema import TableSchema
from resus.errors import DataError

SCHEMA = "{user: who, item: what, label: click, time: at, fields: {price: numeric, tags: multi}}"
FRAME = pl.DataFrame(
    {
        "who": [row % 3 for row in range(12)],
        "what": [f"i,{row % 4}" for row in range(12)],
        "click": [row % 2 for row in range(12)],
        "at": [row // 6 for row in range(12)],
        "price": [row / 2 for row in range(12)],
        "tags": [f"a|t{row}" for row in range(12)],
    }
)


def zstd(raw: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(raw, asbytes=True)
    return packed


def text(frame: pl.DataFrame) -> bytes:
    return frame.write_csv().encode()


def log_of(source: Path, place: Path) -> InteractionLog:
    (place / "schema.yaml").write_text(SCHEMA)
    return prepare_log(str(source), place / "log", schema=place / "schema.yaml")


def write_parts(place: Path, suffix: str, pack: Callable[[bytes], bytes]) -> Path:
    place.mkdir()
    for number, start in enumerate(range(0, 12, 4)):
        part = FRAME.slice(start, 4)
        path = place / f"part-{number}{suffix}"
        if suffix == ".parquet":
            part.write_parquet(path)
        else:
            path.write_bytes(pack(text(part)))
    (place / "_SUCCESS").write_text("")
    (place / "README").write_text("not a part")
    return place


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".csv", bytes), (".csv.gz", gzip.compress), (".csv.zst", zstd), (".parquet", bytes)]
)
def test_a_folder_a_pattern_and_one_file_give_the_same_log(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "events.csv").write_bytes(text(FRAME))
    expected = log_of(tmp_path / "one" / "events.csv", tmp_path / "one").content_hash
    folder = write_parts(tmp_path / "parts", suffix, pack)
    log = log_of(folder, tmp_path)
    assert (log.content_hash, log.name) == (expected, "parts")
    assert [Path(file.path).name for file in log.manifest.files] == [f"part-{number}{suffix}" for number in range(3)]
    (tmp_path / "again").mkdir()
    again = log_of(folder / f"part-*{suffix}", tmp_path / "again")
    assert (again.content_hash, again.name) == (expected, "part")


def parts_with(change: Callable[[Path], object]) -> Callable[[Path], Path]:
    def write(place: Path) -> Path:
        folder = write_parts(place / "parts", ".csv", bytes)
        change(folder)
        return folder

    return write


def packed(ending: str, raw: bytes) -> Callable[[Path], Path]:
    def write(place: Path) -> Path:
        path = place / f"events.csv{ending}"
        path.write_bytes(raw)
        return path

    return write


def parquet_of_other_types(folder: Path) -> None:
    for part in folder.glob("*.csv"):
        part.unlink()
    FRAME.write_parquet(folder / "a.parquet")
    FRAME.with_columns(pl.col("who").reshape((-1, 1))).write_parquet(folder / "b.parquet")


def pipe(place: Path) -> Path:
    os.mkfifo(place / "events.csv.gz")
    return place / "events.csv.gz"


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a pattern without files": (lambda place: place / "no-*.csv", r"no-\*\.csv: no file matches the pattern"),
    "a folder without tables": (lambda place: place, "the folder holds no known data set and no table"),
    "a part without a column": (
        parts_with(lambda folder: (folder / "part-1.csv").write_bytes(text(FRAME.rename({"price": "prise"})))),
        r"part-1\.csv, column 'price': the column is missing, which part-0\.csv has; did you mean 'prise'\?",
    ),
    "a part with one column more": (
        parts_with(lambda folder: (folder / "part-2.csv").write_bytes(text(FRAME.with_columns(more=1)))),
        r"part-2\.csv, column 'more': there is a column that part-0\.csv does not have",
    ),
    "parts of other types": (
        parts_with(parquet_of_other_types),
        r"b\.parquet, column 'who': the column holds Array.* values here and Int64 values in a\.parquet",
    ),
    "two kinds of parts": (
        parts_with(lambda folder: FRAME.write_parquet(folder / "x.parquet")),
        "Parquet and text stand side by side",
    ),
    "a bad row in a later part": (
        parts_with(lambda folder: (folder / "part-1.csv").write_bytes(text(FRAME).replace(b"2.5", b"x"))),
        r"part-1\.csv, row 7, column 'price': 'x' is not a finite number",
    ),
    "a short row in a later part": (
        parts_with(lambda folder: (folder / "part-2.csv").write_bytes(text(FRAME) + b"7\n")),
        r"part-2\.csv, row 14: 1 field instead of 6",
    ),
    "a row that is in two parts": (
        parts_with(lambda folder: (folder / "part-1.csv").write_bytes(text(FRAME.slice(2, 4)))),
        r"part-1\.csv, row 2, column 'who': the same user, item and time as in row 4 of .*part-0\.csv",
    ),
    "a truncated .gz": (
        packed(".gz", gzip.compress(text(FRAME), mtime=0)[:-8]),
        rf"events\.csv\.gz, row {1 + FRAME.height}: the compressed file is damaged or cut short after this row",
    ),
    "a .gz of a few bytes": (
        packed(".gz", gzip.compress(text(FRAME))[:8]),
        r"events\.csv\.gz: the compressed file is damaged or cut short \(",
    ),
    "a truncated .zst": (packed(".zst", zstd(text(FRAME))[:-12]), r"events\.csv\.zst.*damaged or cut short"),
    "a .gz that is none": (packed(".gz", text(FRAME)), r"events\.csv\.gz: the compressed file is damaged"),
    "an empty .gz": (packed(".gz", b""), r"events\.csv\.gz: the file is empty"),
    "a pipe": (pipe, r"events\.csv\.gz: it cannot be read \(it is a named pipe"),
    "a device": (lambda _: Path("/dev/zero"), r"/dev/zero: it cannot be read \(it is a device"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_and_nothing_stays(tmp_path: Path, case: str) -> None:
    write, sentence = WRONG[case]
    source = write(tmp_path)
    with pytest.raises(DataError, match=sentence) as refusal:
        log_of(source, tmp_path)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "log").exists()
    problem = diagnose(source, TableSchema.read(tmp_path / "schema.yaml"))[0]
    assert str(refusal.value).startswith(str(problem))


@pytest.mark.parametrize(
    ("path", "name"), [("a/b.csv.gz", "b"), ("x/part-*.csv", "part"), ("days/*.parquet", "days"), ("v1.2.csv", "v1.2")]
)
def test_a_table_is_named_after_its_file(path: str, name: str) -> None:
    assert table_name(Path(path)) == name


BYTES = st.lists(
    st.sampled_from([b"a", b",", b"\n", b"\r\n", b'"', b'"x\ny"', b"\xff", b"1,2\n", b"\n\n", b"3,4\n5"]), max_size=25
)


@settings(deadline=None, max_examples=200)
@given(pieces=BYTES, size=st.sampled_from([1, 2, 7, 30]))
def test_blocks_are_the_whole_file(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], size: int) -> None:
    """Whatever the bytes: the same rows, lines and problems, in blocks as at once."""
    path = tmp_path_factory.mktemp("blocks") / "x.csv"
    path.write_bytes(b"k,v\n" + b"".join(pieces))
    whole, findings = read_delimited(path, separator=","), Findings()
    blocks = list(read_delimited_blocks(path, findings, separator=",", block_bytes=size))
    if whole.frame is None or whole.lines is None:
        assert findings.stopped
        assert findings.problems()[-1].what == whole.problems[-1].what
        return
    assert pl.concat([block.frame for block in blocks]).equals(whole.frame)
    assert pl.concat([block.lines for block in blocks]).to_list() == whole.lines.to_list()
    assert sorted(map(str, findings.problems())) == sorted(map(str, whole.problems))
