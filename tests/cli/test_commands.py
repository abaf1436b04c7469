"""The commands from data to a report."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import torch
from resus_process import SMALL, refused_here, resus_here, start, succeed_here

from resus import InteractionLog, PlantedWorld, load
from resus.data.datasets.planted import draw_events

pytestmark = pytest.mark.integration

STAGE_KEYS = {"auc", "gauc", "logloss", "calibration_error", "rela_impr", "gap_closed", "sizes"}
SIZE_KEYS = {"auc", "gauc", "logloss", "calibration_error", "rela_impr", "gap_closed", "users", "queries", "gauc_users"}


def test_from_data_to_a_report(workplace: Path) -> None:
    assert sorted(path.name for path in (workplace / "log").iterdir()) == [
        "crowd.npy",
        "features.json",
        "ids.npy",
        "labels.npy",
        "manifest.json",
        "truth.npy",
        "users.arrow",
    ]
    assert InteractionLog.open(workplace / "log").n_users == 120
    assert sorted(path.name for path in (workplace / "run").iterdir()) == [
        "artifact.json",
        "metrics.jsonl",
        "model.safetensors",
        "users.safetensors",
    ]
    lines = [json.loads(line) for line in (workplace / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [
        ("predictor", 1),
        ("predictor", 2),
        ("residuals", 1),
        ("residuals", 2),
    ]
    said = succeed_here("evaluate", "run", "--out", "compared", cwd=workplace)
    assert all(word in said for word in ("DeepFM", "RESUS-RR", "oracle", "stage I", "next: resus report compared"))
    assert "gain over DeepFM (95 % of 200 draws of users)" in said
    results = json.loads((workplace / "compared" / "results.json").read_text())
    assert list(results["models"]) == ["DeepFM", "RESUS-RR", "oracle", "crowd"]
    for model in results["models"].values():
        assert list(model["stages"]) == ["I", "II", "III"]
        assert all(stage.keys() == STAGE_KEYS for stage in model["stages"].values())
        assert list(model["sizes"]) == [str(size) for size in range(7)]
        assert all(size.keys() == SIZE_KEYS for size in model["sizes"].values())
    assert (results["gains"]["draws"], list(results["gains"]["models"])) == (200, ["RESUS-RR", "oracle", "crowd"])
    said = succeed_here("evaluate", "run", "--draws", "0", "--out", "without", cwd=workplace)
    assert "gain over" not in said
    assert json.loads((workplace / "without" / "results.json").read_text()) == results | {"gains": None}
    said = succeed_here("report", "compared", cwd=workplace)
    assert "report: compared/report.html" in said
    page = (workplace / "compared" / "report.html").read_text()
    assert "RESUS-RR" in page
    assert 'src="http' not in page
    for picture in ("auc.png", "gains.png"):
        assert (workplace / "compared" / picture).read_bytes().startswith(b"\x89PNG")


def test_predict_writes_what_the_library_returns(workplace: Path, tmp_path: Path) -> None:
    events = draw_events(PlantedWorld(users=20, items=40, seed=9)).drop("truth", "crowd")
    support = events.filter(pl.col("time") < 4).with_columns(user="new " + pl.col("user").cast(pl.String))
    query = events.filter(pl.col("time") == 5).with_columns(user="new " + pl.col("user").cast(pl.String)).drop("click")
    support.write_csv(tmp_path / "support.csv")
    query.write_parquet(tmp_path / "query.parquet")
    files = ("--support", tmp_path / "support.csv", "--query", tmp_path / "query.parquet")
    said = succeed_here("predict", "run", *files, "--out", tmp_path / "scores.parquet", cwd=workplace)
    assert f"{query.height} scores in" in said
    scores = pl.read_parquet(tmp_path / "scores.parquet")
    answer = load(workplace / "run").predict(support, query)
    assert scores.select(answer.columns).equals(answer)
    assert scores.select(query.columns).equals(query)
    rescored = ("--support", tmp_path / "support.csv", "--query", tmp_path / "scores.parquet")
    shown = resus_here("predict", "run", *rescored, cwd=workplace).stdout.splitlines()
    assert shown[0].split(",") == scores.columns
    assert len(shown) == 1 + query.height


def test_a_world_like_taobao_is_drawn_prepared_and_checked_as_taobao(tmp_path: Path) -> None:
    draw = ("prepare", "planted", "--like", "taobao", "--rows", 60_000, "--set", "seed=4")
    said = resus_here(*draw, cwd=tmp_path).stdout
    assert "60,000 impressions" in said
    files = tmp_path / "data" / "planted-taobao-files"
    before = {path.name: path.stat().st_mtime_ns for path in files.iterdir()}
    assert resus_here(*draw, cwd=tmp_path).stdout == said
    assert {path.name: path.stat().st_mtime_ns for path in files.iterdir()} == before
    words = said.splitlines()[-1].partition("next: resus ")[2].split()
    assert words == ["prepare", "taobao", "--path", "data/planted-taobao-files", "--out", "data/planted-taobao"]
    done = resus_here(*words, "--set", "min_item_count=5", cwd=tmp_path)
    assert "log in data/planted-taobao" in done.stdout, done.stderr
    log = InteractionLog.open(tmp_path / "data" / "planted-taobao")
    assert log.data_set == "taobao"
    assert log.truth is not None
    assert resus_here("doctor", "data/planted-taobao-files", cwd=tmp_path).returncode == 0


def test_a_killed_prepare_leaves_no_log_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    resus_here("prepare", "planted", "--like", "taobao", "--rows", 200_000, "--out", "files", cwd=tmp_path)
    words = ("prepare", "taobao", "--path", "files", "--out", "log", "--set", "min_item_count=1")
    with start(*words, cwd=tmp_path) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("counting"):
                process.kill()
                break
        process.stderr.read()
    left = {path.name for path in tmp_path.iterdir()}
    assert "log" not in left
    assert resus_here(*words, cwd=tmp_path).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"files", "log"}
    assert InteractionLog.open(tmp_path / "log").n_rows == 200_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("planted", "--rows", 5000), "--rows needs --like taobao"),
        (("planted", "--like", "taobo"), "--like is 'taobo'"),
        (("planted", "--like", "taobao", "--rows", 10), "'rows' is 10: give a number of at least 1000"),
        (("planted", "--like", "taobao", "--set", "sead=1"), "unknown key 'sead', did you mean 'seed'?"),
        (("planted", "--like", "taobao", "--rows", 2000, "--set", "rows=3000"), "rows is set twice"),
        (("taobao", "--like", "taobao"), "--like and --rows need 'resus prepare planted'"),
        (("planted", "--like", "taobao", "--path", "x"), "planted is drawn, not read from files: leave out --path"),
    ],
)
def test_a_mistake_about_planted_files_is_one_sentence(
    tmp_path: Path, words: tuple[object, ...], sentence: str
) -> None:
    assert refused_here("prepare", *words, cwd=tmp_path).startswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_names_with_brackets_are_printed_literally(tmp_path: Path) -> None:
    folder = "my [bold] log"
    said = succeed_here("prepare", "planted", "--set", "users=20", "--out", folder, cwd=tmp_path)
    assert f"log in {folder}" in said
    assert (tmp_path / folder / "manifest.json").is_file()


def test_a_finished_run_stays_unchanged(workplace: Path) -> None:
    before = {path.name: path.read_bytes() for path in (workplace / "run").iterdir()}
    told = refused_here("train", "log", *SMALL, "--out", "run", cwd=workplace)
    assert told.startswith("run holds a finished run: choose another folder")
    assert "run in run" in resus_here("train", "log", *SMALL, "--out", "run", "--resume", cwd=workplace).stdout
    assert {path.name: path.read_bytes() for path in (workplace / "run").iterdir()} == before


def test_options_override_the_config_file(workplace: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "predictor: {hidden_units: [8], epochs: 1}\nencoder: {hidden_units: [8]}\n"
        "training: {epochs: 5}\nevaluation: {max_size: 6}\n"
    )
    shutil.copytree(workplace / "log", tmp_path / "data" / "mine")
    words = ("--config", "run.yaml", "--learner", "nearest", "--predictor", "fm", "--set", "training.epochs=1")
    said = resus_here("train", "mine", *words, cwd=tmp_path).stdout
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("mine-resus-nn-fm-1-")
    assert f"run in runs/{run.name}" in said
    config = load(run).config
    assert (config.predictor.kind, config.learner.kind) == ("fm", "nearest")
    assert (config.predictor.model_dump()["epochs"], config.training.epochs) == (1, 1)
    resus_here("train", "mine", *words, "--set", "learner.similarity=cosine", cwd=tmp_path)
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_version_help_and_settings(tmp_path: Path) -> None:
    assert succeed_here("--version", cwd=tmp_path).startswith("resus ")
    said = succeed_here("--help", cwd=tmp_path)
    assert all(name in said for name in ("prepare", "train", "evaluate", "predict", "report", "doctor"))
    said = succeed_here("train", "--settings", cwd=tmp_path)
    assert "training.scalar_learning_rate" in said
    assert list(tmp_path.iterdir()) == []


def test_listed_settings_follow_the_other_options(tmp_path: Path) -> None:
    for words, encoder, folds in (((), "factors", "4"), (("--learner", "ridge"), "deepfm", "1")):
        said = succeed_here("train", *words, "--set", "training.epochs=7", "--settings", cwd=tmp_path)
        listed = dict(line.split()[:2] for line in said.splitlines() if line.strip())
        assert (listed["encoder.kind"], listed["training.folds"], listed["training.epochs"]) == (encoder, folds, "7")


def test_predictor_from_takes_the_settings_of_the_predictor_too(workplace: Path) -> None:
    words = ("train", "log", *SMALL, "--predictor", "fm", "--set", "predictor.embedding_dim=3")
    succeed_here(*words, "--out", "of-three", cwd=workplace)
    succeed_here("train", "log", *SMALL, "--predictor-from", "of-three", "--out", "taken", cwd=workplace)
    assert load(workplace / "taken").config.predictor == load(workplace / "of-three").config.predictor
    other = ("--predictor-from", "of-three", "--set", "predictor.embedding_dim=4", "--out", "other")
    told = refused_here("train", "log", *SMALL, *other, cwd=workplace)
    assert "predictor.embedding_dim is 3 there and 4 here" in told


def test_replacing_a_log_is_reported_and_its_old_runs_read_the_new_one_as_newer(workplace: Path) -> None:
    shutil.copytree(workplace / "log", workplace / "replaced")
    succeed_here("train", "replaced", *SMALL, "--out", "of-replaced", cwd=workplace)
    words = ("prepare", "planted", "--set", "users=121", "--out", "replaced")
    assert "held another log before" in succeed_here(*words, cwd=workplace)
    assert "held another log" not in succeed_here(*words, cwd=workplace)
    told = succeed_here("evaluate", "of-replaced", "--draws", "0", "--out", "of-newer", cwd=workplace)
    assert "planted, seen from RESUS-RR: 1 of 121 users are new, 12 were test users of the run" in told
    assert "left out because RESUS-RR was trained or validated on them: 108 users" in told


@pytest.mark.parametrize(
    "words",
    [
        ("train", "planted"),
        ("evaluate", "nothing"),
        ("predict", "nothing", "--support", "s.csv", "--query", "q.csv"),
    ],
)
def test_a_device_that_is_not_there_is_refused_before_anything_is_read_or_written(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = refused_here(*words, "--device", "cuda", cwd=tmp_path)
    assert told.startswith("--device is 'cuda', and torch finds no such device here: choose cpu")
    assert refused_here(*words, "--device", "gpu", cwd=tmp_path).startswith("--device is 'gpu': choose auto, cpu, cuda")
    assert list(tmp_path.iterdir()) == []
