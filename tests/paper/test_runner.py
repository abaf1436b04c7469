"""Cells run once, beside each other, and after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from planted_models import TINY, events, log_of

from resus.errors import ArtifactError
from resus.paper.cells.cells import CELLS, read_cells, scores_path
from resus.paper.cells.experiment import Request
from resus.paper.cells.folder import claim
from resus.paper.cells.plan import plan_cells
from resus.paper.cells.runner import missing, run_cells
from resus.paper.questions import ARCHITECTURES, QUESTIONS
from resus.tensor_files import load_tensors

METHODS = ["deepfm", "resus-nn", "resus-rr", "user-bias"]


def log_at(folder: Path) -> Path:
    log_of(events()).save(folder / "log")
    return folder / "log"


def requests(folder: Path, log: Path, *, runs: int = 2, jobs: int = 1, rate: float = 1e-3) -> list[Request]:
    return plan_cells(
        ["rq1"],
        {"mine": log},
        runs=runs,
        methods=METHODS,
        folder=folder / "out",
        settings=TINY | {"training.learning_rate": rate},
        cores=1,
        jobs=jobs,
        search=False,
    )


def test_finished_cells_are_not_run_again(tmp_path: Path) -> None:
    wanted = requests(tmp_path, log_at(tmp_path), runs=1)
    assert run_cells(wanted, jobs=1) == {}
    before = (tmp_path / "out" / CELLS).read_bytes()
    assert missing(wanted) == []
    assert run_cells(wanted, jobs=1) == {}
    assert (tmp_path / "out" / CELLS).read_bytes() == before
    assert not list((tmp_path / "out" / "unfinished").iterdir())


def test_a_cell_keeps_scores_on_the_test_users(tmp_path: Path) -> None:
    wanted = requests(tmp_path, log_at(tmp_path), runs=1)
    run_cells(wanted, jobs=1)
    for request in wanted:
        tensors, facts = load_tensors(scores_path(tmp_path / "out", request.key))
        assert tensors["logits"].shape[0] == len(tensors["labels"]) == len(tensors["users"])
        assert facts["sizes"] == list(range(7))


def test_a_line_cut_short_by_a_kill_is_its_cell_run_again(tmp_path: Path) -> None:
    wanted = requests(tmp_path, log_at(tmp_path), runs=1)
    run_cells(wanted, jobs=1)
    path = tmp_path / "out" / CELLS
    whole = path.read_text()
    path.write_text(whole[:-40])
    assert len(missing(wanted)) == 1
    run_cells(wanted, jobs=1)
    assert [cell.results for cell in read_cells(tmp_path / "out")] == [
        type(cell.results).model_validate(json.loads(line)["results"])
        for cell, line in zip(read_cells(tmp_path / "out"), whole.splitlines(), strict=True)
    ]


def test_one_diverging_cell_does_not_stop_the_others(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    wanted = requests(tmp_path, log, runs=1, rate=1e30)
    failures = run_cells(wanted, jobs=1)
    assert set(failures) == {"mine-resus-nn-1-alone", "mine-resus-rr-1-alone"}
    assert all("not finite" in sentence for sentence in failures.values())
    assert {cell.method for cell in read_cells(tmp_path / "out")} == {"deepfm", "user-bias"}


def test_another_setting_needs_another_folder(tmp_path: Path) -> None:
    claim(tmp_path, "mine", {"training.epochs": 2}, "hash")
    claim(tmp_path, "mine", {"training.epochs": 2}, "hash")
    claim(tmp_path, "other", {}, "hash")
    with pytest.raises(ArtifactError, match=r"training\.epochs=2.*--out"):
        claim(tmp_path, "mine", {"training.epochs": 3}, "hash")


def test_predictors_come_first_and_timed_cells_run_alone(tmp_path: Path) -> None:
    planned = plan_cells(
        ["rq2", "rq5"], {"mine": tmp_path}, runs=3, methods=None, folder=tmp_path, settings={}, cores=8, jobs=4
    )
    assert len({request.key for request in planned}) == len(planned)
    kinds = [request.method for request in planned]
    assert sorted(kinds[:18]) == sorted(ARCHITECTURES * 3)
    timed = QUESTIONS["rq5"].methods
    for request in planned:
        assert request.alone == (request.method in timed and request.seed == 1)
        assert request.threads == (8 if request.alone else 2)


@pytest.mark.integration
def test_a_killed_reproduction_goes_on_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    undisturbed = {request.key: None for request in requests(tmp_path, log)}
    assert run_cells(requests(tmp_path, log), jobs=1) == {}
    expected = {cell.key: cell.results for cell in read_cells(tmp_path / "out")}
    assert set(expected) == set(undisturbed)
    (tmp_path / "out").rename(tmp_path / "undisturbed")

    script = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from test_runner import requests, run_cells\n"
        "if __name__ == '__main__':\n"
        "    folder = Path(sys.argv[1])\n"
        "    print(run_cells(requests(folder, folder / 'log', jobs=2), jobs=2))\n"
    )
    program = tmp_path / "program.py"
    program.write_text(script)
    here = Path(__file__).parent
    command = [sys.executable, str(program), str(tmp_path), str(here), str(here.parent)]
    environment = os.environ | {"PYTHONPATH": f"{here}:{here.parent}"}
    first = subprocess.Popen(command, start_new_session=True, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not read_cells(tmp_path / "out"):
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = len(read_cells(tmp_path / "out"))
    assert 0 < done < len(expected), f"killed after {done} cells"
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert again.stdout.strip() == "{}"
    cells = read_cells(tmp_path / "out")
    assert len(cells) == len(expected)
    assert {cell.key: cell.results for cell in cells} == expected
