"""Pipes and devices in place of files: every command refuses them at once, with one sentence."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import polars as pl
import pytest
from resus_process import refused_here, resus_here, succeed_here

from resus.data.datasets.planted import PlantedWorld, draw_events

pytestmark = pytest.mark.integration

SCHEMA = "user: user\nitem: item\nlabel: click\ntime: time\nfields: {category: categorical}\n"
DOCTOR = ("doctor", "events.csv", "--schema", "schema.yaml")
PREPARE = ("prepare", "events.csv", "--schema", "schema.yaml", "--out", "new")
PREDICT = ("predict", "run", "--support", "events.csv", "--query", "query.csv")
PARQUET = ("predict", "run", "--support", "events.parquet", "--query", "query.parquet", "--out", "out.parquet")
EXPORT = ("export", "run", "--out", "export")
BOMB = "a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9))
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "events.csv": (DOCTOR, PREPARE, PREDICT),
    "events.parquet": (("doctor", "events.parquet", "--schema", "schema.yaml"), PARQUET),
    "query.csv": (PREDICT,),
    "query.parquet": (PARQUET,),
    "schema.yaml": (DOCTOR, PREPARE),
    "model.txt": ((*PREPARE, "--score-with", "model.txt"), (*PREDICT, "--score-with", "model.txt")),
    "ml.zip": (("prepare", "ml-1m", "--path", "ml.zip", "--out", "new"),),
    "ratings.dat": (("doctor", "ratings.dat"), ("prepare", "ml-1m", "--path", "ratings.dat", "--out", "new")),
    "config.yaml": (("train", "log", "--config", "config.yaml", "--out", "new"),),
    "titles.csv": ((*EXPORT, "--titles", "titles.csv"),),
    "log/users.arrow": (("train", "log", "--out", "new"), ("evaluate", "run"), ("doctor", "log"), EXPORT),
    "log/ids.npy": (("train", "log", "--out", "new"), ("warm-up", "run")),
    "log/manifest.json": (("train", "log", "--out", "new"), ("evaluate", "run")),
    "log/features.json": (("train", "log", "--out", "new"), ("doctor", "log")),
    "run/artifact.json": (
        PREDICT,
        EXPORT,
        ("evaluate", "run"),
        ("warm-up", "run"),
        ("serve", "run"),
        ("doctor", "run"),
    ),
    "run/model.safetensors": (PREDICT, EXPORT, ("evaluate", "run"), ("warm-up", "run"), ("serve", "run")),
    "run/results.json": (("report", "run/results.json"),),
}


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


ODD: dict[str, Callable[[Path], None]] = {"pipe": put_pipe, "device": put_device}


@pytest.fixture(autouse=True)
def _no_wait() -> Iterator[None]:
    """A command that waits for a pipe fails, instead of stopping the whole suite."""

    def waits(number: int, frame: FrameType | None) -> None:
        raise AssertionError("the command does not end")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def folder(workplace: Path, tmp_path: Path) -> Path:
    """A log, a run and a file of each kind."""
    shutil.copytree(workplace / "log", tmp_path / "log")
    shutil.copytree(workplace / "run", tmp_path / "run")
    rows = draw_events(PlantedWorld(users=10, items=20, events_per_user=5, seed=5)).drop("truth", "crowd")
    for name in ("events", "query"):
        rows.write_csv(tmp_path / f"{name}.csv")
        rows.write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_not_a_file_is_refused_at_once(folder: Path, name: str, kind: str) -> None:
    (folder / name).unlink(missing_ok=True)
    ODD[kind](folder / name)
    before = sorted(path.name for path in folder.iterdir())
    for words in COMMANDS[name]:
        done = resus_here(
            *words, *(("--data", "log") if words[0] in ("evaluate", "warm-up", "export") else ()), cwd=folder
        )
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        said = done.stdout if words[0] == "doctor" and done.stdout else done.stderr
        assert name.rpartition("/")[2] in said or "log" in said, (words, said)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_the_sentence_says_what_it_is(folder: Path) -> None:
    (folder / "events.csv").unlink()
    os.mkfifo(folder / "events.csv")
    assert "events.csv: it cannot be read (it is a named pipe, not a regular file)" in refused_here(
        *PREPARE, cwd=folder
    )


@pytest.mark.parametrize("out", [(), ("--out", "scores.csv"), ("--out", "scores.tsv")])
def test_a_column_of_lists_is_not_written_as_csv(folder: Path, out: tuple[str, ...]) -> None:
    rows = pl.read_parquet(folder / "query.parquet").with_columns(tags=pl.lit(["a", "b"], pl.List(pl.String)))
    rows.write_parquet(folder / "query.parquet")
    words = ("predict", "run", "--support", "events.csv", "--query", "query.parquet")
    said = refused_here(*words, *out, cwd=folder)
    assert "the column 'tags' holds list values, which CSV cannot hold" in said
    assert "--out FILE.parquet" in said
    succeed_here(*words, "--out", "scores.parquet", cwd=folder)
    assert pl.read_parquet(folder / "scores.parquet")["tags"].to_list()[0] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (BOMB, "values"),
        ("&a {user: *a}\n", "values"),
        ("[" * 5000, "nested too deeply"),
        ("x" * (1 << 21), "bytes, more than"),
    ],
)
def test_a_schema_that_never_ends_is_one_sentence(folder: Path, content: str, told: str) -> None:
    (folder / "schema.yaml").write_text(content)
    (folder / "config.yaml").write_text(content)
    assert told in refused_here(*PREPARE, cwd=folder)
    assert told in refused_here("train", "log", "--config", "config.yaml", "--out", "new", cwd=folder)


def test_a_parquet_file_of_more_rows_than_memory_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resus.data.readers.files.memory_bytes", lambda: 100)
    words = ("prepare", "events.parquet", "--schema", "schema.yaml", "--out", "new")
    assert "rows do not fit in memory" in refused_here(*words, cwd=folder)


@pytest.mark.parametrize("name", ["catalogue.arrow", "model.safetensors", "test-users.json", "artifact.json"])
def test_a_flipped_bit_in_an_export_stops_the_start(exported: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(exported, tmp_path / "export")
    content = bytearray((tmp_path / "export" / name).read_bytes())
    content[len(content) // 2] ^= 2
    (tmp_path / "export" / name).write_bytes(content)
    assert f"export/{name}" in refused_here("serve", "export", "--port", "0", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"format": 2, "resus": "1", "history": 3}', "{"])
def test_a_report_of_bent_facts_is_one_sentence(folder: Path, content: str) -> None:
    succeed_here("evaluate", "run", "--data", "log", "--draws", "0", cwd=folder)
    (folder / "run" / "artifact.json").write_text(content)
    assert "artifact.json" in refused_here("report", "run", cwd=folder)
