"""Life after the first training, as commands: a newer log is measured on, and a run starts warm."""

import json
import shutil
import signal
from pathlib import Path

import polars as pl
import pytest
import yaml
from newer_logs import earlier_events, newer_events
from planted_models import SCHEMA
from resus_process import SMALL, refused_here, succeed_here
from test_killed_runs import history, stop_when

pytestmark = pytest.mark.integration

LONGER = ["--set", "predictor.epochs=4", "--set", "predictor.patience=4", "--set", "training.epochs=4"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two prepared logs, and a run on the earlier one."""
    folder = tmp_path_factory.mktemp("newer")
    (folder / "schema.yaml").write_text(yaml.safe_dump(SCHEMA.model_dump(exclude_none=True)))
    for name, table in (("earlier", earlier_events()), ("newer", newer_events())):
        table.with_columns(user="u" + pl.col("user").cast(pl.String)).write_csv(folder / f"{name}.csv")
        options = ("--schema", "schema.yaml", "--set", "single_events=keep", "--set", "duplicates=keep")
        succeed_here("prepare", f"{name}.csv", *options, "--out", name, cwd=folder)
    succeed_here("train", "earlier", *SMALL, "--out", "run", cwd=folder)
    return folder


def test_a_newer_log_is_measured_on_users_that_the_run_has_not_seen(place: Path) -> None:
    said = succeed_here("evaluate", "run", "--data", "newer", "--draws", "0", "--out", "on-newer", cwd=place)
    assert "newer, seen from RESUS-RR: 20 of 40 users are new" in said
    assert "5 of 20 items are new; new values: " in said
    assert "tags 1" in said
    results = json.loads((place / "on-newer" / "results.json").read_text())
    news = results["news"]["RESUS-RR"]
    measured = results["models"]["RESUS-RR"]["sizes"]["0"]["users"]
    assert measured == news["new_users"] + news["tested_users"]
    assert f"left out because RESUS-RR was trained or validated on them: {40 - measured} users" in said

    def users_of(*words: str) -> int:
        succeed_here("evaluate", "run", "--data", "newer", "--draws", "0", *words, "--out", "other", cwd=place)
        found = json.loads((place / "other" / "results.json").read_text())
        users: int = found["models"]["RESUS-RR"]["sizes"]["0"]["users"]
        return users

    assert users_of("--users", "new") == 20
    assert users_of("--users", "all") == 40
    assert users_of("--part", "validation") == news["validated_users"]


def test_results_on_a_newer_log_stand_beside_those_of_the_run(place: Path) -> None:
    succeed_here("evaluate", "run", "--draws", "0", cwd=place)
    own = (place / "run" / "results.json").read_bytes()
    said = succeed_here("evaluate", "run", "--data", "newer", "--draws", "0", cwd=place)
    assert said.splitlines()[-1] == "results in run/on-newer/results.json; next: resus report run/on-newer"
    assert json.loads((place / "run" / "on-newer" / "results.json").read_text())["news"]
    assert (place / "run" / "results.json").read_bytes() == own
    succeed_here("report", "run", cwd=place)
    succeed_here("report", "run/on-newer", cwd=place)
    pages = [(place / folder / "report.html").read_text() for folder in ("run", "run/on-newer")]
    assert pages[0] != pages[1]
    shutil.copytree(place / "earlier", place / "moved")
    assert "results in run/results.json" in succeed_here(
        "evaluate", "run", "--data", "moved", "--draws", "0", cwd=place
    )


def test_results_of_validation_users_stand_beside_those_of_test_users(place: Path) -> None:
    succeed_here("evaluate", "run", "--draws", "0", cwd=place)
    own = (place / "run" / "results.json").read_bytes()
    for words, folder in (((), "run/validation"), (("--data", "newer"), "run/on-newer/validation")):
        said = succeed_here("evaluate", "run", "--part", "validation", *words, "--draws", "0", cwd=place)
        assert said.splitlines()[-1] == f"results in {folder}/results.json; next: resus report {folder}"
    assert (place / "run" / "results.json").read_bytes() == own


def test_bad_questions_about_a_newer_log_get_one_sentence(place: Path) -> None:
    told = refused_here("evaluate", "run", "--data", "newer", "--users", "olds", cwd=place)
    assert told == "--users is 'olds': choose unseen, new or all"
    told = refused_here("evaluate", "run", "--users", "new", "--part", "validation", cwd=place)
    assert "leave out --part validation" in told
    told = refused_here("evaluate", "run", "--users", "new", cwd=place)
    assert "every one of the 40 users of 'earlier' was in the log of the model" in told
    told = refused_here("train", "newer", "--warm-start", "run", "--predictor-from", "run", cwd=place)
    assert "choose one" in told
    told = refused_here("train", "newer", "--warm-start", "run", "--predictor", "fm", "--out", "bad", cwd=place)
    assert "predictor.kind is fm, and the run to start from has deepfm" in told


def test_a_warm_start_that_is_killed_ends_like_one_that_ran_through(place: Path) -> None:
    words = ["train", "newer", "--warm-start", "run", *LONGER]
    said = succeed_here(*words, "--out", "calm", cwd=place)
    assert "newer, seen from run: 20 of 40 users are new" in said
    code, told = stop_when("residuals, epoch 2 ", signal.SIGKILL, [*words, "--out", "killed"], place, 0.0)
    assert code == -signal.SIGKILL, told
    assert not (place / "killed" / "artifact.json").exists()
    without = refused_here("train", "newer", *SMALL, "--resume", "--out", "killed", cwd=place)
    assert "other settings or other data" in without
    succeed_here(*words, "--resume", "--out", "killed", cwd=place)
    assert history(place / "killed") == history(place / "calm")
    assert history(place / "calm")[0]["epoch"] == 0
    for name in ("model.safetensors", "users.safetensors"):
        assert (place / "killed" / name).read_bytes() == (place / "calm" / name).read_bytes()
    succeed_here("evaluate", "calm", "--draws", "0", cwd=place)
    compare = ("compare", "run", "calm", "--data", "newer", "--draws", "40")
    said = succeed_here(*compare, "--out", "compared.json", cwd=place)
    assert "newer, seen from run: 20 of 40 users are new" in said
    found = json.loads((place / "compared.json").read_text())
    assert said.splitlines()[-2] == found["verdict"]
    assert found["users"] == 4
    assert "the same run is named twice" in refused_here("compare", "run", "run", cwd=place)
    succeed_here("export", "calm", "--out", "calm-export", cwd=place)
    rows = newer_events()[:6].with_columns(user="u" + pl.col("user").cast(pl.String))
    rows.write_csv(place / "support.csv")
    found = succeed_here("recommend", "calm", "--support", "support.csv", "--top", "3", cwd=place)
    assert len(found.splitlines()) > 3
