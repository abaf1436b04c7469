"""Every mistake gives exit code 2 and one sentence that names the cause, and leaves the folder unchanged."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from resus_process import SMALL, resus, resus_here

from resus.cli.main import main

pytestmark = pytest.mark.integration

SCHEMA = "user: who\nitem: what\nlabel: click\ntime: at\nfields: {price: numeric}\n"
LINES = ["who,what,click,at,price", *(f"u{row % 4},i{row % 5},{row % 2},{row},{row}.5" for row in range(40))]
PREPARE = ("prepare", "events.csv", "--schema", "schema.yaml", "--out", "log")
TRAIN = ("train", "log", *SMALL, "--out", "run")


@dataclass(frozen=True)
class Mistake:
    """A command, the words its message must hold, and how to spoil the folder first."""

    words: tuple[str, ...]
    wanted: tuple[str, ...]
    spoil: Callable[[Path], object] = lambda _: None


def line(number: int, text: str) -> Callable[[Path], object]:
    """Replace one line of the events; line 1 is the header."""
    return lambda folder: (folder / "events.csv").write_text(
        "\n".join([*LINES[: number - 1], text, *LINES[number:]]) + "\n"
    )


def events(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / "events.csv").write_bytes(change((folder / "events.csv").read_bytes()))


def schema(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "schema.yaml").write_text(text)


IN_DATA = {
    "missing file": Mistake(
        PREPARE, ("events.csv", "does not exist", "check the path"), lambda f: (f / "events.csv").unlink()
    ),
    "truncated file": Mistake(PREPARE, ("events.csv", "row 41"), events(lambda content: content[:-7])),
    "empty file": Mistake(PREPARE, ("events.csv",), events(lambda _: b"")),
    "wrong separator": Mistake(PREPARE, ("events.csv", "';'"), events(lambda content: content.replace(b",", b";"))),
    "wrong encoding": Mistake(
        PREPARE, ("events.csv", "row 2", "UTF-8"), events(lambda c: c.replace(b"u0", b"\xe9", 1))
    ),
    "label of 2": Mistake(PREPARE, ("row 3", "'click'", "'2'", "0 or 1"), line(3, "u1,i1,2,1,1.5")),
    "label of nan": Mistake(PREPARE, ("row 3", "'click'"), line(3, "u1,i1,nan,1,1.5")),
    "number that is not one": Mistake(
        PREPARE,
        ("row 3", "'price'", "write a number"),
        line(3, "u1,i1,1,1,cheap"),
    ),
    "empty user": Mistake(PREPARE, ("row 3", "'who'", "the user is empty"), line(3, ",i1,1,1,1.5")),
    "duplicate events": Mistake(PREPARE, ("row 4", "as in row 3", "duplicates"), line(4, LINES[2])),
    "user with a single row": Mistake(PREPARE, ("row 3", "'lonely'", "single_events"), line(3, "lonely,i1,1,1,1.5")),
    "all labels equal": Mistake(
        PREPARE,
        ("'click'", "every label is 1"),
        lambda folder: (folder / "events.csv").write_text(
            "\n".join([LINES[0], *(f"u{row % 4},i{row % 5},1,{row},1.5" for row in range(40))])
        ),
    ),
    "missing column": Mistake(PREPARE, ("'price'", "did you mean 'prise'"), line(1, "who,what,click,at,prise")),
    "schema of a wrong key": Mistake(
        PREPARE, ("schema.yaml", "did you mean 'label'"), schema(SCHEMA.replace("label", "lable"))
    ),
    "schema that is not YAML": Mistake(PREPARE, ("schema.yaml", "not valid YAML"), schema("user: [who\nitem: what: x")),
    "schema missing": Mistake(PREPARE, ("schema.yaml", "check the path"), lambda f: (f / "schema.yaml").unlink()),
    "no schema": Mistake(("prepare", "events.csv", "--out", "log"), ("events.csv", "--schema", "label: click")),
    "unknown data set": Mistake(("prepare", "ml-2m", "--out", "log"), ("'ml-2m'", "did you mean 'ml-1m'")),
    "unknown option": Mistake((*PREPARE, "--set", "min_counts=3"), ("did you mean 'min_count'",)),
    "unknown planted option": Mistake(("prepare", "planted", "--set", "user=30"), ("did you mean 'users'",)),
    "planted world from a file": Mistake(("prepare", "planted", "--schema", "schema.yaml"), ("--schema",)),
    "folder with other files": Mistake(
        ("prepare", "planted", "--set", "users=20", "--out", "."), ("events.csv", "choose another")
    ),
    "out is a file": Mistake((*PREPARE[:-1], "events.csv"), ("events.csv", "choose")),
}
IN_SETTINGS = {
    "unknown model": Mistake((*TRAIN, "--predictor", "deepfn"), ("'predictor.kind'", "'deepfn'", "'deepfm'")),
    "unknown key": Mistake((*TRAIN, "--set", "training.epoch=2"), ("did you mean 'training.epochs'",)),
    "assignment without value": Mistake((*TRAIN, "--set", "training.epochs"), ("'training.epochs'", "key=value")),
    "config file missing": Mistake((*TRAIN, "--config", "no.yaml"), ("no.yaml", "check the path")),
    "config file wrong": Mistake((*TRAIN, "--config", "events.csv"), ("events.csv",)),
    "no log": Mistake(("train", "nowhere"), ("nowhere", "resus prepare nowhere")),
    "table instead of a log": Mistake(("train", "events.csv"), ("events.csv", "resus prepare events.csv --schema")),
    "protocol of another data set": Mistake(
        ("train", "small", "--protocol", "authors-release"), ("small", "authors-release", "made for MovieLens")
    ),
    "no such results": Mistake(("report", "nowhere"), ("nowhere", "check the path")),
    "scores as a spreadsheet": Mistake(
        ("predict", "run", "--support", "events.csv", "--query", "events.csv", "--out", "x.xlsx"),
        ("x.xlsx", ".parquet"),
    ),
    "unknown part": Mistake(("evaluate", "run", "--part", "train"), ("'train'", "test or validation")),
    "few draws": Mistake(("evaluate", "run", "--draws", "5"), ("5 draws", "at least 40", "or 0")),
    "many draws": Mistake(("evaluate", "run", "--draws", "100001"), ("100,001 draws", "at most 100,000")),
    "no results": Mistake(("report", "."), ("results.json", "resus evaluate", "warm-up.json", "resus warm-up")),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events.csv").write_text("\n".join(LINES) + "\n")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


def listing(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


def one_sentence(done: subprocess.CompletedProcess[str], wanted: tuple[str, ...]) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    sentences = [text for text in done.stderr.splitlines() if not text.endswith("…")]
    assert len(sentences) == 1, done.stderr
    assert sentences[0].startswith("resus: ")
    for word in wanted:
        assert word in sentences[0], sentences[0]


def refused_without_a_trace(folder: Path, words: tuple[object, ...], wanted: tuple[str, ...]) -> None:
    before = listing(folder)
    one_sentence(resus_here(*words, cwd=folder), wanted)
    assert listing(folder) == before


@pytest.mark.parametrize("mistake", IN_DATA.values(), ids=IN_DATA)
def test_a_mistake_in_the_data(mistake: Mistake, folder: Path) -> None:
    mistake.spoil(folder)
    refused_without_a_trace(folder, mistake.words, mistake.wanted)


@pytest.mark.parametrize("mistake", IN_SETTINGS.values(), ids=IN_SETTINGS)
def test_a_mistake_in_the_settings(mistake: Mistake, folder: Path, workplace: Path) -> None:
    shutil.copytree(workplace / "log", folder / "log")
    refused_without_a_trace(folder, mistake.words, mistake.wanted)


def test_a_separate_process_answers_the_same(folder: Path) -> None:
    mistake = IN_DATA["user with a single row"]
    mistake.spoil(folder)
    one_sentence(resus(*mistake.words, cwd=folder), mistake.wanted)


def test_the_table_without_mistakes_is_accepted(folder: Path) -> None:
    assert "40 events of 4 users" in resus_here(*PREPARE, cwd=folder).stdout


def test_too_few_users_to_split(folder: Path) -> None:
    resus_here(*PREPARE, cwd=folder)
    few = ("--set", "split.ratios=[98,1,1]")
    refused_without_a_trace(folder, (*TRAIN, *few), ("no user of 4 is left", "split.ratios"))


@pytest.mark.parametrize("command", ["evaluate", "predict", "train"])
@pytest.mark.parametrize("damage", ["half-written", "foreign", "missing"])
def test_a_model_that_is_incomplete(command: str, damage: str, folder: Path, workplace: Path) -> None:
    shutil.copytree(workplace / "log", folder / "log")
    if damage == "foreign":
        (folder / "run").mkdir()
        (folder / "run" / "config.json").write_text("{}")
    elif damage == "half-written":
        shutil.copytree(workplace / "run", folder / "run")
        weights = folder / "run" / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
    words = {
        "evaluate": ("evaluate", "run"),
        "predict": ("predict", "run", "--support", "events.csv", "--query", "events.csv", "--out", "scores.csv"),
        "train": ("train", "log", *SMALL, "--out", "new", "--predictor-from", "run"),
    }
    refused_without_a_trace(folder, words[command], ("run", "train"))


@pytest.mark.parametrize("file", ["ids.npy", "labels.npy", "users.arrow", "features.json", "manifest.json"])
def test_a_log_that_is_incomplete(file: str, folder: Path, workplace: Path) -> None:
    shutil.copytree(workplace / "log", folder / "log")
    content = (folder / "log" / file).read_bytes()
    (folder / "log" / file).write_bytes(content[: len(content) // 2])
    refused_without_a_trace(folder, TRAIN, ("log",))


def test_predict_names_what_a_file_lacks(folder: Path, workplace: Path) -> None:
    words = ("predict", workplace / "run", "--support", "events.csv", "--query", "events.csv", "--out", "scores.csv")
    one_sentence(resus_here(*words, cwd=folder), ("the support has no column 'user'",))
    assert not (folder / "scores.csv").exists()


@pytest.mark.parametrize("command", ["prepare", "train", "evaluate", "report", "predict to CSV", "predict to Parquet"])
def test_a_full_disk(command: str, tiny_disk: Path, folder: Path, workplace: Path) -> None:
    run = workplace / "run"
    resus_here("evaluate", run, "--out", "results", cwd=folder)
    rows = "user,item,category,brand,age,gender,daypart,device,click\n" + "u,1,2,3,18-24,f,noon,phone,1\n" * 30
    (folder / "rows.csv").write_text(rows)
    scored = ("predict", run, "--support", "rows.csv", "--query", "rows.csv", "--out")
    big = [word.replace("[8]", "[300]") for word in SMALL]
    words: dict[str, tuple[object, ...]] = {
        "prepare": ("prepare", "planted", "--out", "disk/log"),
        "train": ("train", workplace / "log", *big, "--out", "disk/run"),
        "evaluate": ("evaluate", run, "--out", "disk/results"),
        "report": ("report", "results", "--out", "disk/report"),
        "predict to CSV": (*scored, "disk/scores.csv"),
        "predict to Parquet": (*scored, "disk/scores.parquet"),
    }
    if command not in ("prepare", "train"):
        (tiny_disk / "filler").write_bytes(b"x" * 65536)
    one_sentence(resus_here(*words[command], cwd=folder), ("cannot write disk/", "no space left on device"))
    written = {path.name for path in tiny_disk.rglob("*") if path.is_file()}
    assert written <= {"filler", "run.json"}


def test_debug_shows_the_traceback(folder: Path) -> None:
    done = resus("--debug", "prepare", "ml-2m", cwd=folder)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ConfigError: there is no data set 'ml-2m'" in done.stderr


def test_the_script_is_installed() -> None:
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="resus")
    assert script.load() is main


def test_a_log_is_not_replaced_by_the_log_of_another_table(folder: Path) -> None:
    assert resus_here(*PREPARE, cwd=folder).returncode == 0
    shutil.copy(folder / "events.csv", folder / "others.csv")
    others = ("prepare", "others.csv", *PREPARE[2:])
    refused_without_a_trace(folder, others, ("log", "holds the log 'events'", "choose another place"))
    assert resus_here(*PREPARE, "--set", "min_count=2", cwd=folder).returncode == 0


def test_a_misspelt_log_is_answered_with_the_nearest(folder: Path) -> None:
    assert resus_here(*PREPARE[:-1], "data/events", cwd=folder).returncode == 0
    for name in ("event", "data/evnts"):
        one_sentence(resus_here("train", name, cwd=folder), ("did you mean 'data/events'?",))
    told = resus_here("doctor", "data/events", cwd=folder)
    assert (told.returncode, "is a complete prepared log: 'events' with" in told.stdout) == (0, True)
