"""`resus export` on a finished run."""

import shutil
from pathlib import Path

import pytest
from resus_process import refused_here, succeed_here

from resus import InteractionLog, load
from resus.artifact import Artifact
from resus.checked_folder import CheckedFolder
from resus.serving.catalogue import Catalogue
from resus.serving.histories import read_histories
from resus.serving.loaded import LoadedModel

pytestmark = pytest.mark.integration

FILES = [
    "artifact.json",
    "catalogue.arrow",
    "encoder.onnx",
    "model.safetensors",
    "predictor.onnx",
    "profiles.arrow",
    "reference.json",
    "test-users.json",
]


def catalogue_of(export: Path) -> Catalogue:
    opened = CheckedFolder.open(export)
    return Catalogue.load(opened, Artifact.of(opened).features)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_export_holds_all_that_serving_takes(workplace: Path, tmp_path: Path) -> None:
    (tmp_path / "titles.csv").write_text("item,title\n3,Third\n")
    out = tmp_path / "export"
    said = succeed_here("export", "run", "--out", out, "--titles", tmp_path / "titles.csv", cwd=workplace)
    assert f"export in {out}: {', '.join(FILES)}" in said
    assert "share it only where you may share the log" in said
    assert sorted(contents(out)) == FILES
    assert ["artifact.json", *CheckedFolder.open(out).files] == FILES
    assert load(out).name == load(workplace / "run").name

    log, catalogue = InteractionLog.open(workplace / "log"), catalogue_of(out)
    assert [catalogue.items[place] for place in catalogue.search("third", 9)] == ["3"]
    histories = read_histories(CheckedFolder.open(out))
    assert len(histories) == 12
    event = histories[0].events[0]
    row = LoadedModel.load(out).rows([{"item": event.item, **event.context}]).ids[0]
    assert (log.ids == row).all(axis=1).any()

    (workplace / "run" / "results.json").write_text("{}")
    try:
        succeed_here("export", "run", "--out", out, cwd=workplace)
    finally:
        (workplace / "run" / "results.json").unlink()
    assert sorted(contents(out)) == sorted([*FILES, "results.json"])
    assert not any(catalogue_of(out).titles)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_not_an_export_is_never_overwritten(workplace: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    shutil.copytree(workplace / "run", tmp_path / "other run", ignore=shutil.ignore_patterns("metrics.jsonl"))
    (tmp_path / "file").write_text("a file")
    for name, what in (
        ("mine", "holds thesis.txt, so it is not an export: choose another folder"),
        ("other run", "holds users.safetensors, so it is not an export: choose another folder"),
        ("file", "is a file: choose a folder"),
    ):
        assert what in refused_here("export", "run", "--out", tmp_path / name, cwd=workplace)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "file").read_text() == "a file"
    assert contents(tmp_path / "other run").keys() == {"artifact.json", "model.safetensors", "users.safetensors"}


def test_mistakes_are_answered_in_one_sentence_and_leave_nothing(workplace: Path, tmp_path: Path) -> None:
    shutil.copytree(workplace / "run", tmp_path / "run")
    (tmp_path / "titles.csv").write_text("item,title\nno such,Nothing\n")
    succeed_here("prepare", "planted", "--set", "users=20", "--out", "other", cwd=tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    titles = ("--titles", "titles.csv")
    log = ("--data", workplace / "log")
    for words, what in (
        (("nowhere",), "nowhere does not exist: train a model"),
        (("titles.csv",), "titles.csv is a file, not a folder with a model"),
        (("run", "--data", "other"), "trained on another log than other"),
        (("run", "--data", "gone"), "no prepared log at gone"),
        (("run", *log, *titles), "none of the 1 titles belongs to an item"),
        (("run", *log, "--titles", "absent.csv"), "absent.csv: the file does not exist"),
    ):
        assert what in refused_here("export", *words, "--out", "export", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_doctor_knows_a_run(workplace: Path) -> None:
    assert "run is a trained run of RESUS" in succeed_here("doctor", "run", cwd=workplace)


def test_a_log_that_moved_is_asked_for(workplace: Path, tmp_path: Path) -> None:
    moved = workplace / "log moved"
    (workplace / "log").rename(moved)
    try:
        said = refused_here("export", "run", "--out", tmp_path / "export", cwd=workplace)
    finally:
        moved.rename(workplace / "log")
    assert "is gone: give its new place with --data" in said
