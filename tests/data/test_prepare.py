import hashlib
import os
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resus.data import sources
from resus.data.datasets import DATA_SETS
from resus.data.doctor import diagnose
from resus.data.log.log import InteractionLog
from resus.data.log.manifest import FileFacts
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log
from resus.data.readers import tables
from resus.data.schema import TableSchema
from resus.errors import ConfigError, DataError

SCHEMA = """
user: who
item: what
label: click
time: at
fields: {price: numeric, tags: multi}
"""
TABLE = "who,what,click,at,price,tags\n" + "".join(
    f'{row % 3},"i,{row % 4}",{row % 2},2024-01-{20 - row:02d},{row / 2},a|t{row}\n' for row in range(12)
)
ZIP_ROWS = {
    "ml-1m/ratings.dat": "1::7::5::3\n1::8::1::4\n2::7::2::3\n",
    "ml-1m/users.dat": "1::F::1::10::1\n2::M::18::2::1\n",
    "ml-1m/movies.dat": "7::A (1990)::War\n8::B (1991)::War\n",
    "ml-1m/README": "not wanted",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA)
    return path


def test_csv_and_parquet_give_the_same_log(table: Path, schema: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(table, try_parse_dates=True).with_columns(pl.col("tags").str.split("|"))
    frame.write_parquet(tmp_path / "events.parquet")
    from_csv = prepare_log(str(table), tmp_path / "a", schema=schema)
    from_parquet = prepare_log(str(tmp_path / "events.parquet"), tmp_path / "b", schema=schema)
    assert from_csv.content_hash == from_parquet.content_hash
    assert from_csv.user_ids.to_pylist() == ["0", "1", "2"]
    assert from_csv.labels.tolist() == [float(row % 2) for user in range(3) for row in range(9 + user, -1, -3)]


def test_the_manifest_says_what_was_done(table: Path, schema: Path, tmp_path: Path) -> None:
    log = prepare_log(str(table), tmp_path / "log", schema=schema, options=PrepareOptions(min_count=2))
    manifest = log.manifest
    assert manifest.name == "events"
    digest = hashlib.sha256(TABLE.encode()).hexdigest()
    assert manifest.files == (FileFacts(path=str(table), bytes=len(TABLE), sha256=digest),)
    assert manifest.options is not None
    assert manifest.options.min_count == 2
    assert manifest.counts is not None
    assert manifest.counts.rows == 12
    assert manifest.counts.fields == {"what": 4, "price": "numeric", "tags": 1}
    assert not log.ids.flags.owndata


def test_asked_for_the_same_again_nothing_is_read(
    table: Path, schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def counted(path: Path, *rest: Any, **named: Any) -> Any:
        reads.append(path)
        return tables.read_table(path, *rest, **named)

    monkeypatch.setattr(sources, "read_table", counted)
    run = partial(prepare_log, str(table), tmp_path / "log", schema=schema)
    first, again = run(), run()
    assert (first.content_hash, len(reads)) == (again.content_hash, 1)
    run(options=PrepareOptions(min_count=2))
    assert len(reads) == 2
    os.utime(table, ns=(1, 1))
    run(options=PrepareOptions(min_count=2))
    assert len(reads) == 3
    schema.write_text(SCHEMA.replace("fields", "label_threshold: 1\nfields"))
    run(options=PrepareOptions(min_count=2))
    assert len(reads) == 4
    (tmp_path / "log" / "ids.npy").write_bytes(b"damaged")
    assert run(options=PrepareOptions(min_count=2)).n_rows == 12
    assert len(reads) == 5


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_not_a_log_is_not_replaced(table: Path, schema: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path if kind == "folder" else table
    with pytest.raises(ConfigError, match="choose"):
        prepare_log(str(table), out, schema=schema)
    assert table.read_text() == TABLE


def test_sources_and_settings_that_make_no_sense(table: Path, schema: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no data set 'ml-1n': did you mean 'ml-1m'\? .*ml-1m, frappe, taobao"):
        prepare_log("ml-1n", tmp_path / "log")
    with pytest.raises(ConfigError, match=r"'ml-1m' .*schema"):
        prepare_log("ml-1m", tmp_path / "log", schema=schema, path=tmp_path)
    with pytest.raises(ConfigError, match="is a path already"):
        prepare_log(str(table), tmp_path / "log", path=tmp_path)
    with pytest.raises(ConfigError, match="'protocol' has no effect"):
        prepare_log(str(table), tmp_path / "log", schema=schema, options=PrepareOptions(protocol="authors-release"))
    with pytest.raises(DataError, match=r"no\.csv: the file does not exist"):
        prepare_log(str(tmp_path / "no.csv"), tmp_path / "log", schema=schema)
    with pytest.raises(DataError, match=r"no schema says .*label: click"):
        prepare_log(str(table), tmp_path / "log")
    with pytest.raises(DataError, match=r"ratings\.dat: the file does not exist"):
        prepare_log("ml-1m", tmp_path / "log", path=tmp_path)
    with pytest.raises(DataError, match="no event"):
        prepare_log(str(table), tmp_path / "log", schema=schema, options=PrepareOptions(min_item_count=100))
    assert not (tmp_path / "log").exists()


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_table_is_diagnosed_and_refused_alike(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever bytes are cut, overwritten or put in: one sentence, and the same verdict from doctor and prepare."""
    damaged = bytearray(TABLE.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(damaged)))
        end = start + data.draw(st.sampled_from([0, 1, 3, 1000]))
        damaged[start:end] = data.draw(
            st.sampled_from([b"", b",", b"\n", b'"', b"\xff", b"\0", b"nan", b"\r\n", b"\r", b";;"])
        )
    path, schema = tmp_path / "events.csv", tmp_path / "schema.yaml"
    path.write_bytes(damaged)
    schema.write_text(SCHEMA)
    problems = diagnose(path, TableSchema.read(schema))
    if not problems:
        assert isinstance(prepare_log(str(path), tmp_path / "log", schema=schema), InteractionLog)
        return
    with pytest.raises(DataError) as refusal:
        prepare_log(str(path), tmp_path / "log", schema=schema)
    assert str(refusal.value).startswith(str(problems[0]))
    assert "\n" not in str(refusal.value)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 2000), flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), max_size=3))
def test_a_damaged_parquet_file_is_a_problem_or_readable(
    tmp_path: Path, cut: int, flips: list[tuple[int, int]]
) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"who": ["a", "a"], "what": ["x", "y"], "click": [0, 1], "at": [1, 2]}).write_parquet(path)
    whole = path.read_bytes()
    schema = TableSchema(user="who", item="what", label="click", time="at")
    assert diagnose(path, schema) == []
    path.write_bytes(whole[: cut % len(whole)])
    (problem,) = diagnose(path, schema)
    assert "not a whole Parquet file" in problem.what
    flipped = bytearray(whole)
    for place, bits in flips:
        flipped[place % len(whole)] ^= bits
    path.write_bytes(flipped)
    assert {problem.where for problem in diagnose(path, schema)} <= {str(path)}


def test_the_publishers_archive_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    with zipfile.ZipFile(site / "ml-1m.zip", "w") as archive:
        for name, text in ZIP_ROWS.items():
            archive.writestr(name, text)
    checksum = f"md5:{hashlib.md5((site / 'ml-1m.zip').read_bytes()).hexdigest()}"
    monkeypatch.setenv("RESUS_CACHE", str(tmp_path / "cache"))

    data_set = replace(DATA_SETS["ml-1m"], url=(site / "ml-1m.zip").as_uri(), checksum=checksum)
    monkeypatch.setitem(DATA_SETS, "ml-1m", data_set)
    steps: list[tuple[str, int, int | None]] = []
    options = PrepareOptions(min_item_count=1)
    run = partial(prepare_log, "ml-1m", options=options, progress=lambda *step: steps.append(step))
    fetched = run(tmp_path / "log")
    monkeypatch.setitem(DATA_SETS, "ml-1m", replace(data_set, url="file:///gone.zip"))
    assert steps[-1][0] == "ml-1m.zip"
    again = run(tmp_path / "other")
    by_hand = prepare_log("ml-1m", tmp_path / "third", path=site / "ml-1m.zip", options=options)
    assert fetched.content_hash == again.content_hash == by_hand.content_hash
    assert np.array_equal(fetched.lengths, [2, 1])
    cached = {path.relative_to(tmp_path / "cache").as_posix() for path in (tmp_path / "cache" / "ml-1m").rglob("*")}
    assert cached == {"ml-1m/ratings.dat", "ml-1m/users.dat", "ml-1m/movies.dat"}


def test_an_unpacked_archive_is_found_inside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "ml-1m").mkdir()
    for name, text in ZIP_ROWS.items():
        (tmp_path / name).write_text(text)
    options = PrepareOptions(min_item_count=1)
    places = [tmp_path, tmp_path / "ml-1m", tmp_path / "ml-1m" / "ratings.dat"]
    hashes = {
        prepare_log("ml-1m", tmp_path / f"log{n}", path=place, options=options).content_hash
        for n, place in enumerate(places)
    }
    assert len(hashes) == 1
