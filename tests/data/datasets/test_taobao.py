"""Taobao: the log that is streamed is the log that would be built in memory, or the strict reader has the word."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from taobao_files import in_memory_log, write_files

from resus.data.datasets.base import PUBLISHED_DEFAULTS
from resus.data.datasets.taobao.stream import events_of
from resus.data.doctor import diagnose
from resus.data.log.log import InteractionLog
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log
from resus.data.stream.log import Sizes, log_rows, sort_events
from resus.errors import ConfigError, DataError, DownloadError
from resus.progress import silent

UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]  # to shrink files takes minutes
OPTIONS = st.builds(
    PrepareOptions,
    min_item_count=st.integers(1, 6),
    min_count=st.integers(1, 4),
    duplicates=st.sampled_from(["keep", "first", "last", "error"]),
    single_events=st.sampled_from(["keep", "drop", "error"]),
    user_field=st.booleans(),
)


def streamed(folder: Path, out: Path, options: PrepareOptions, block_bytes: int, sizes: Sizes) -> InteractionLog:
    spill = out / "spill"
    spill.mkdir(parents=True)
    events, build = events_of(folder, options, block_bytes=block_bytes), options.build_options(PUBLISHED_DEFAULTS)
    log_rows(sort_events(events, build, spill, silent, sizes), spill, silent).write(out)
    return InteractionLog.open(out)


def outcome(make: Callable[[], InteractionLog]) -> InteractionLog | str:
    try:
        return make()
    except DataError as error:
        return str(error)


def assert_same(one: InteractionLog, other: InteractionLog) -> None:
    assert one.features == other.features
    assert one.user_ids.to_pylist() == other.user_ids.to_pylist()
    for part in ("ids", "labels", "offsets", "truth", "crowd"):
        assert np.array_equal(getattr(one, part), getattr(other, part)), part
    assert one.content_hash == other.content_hash


@settings(deadline=None, max_examples=50, phases=UNSHRUNK, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), options=OPTIONS)
def test_streamed_is_in_memory(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, options: PrepareOptions
) -> None:
    place = tmp_path_factory.mktemp("taobao")
    folder = write_files(
        place / "files",
        data.draw(st.integers(0, 10**6)),
        data.draw(st.integers(2, 40)),
        end=data.draw(st.sampled_from(["\n", "\r\n"])),
        last_end=data.draw(st.booleans()),
        truth=data.draw(st.booleans()),
    )
    block_bytes = data.draw(st.sampled_from([1, 60, 500, 10**6]))
    sizes = Sizes(in_memory=data.draw(st.sampled_from([0, 10**6])), block_rows=data.draw(st.integers(1, 50)))
    expected = outcome(lambda: in_memory_log(folder, options))
    found = outcome(lambda: streamed(folder, place / "log", options, block_bytes, sizes))
    problems = diagnose(folder, options=options)
    if problems:
        assert "error" in (options.duplicates, options.single_events)
        assert str(found).startswith(str(problems[0]))
        return
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        assert_same(found, expected)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "files", seed=1, rows=40)


def edit(path: Path, change: Callable[[list[bytes]], object]) -> None:
    lines = path.read_bytes().split(b"\n")
    change(lines)
    path.write_bytes(b"\n".join(lines))


def put(line: int, cells: bytes) -> Callable[[list[bytes]], object]:
    return lambda lines: lines.__setitem__(line - 1, cells)


READABLE: dict[str, Callable[[list[bytes]], object]] = {
    "quoted": put(5, b'"7",1494000000,"9",430548_1007,1,0'),
    "a leading zero is another user": put(5, b"007,1494000000,9,430548_1007,1,0"),
    "a time that is not whole": put(5, b"7,1494000000.5,9,430548_1007,1,0"),
    "a label with a point": put(5, b"7,1494000000,9,430548_1007,1,0.0"),
    "a user by name": put(5, b"somebody,1494000000,9,430548_1007,1,0"),
    "a blank line": lambda lines: lines.insert(4, b""),
    "a mark of UTF-8": lambda lines: lines.__setitem__(0, b"\xef\xbb\xbf" + lines[0]),
    "columns in another order": lambda lines: lines.__setitem__(
        slice(None), [b",".join(line.split(b",")[::-1]) for line in lines]
    ),
}


@pytest.mark.parametrize("case", READABLE)
def test_an_unusual_file_is_read_all_the_same(folder: Path, tmp_path: Path, case: str) -> None:
    edit(folder / "raw_sample.csv", READABLE[case])
    options = PrepareOptions(min_item_count=1)
    assert diagnose(folder) == []
    assert_same(prepare_log("taobao", tmp_path / "log", path=folder, options=options), in_memory_log(folder, options))


WRONG: dict[str, tuple[str, Callable[[list[bytes]], object], int | None, str]] = {
    "too few cells": ("raw_sample", put(35, b"7,1494000000,9,430548_1007,1"), 35, "5 fields instead of 6"),
    "too many cells": ("raw_sample", put(35, b"7,1494000000,9,430548_1007,1,0,0"), 35, "7 fields instead of 6"),
    "no user": ("raw_sample", put(35, b",1494000000,9,430548_1007,1,0"), 35, "the user is empty"),
    "a label of 2": ("raw_sample", put(35, b"7,1494000000,9,430548_1007,1,2"), 35, "the label '2' is neither 0 nor 1"),
    "no time": ("raw_sample", put(35, b"7,noon,9,430548_1007,1,0"), 35, "'noon' is neither a number nor a date"),
    "an ad that is not listed": ("raw_sample", put(35, b"7,1494000000,5555,430548_1007,1,0"), None, "not listed"),
    "zero bytes": ("raw_sample", put(35, b"7,1494000000,9,4305\x0048_1007,1,0"), 35, "zero bytes"),
    "another encoding": ("raw_sample", put(35, b"7,1494000000,9,caf\xe9,1,0"), 35, "the byte 0xe9 is not UTF-8"),
    "a cut": ("raw_sample", lambda lines: lines.__setitem__(slice(34, None), [b"7,14940"]), 35, "is cut short"),
    "no column": ("raw_sample", lambda lines: lines.__setitem__(0, lines[0][:-3] + b"clicks"), 1, "no such column"),
    "nothing": ("raw_sample", lambda lines: lines.clear(), None, "the file is empty"),
    "a header alone": ("raw_sample", lambda lines: lines.__setitem__(slice(1, None), [b""]), None, "no row of data"),
    "no click": (
        "raw_sample",
        lambda lines: lines.__setitem__(slice(1, None), [line[:-3] + b"1,0" for line in lines[1:] if line]),
        None,
        "every label is 0",
    ),
    "an ad listed twice": ("ad_feature", lambda lines: lines.insert(2, lines[1]), 3, "is listed twice"),
    "a profile listed twice": ("user_profile", lambda lines: lines.insert(2, lines[1]), 3, "is listed twice"),
    "no profiles": ("user_profile", lambda lines: lines.clear(), None, "the file is empty"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_row(folder: Path, tmp_path: Path, case: str) -> None:
    file, change, row, what = WRONG[case]
    edit(folder / f"{file}.csv", change)
    first = diagnose(folder)[0]
    assert (first.row, Path(first.where).suffix) == (row, ".csv")
    assert what in first.what
    with pytest.raises(DataError) as refusal:
        prepare_log("taobao", tmp_path / "log", path=folder)
    assert str(refusal.value).startswith(str(first))
    assert {path.name for path in tmp_path.iterdir()} == {"files"}


@settings(deadline=None, max_examples=50, phases=UNSHRUNK, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_diagnosed_and_refused_alike(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever bytes are cut, overwritten or put in: one sentence, or the log that a computation in memory gives."""
    place = tmp_path_factory.mktemp("damaged")
    folder = write_files(place / "files", seed=data.draw(st.integers(0, 50)), rows=12)
    path = folder / data.draw(st.sampled_from(["raw_sample.csv", "raw_sample.csv", "ad_feature.csv"]))
    damaged = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(damaged)))
    end = start + data.draw(st.sampled_from([0, 1, 3, 1000]))
    damaged[start:end] = data.draw(st.sampled_from([b"", b",", b"\n", b'"', b"\xff", b"\0", b"0", b" ", b"+", b"\r\n"]))
    path.write_bytes(damaged)
    options = PrepareOptions(min_item_count=1)
    problems = diagnose(folder, options=options)
    if problems:
        with pytest.raises(DataError) as refusal:
            prepare_log("taobao", place / "log", path=folder, options=options)
        assert str(refusal.value).startswith(str(problems[0]))
        return
    log = prepare_log("taobao", place / "log", path=folder, options=options)
    assert_same(log, in_memory_log(folder, options))


@pytest.mark.parametrize("change", ["short", "long", "flat", "cut"])
def test_a_truth_that_does_not_fit_is_refused(tmp_path: Path, change: str) -> None:
    folder = write_files(tmp_path / "files", seed=1, rows=40, truth=True)
    path = folder / "truth.npy"
    rows = {"short": (39, 2), "long": (41, 2), "flat": (40,), "cut": (40, 2)}[change]
    np.save(path, np.full(rows, 0.5, dtype=np.float32))
    if change == "cut":
        path.write_bytes(path.read_bytes()[:-4])
    (problem,) = diagnose(folder)
    assert problem.where == str(path)
    with pytest.raises(DataError, match=r"truth\.npy"):
        prepare_log("taobao", tmp_path / "log", path=folder)


def test_both_ways_say_the_same_of_the_log(tmp_path: Path) -> None:
    manifests = []
    for name in ("plain", "quoted"):
        folder = write_files(tmp_path / name, seed=1, rows=40, truth=True)
        if name == "quoted":
            edit(folder / "raw_sample.csv", lambda lines: lines.__setitem__(0, b'"user"' + lines[0][4:]))
        log = prepare_log("taobao", tmp_path / "log", path=folder, options=PrepareOptions(min_item_count=1))
        manifests.append(log.manifest.model_dump(exclude={"files", "request", "sides"}))
    assert manifests[0] == manifests[1]


def test_values_of_dropped_rows_only_leave_no_trace(folder: Path, tmp_path: Path) -> None:
    with (folder / "raw_sample.csv").open("a") as stream:
        stream.write("99999,1494000001,1234567,999999_1007,1,0\n")
    options = PrepareOptions(min_item_count=2, single_events="drop", user_field=True)
    expected = in_memory_log(folder, options)
    assert "99999" not in expected.user_ids.to_pylist()
    assert_same(prepare_log("taobao", tmp_path / "log", path=folder, options=options), expected)


def test_the_truth_goes_into_the_log(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "files", seed=1, rows=40, truth=True)
    options = PrepareOptions(min_item_count=1)
    log = prepare_log("taobao", tmp_path / "log", path=folder, options=options)
    assert_same(log, in_memory_log(folder, options))
    assert (log.name, log.data_set) == ("planted-taobao", "taobao")
    assert {Path(file.path) for file in log.manifest.files} == set(folder.iterdir())


def test_asked_for_the_same_again_nothing_is_read(folder: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, str]] = []

    def note(task: str, done: int, total: int | None, unit: str = "") -> None:
        steps.append((task, unit))

    options = PrepareOptions(min_item_count=1)
    first = prepare_log("taobao", tmp_path / "log", path=folder, options=options, progress=note)
    assert {unit for _, unit in steps} == {"rows"}
    tasks = len(steps)
    again = prepare_log("taobao", tmp_path / "log", path=folder, options=options, progress=note)
    assert (first.content_hash, len(steps)) == (again.content_hash, tasks)
    with_user = PrepareOptions(min_item_count=1, user_field=True)
    log = prepare_log("taobao", tmp_path / "log", path=folder, options=with_user, progress=note)
    assert len(log.features.fields) == 16


def test_a_killed_prepare_leaves_nothing_behind(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task == "writing the log":
            raise KeyboardInterrupt

    options = PrepareOptions(min_item_count=1)
    with pytest.raises(KeyboardInterrupt):
        prepare_log("taobao", tmp_path / "log", path=folder, options=options, progress=interrupt)
    assert {path.name for path in tmp_path.iterdir()} == {"files"}


def test_the_price_is_in_bins(folder: Path, tmp_path: Path) -> None:
    log = prepare_log("taobao", tmp_path / "log", path=folder, options=PrepareOptions(min_item_count=1))
    bins = {str(math.floor(math.log(max(price, 1)) ** 2)) for price in (170.0, 0.5, 99999999.0, 12)}
    assert 1 < len(set(log.features.block("price").field.values)) <= len(bins)
    assert set(log.features.block("price").field.values) <= bins
    assert "NULL" not in log.features.block("brand").field.values


def test_it_cannot_be_fetched_and_has_no_protocol(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESUS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DownloadError, match=r"needs a login at https://tianchi.*path="):
        prepare_log("taobao", tmp_path / "log")
    with pytest.raises(ConfigError, match="'negatives' has no effect for 'taobao'"):
        prepare_log("taobao", tmp_path / "log", path=folder, options=PrepareOptions(negatives=5))
