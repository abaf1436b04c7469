"""Streams of other libraries become the same log as the table in memory; what breaks off is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import resus
from resus.data import sources
from resus.data.doctor import examine
from resus.data.prepare import prepare_log
from resus.errors import DataError

SCHEMA: dict[str, Any] = {
    "user": "who",
    "item": "what",
    "label": "click",
    "time": "at",
    "fields": {"price": "numeric", "tags": "multi"},
    "items": {"frame": pl.DataFrame({"what": [0, 1, 2, 3], "kind": list("abca")}), "fields": {"kind": "categorical"}},
}
FRAME = pl.DataFrame(
    {
        "who": [row % 3 for row in range(24)],
        "what": [row % 4 for row in range(24)],
        "click": [row % 2 for row in range(24)],
        "at": [row // 13 for row in range(24)],
        "price": [row / 2 for row in range(24)],
        "tags": [f"a|t{row % 5}" for row in range(24)],
        "unused": ["x"] * 24,
    }
)


def relation(frame: pl.DataFrame) -> Any:
    return duckdb.connect().from_arrow(frame.to_arrow())


STREAMS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "a lazy frame": lambda frame: frame.lazy(),
    "an Arrow reader": lambda frame: pa.RecordBatchReader.from_batches(
        frame.to_arrow().schema, frame.to_arrow().to_batches(5)
    ),
    "a DuckDB relation": relation,
    "a query": lambda frame: relation(frame).filter("who >= 0"),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_gives_the_log_of_the_table(tmp_path: Path, kind: str) -> None:
    expected = resus.build_log(FRAME, SCHEMA, duplicates="keep")
    log = resus.prepare(STREAMS[kind](FRAME), tmp_path / "log", schema=SCHEMA, duplicates="keep")
    assert log.content_hash == expected.content_hash
    assert resus.build_log(STREAMS[kind](FRAME), SCHEMA, duplicates="keep").content_hash == expected.content_hash


def test_what_is_wrong_with_a_stream_is_named(tmp_path: Path) -> None:
    bad = FRAME.with_columns(click=pl.when(pl.int_range(24) == 7).then(2).otherwise("click"))
    with pytest.raises(DataError, match="the table, row 8, column 'click': the label 2 is neither 0 nor 1"):
        resus.prepare(bad.lazy(), tmp_path / "log", schema=SCHEMA, duplicates="keep")
    with pytest.raises(DataError, match="column 'price': there is no such column"):
        resus.prepare(FRAME.drop("price").lazy(), tmp_path / "log", schema=SCHEMA)
    gone = pl.scan_csv(tmp_path / "gone.csv")
    with pytest.raises(DataError, match="the table: the stream broke off"):
        resus.prepare(gone, tmp_path / "log", schema=SCHEMA)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_large_parts_are_streamed_and_judged_as_small_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(FRAME.iter_slices(9)):
        path = tmp_path / "parts" / f"{number}.{kind}"
        part.write_csv(path) if kind == "csv" else part.write_parquet(path)
    options = resus.PrepareOptions(duplicates="keep")
    small = prepare_log(str(tmp_path / "parts"), tmp_path / "small", schema=SCHEMA, options=options)
    monkeypatch.setattr(sources, "STREAMED_BYTES", 0)
    large = prepare_log(str(tmp_path / "parts"), tmp_path / "large", schema=SCHEMA, options=options)
    assert large.manifest.model_dump(exclude={"request"}) == small.manifest.model_dump(exclude={"request"})
    schema = resus.TableSchema.model_validate(SCHEMA)
    assert examine(tmp_path / "parts", schema, options) == ([], [])
    refusals = []
    for limit in (0, 1 << 30):
        monkeypatch.setattr(sources, "STREAMED_BYTES", limit)
        refusals.append(str(examine(tmp_path / "parts", schema).problems[0]))
    assert "the same user, item and time as in row" in refusals[0]
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("dates_first", [True, False])
def test_parts_whose_times_are_numbers_and_dates_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dates_first: bool
) -> None:
    numbers = FRAME.with_columns(at=pl.col("at").cast(pl.String) if not dates_first else pl.col("at"))
    days = FRAME.with_columns(at=pl.date(2024, 1, 1 + pl.col("at")))
    days = days.with_columns(pl.col("at").cast(pl.String)) if dates_first else days
    parts = (days, numbers) if dates_first else (numbers, days)
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(parts):
        part.write_parquet(tmp_path / "parts" / f"{number}.parquet")
    kinds = "a number where earlier rows have dates" if dates_first else "a date where earlier rows have numbers"
    for limit in (1 << 30, 0):
        monkeypatch.setattr(sources, "STREAMED_BYTES", limit)
        (problem, *_) = examine(tmp_path / "parts", resus.TableSchema.model_validate(SCHEMA)).problems
        assert str(problem).startswith(f"{tmp_path}/parts/1.parquet, row 1, column 'at': ")
        assert f"is {kinds}" in str(problem)


def test_a_column_that_a_side_table_has_too_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a model would learn from one of them, and `predict` would read the other."""
    clash = FRAME.with_columns(kind=pl.lit("x"))
    said = "column 'kind': the events and the table of items both have this column; rename one of them, or move"
    for table in (clash, clash.lazy()):
        with pytest.raises(DataError, match=said):
            resus.prepare(table, tmp_path / "log", schema=SCHEMA, duplicates="keep")
    clash.write_csv(tmp_path / "events.csv")
    clash.write_parquet(tmp_path / "events.parquet")
    for limit in (1 << 30, 0):
        monkeypatch.setattr(sources, "STREAMED_BYTES", limit)
        for name in ("events.csv", "events.parquet"):
            with pytest.raises(DataError, match=said):
                resus.prepare(tmp_path / name, tmp_path / "log", schema=SCHEMA, duplicates="keep")
