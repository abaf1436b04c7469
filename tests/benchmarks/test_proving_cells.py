"""Cells of the proving ground: data sets are prepared once, cells run once, and a broken run resumes."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.proving.__main__ import _seeds, estimate, main
from benchmarks.proving.cells import (
    CELLS,
    PlannedCell,
    config_of,
    draws_path,
    forget,
    middle_sizes,
    missing,
    plan,
    read_cells,
    read_draws,
    run_cell,
)
from benchmarks.proving.data_sets import DATA_SETS, RATINGS, find_logs
from benchmarks.proving.methods import ROWS
from benchmarks.threads import VARIABLES
from resus import InteractionLog, PlantedWorld, planted_log
from resus.baselines import BASELINES
from resus.errors import ArtifactError, ConfigError, DataError
from resus.paper.cells.workers import run_missing
from resus.paper.rivals import RIVALS

WORLD = PlantedWorld(users=80, items=20, events_per_user=40)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "mine"
    planted_log(WORLD).save(folder)
    return folder


def planned(folder: Path, log: Path, training_users: int | None = None) -> list[PlannedCell]:
    return plan(
        {"mine": log},
        folder=folder,
        methods=["user-bias", "deepfm"],
        seeds=[1],
        training_users=training_users,
        threads=1,
    )


def test_finished_cells_do_not_run_again_and_a_line_cut_short_does(tmp_path: Path, log: Path) -> None:
    wanted = planned(tmp_path, log)
    assert [cell.method for cell in wanted] == ["deepfm", "user-bias"]
    assert run_missing(wanted, run_cell, missing, jobs=1) == {}
    cells, before = read_cells(tmp_path), (tmp_path / CELLS).read_bytes()
    assert [cell.key for cell in cells] == [cell.key for cell in wanted]
    assert missing(wanted) == []
    assert run_missing(wanted, run_cell, missing, jobs=1) == {}
    assert (tmp_path / CELLS).read_bytes() == before
    for cell in cells:
        draws = read_draws(tmp_path, cell)
        assert draws is not None
        for stage, values in cell.stages.items():
            assert draws[stage, "auc"][0] == pytest.approx(values.auc, abs=1e-4)
            assert draws[stage, "gauc"][0] == pytest.approx(values.gauc, abs=1e-12)
            assert draws[stage, "logloss"][0] == pytest.approx(values.logloss, abs=1e-7)
        assert cell.peak_bytes > 1e7
    (tmp_path / CELLS).write_bytes(before[:-40])
    assert [cell.method for cell in missing(wanted)] == ["user-bias"]
    assert run_missing(wanted, run_cell, missing, jobs=1) == {}
    assert [cell.stages for cell in read_cells(tmp_path)] == [cell.stages for cell in cells]

    forget(tmp_path, [wanted[0].key])
    assert missing(wanted) == wanted[:1]
    assert not draws_path(tmp_path, wanted[0].key).exists()


def test_other_data_and_other_numbers_of_training_users_are_other_cells(tmp_path: Path, log: Path) -> None:
    wanted = planned(tmp_path, log)
    planted_log(WORLD.model_copy(update={"seed": 2})).save(tmp_path / "mine")
    marks = {planned(tmp_path, path, users)[0].mark for path in (log, tmp_path / "mine") for users in (None, 35)}
    assert len(marks) == 4
    assert wanted[0].mark in marks


def test_a_given_number_of_users_trains_and_the_rest_are_test_users(log: Path) -> None:
    opened = InteractionLog.open(log)
    split = config_of(opened, 3, 35).user_split(opened.n_users)
    assert (len(split.train), len(split.validation), len(split.test)) == (35, 10, 35)
    with pytest.raises(ConfigError, match=r"80 users.*70 training users.*--training-users"):
        config_of(opened, 3, 70)


def test_the_middle_sizes_are_those_of_the_stages(log: Path) -> None:
    assert middle_sizes(config_of(InteractionLog.open(log), 1, None)) == [5, 15, 25]


def test_the_command_reports_and_writes_the_page(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "1")
    monkeypatch.setitem(RIVALS, "resus-plus", BASELINES["user-bias"])  # RESUS+ itself takes a minute
    words = [str(log), "--seeds", "1", "--methods", "resus-plus,deepfm", "--docs"]
    monkeypatch.setattr(sys, "argv", ["proving", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err
    told = capsys.readouterr().out
    assert "0/2 cells" not in told.partition("2/2 cells")[2]
    assert "user bias" in told
    assert (tmp_path / "runs/proving/comparisons.jsonl").read_text().count("\n") == 9
    report, page = (tmp_path / "runs/proving/report.md").read_text(), (tmp_path / "docs/proving.md").read_text()
    assert set(page[page.index("## ") :].splitlines()) < set(report.splitlines())
    assert (tmp_path / "docs/proving/cells.jsonl").read_text() == (tmp_path / "runs/proving/cells.jsonl").read_text()

    monkeypatch.setattr(sys, "argv", ["proving", *words[:-1], "--recorded", "--out", "elsewhere"])
    monkeypatch.setattr("benchmarks.proving.__main__.run_cell", None)  # nothing is left to run
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err
    assert "2 recorded cells" in capsys.readouterr().out
    for cell in read_cells(tmp_path / "runs/proving"):
        before, after = read_draws(tmp_path / "runs/proving", cell), read_draws(tmp_path / "elsewhere", cell)
        assert before is not None
        assert after is not None
        assert before.keys() == after.keys()
        for key, values in before.items():
            spread = float(np.nanmax(np.abs(values - values[0])))
            np.testing.assert_allclose(after[key], values, rtol=0.0, atol=1e-3 * spread + 1e-7)
    with pytest.raises(SystemExit):
        main()
    assert "elsewhere holds cells already" in " ".join(capsys.readouterr().err.split())


def test_a_mistake_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESUS_DATA", str(tmp_path / "nowhere"))
    for words, sentence in (
        (["goodbooks"], "set RESUS_DATA to the folder that holds it"),
        (["goodboks"], "did you mean 'goodbooks'?"),
        (["goodbooks", "--methods", "dinn"], "no method 'dinn'"),
    ):
        monkeypatch.setattr(sys, "argv", ["proving", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        told = capsys.readouterr().err
        assert sentence in " ".join(told.split())
        assert told.count("\n") == 1


FILES = {
    "events.csv": "user,item,rating\n1,a,5\n1,b,3\n1,b,4\n2,a,9\n2,c,1\n3,c,2\n",
    "users.csv": "user,location\n2,x\n1,y\n",
    "items.csv": "item,title,authors,language,year,episodes,genre,type,author,publisher\n"
    "a,A,One|Two,eng,2001,1,Drama|War,TV,7,8\nb,B,Two,,,,War,TV,7,9\nc,C,Three,eng,2004,2,War,Movie,,\n",
}

FIRST: dict[str, dict[str, Any]] = {  # what is known about the first event
    "goodbooks": {"authors": ["One", "Two"], "language": "eng", "year": 2001},
    "anime": {"episodes": "1", "genre": ["Drama", "War"], "type": "TV"},
    "douban-book": {"author": "7", "location": "y", "publisher": "8", "year": "2001"},
}


def write_raw(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    for file, text in FILES.items():
        (folder / name / file).write_text(text)


@pytest.mark.parametrize("name", RATINGS)
def test_ratings_are_joined_with_items_and_users_once(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_raw(tmp_path / "raw", name)
    monkeypatch.setenv("RESUS_DATA", str(tmp_path / "raw"))
    path = find_logs([name])[name]
    log = InteractionLog.open(path)
    assert list(log.lengths) == [3, 2]  # user 3 has one event
    expected = {"anime": [0, 0, 0, 1, 0]}.get(name, [1, 0, 1, 1, 0])
    assert list(log.labels) == expected
    first, second = (
        log.features.decode(log.ids[row], log.weights[row] if log.weights is not None else None) for row in (0, 1)
    )
    assert first == {"item": "a", **FIRST[name]}
    assert second["item"] == "b"
    if name == "goodbooks":
        assert second["year"] == pytest.approx(2002.5)  # missing: the mean of all events
    monkeypatch.setenv("RESUS_DATA", str(tmp_path / "gone"))
    assert find_logs([name])[name] == path


def test_a_file_without_its_columns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_raw(tmp_path / "raw", "goodbooks")
    (tmp_path / "raw" / "goodbooks" / "items.csv").write_text("item,title\na,A\n")
    monkeypatch.setenv("RESUS_DATA", str(tmp_path / "raw"))
    with pytest.raises(DataError, match=r"items\.csv.*authors"):
        find_logs(["goodbooks"])


def test_logs_by_path_need_different_names(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_logs([str(log)]) == {"mine": log}
    with pytest.raises(ConfigError, match="named twice"):
        find_logs([str(log), str(log)])
    with pytest.raises(ArtifactError, match="neither"):
        find_logs([str(tmp_path)])


def test_seeds_are_a_number_or_a_list() -> None:
    assert _seeds("3") == (1, 2, 3)
    assert _seeds("2,5") == (2, 5)
    assert _seeds("4,") == (4,)
    for text in ("0", "", "two", "1,-2"):
        with pytest.raises(argparse.ArgumentTypeError, match="not a whole number"):
            _seeds(text)


def test_the_rows_exist_and_psi_comes_first() -> None:
    assert ROWS[0] == "deepfm"
    assert len(DATA_SETS) == 5
    assert "resus-plus-without-folds" in ROWS


def test_the_estimate_takes_the_nearest_finished_cells(tmp_path: Path, log: Path) -> None:
    wanted = planned(tmp_path, log)
    assert estimate([], wanted) == 0
    run_cell(wanted[0])
    (finished,) = read_cells(tmp_path)
    assert estimate([finished], wanted) == pytest.approx(2 * finished.elapsed)
