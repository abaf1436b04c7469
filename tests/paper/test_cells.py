"""Cells run once, side by side and after a kill; hyperparameters are chosen once, on validation users."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from planted_models import TINY, events, log_of

from resus.arrays import Floats
from resus.baselines.base import MethodSpec, Task
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ArtifactError, TrainingError
from resus.history import EpochRecord, History
from resus.paper.cells.plan import PlannedCell, missing, plan_cells
from resus.paper.cells.records import CELLS, fix_settings, read_cells, read_trials, scores_path
from resus.paper.cells.run import run_cells
from resus.paper.cells.search import choose
from resus.paper.questions import ARCHITECTURES, QUESTIONS
from resus.progress import silent
from resus.tensor_files import load_tensors

METHODS = ["deepfm", "resus-nn", "resus-rr", "user-bias"]


def log_at(folder: Path) -> Path:
    log_of(events()).save(folder / "log")
    return folder / "log"


def planned(folder: Path, log: Path, *, runs: int = 2, jobs: int = 1, rate: float = 1e-3) -> list[PlannedCell]:
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


def test_finished_cells_keep_their_scores_and_only_a_line_cut_short_runs_again(tmp_path: Path) -> None:
    wanted, out = planned(tmp_path, log_at(tmp_path), runs=1), tmp_path / "out"
    assert run_cells(wanted, jobs=1) == {}
    assert not list((out / "unfinished").iterdir())
    for cell in wanted:
        tensors, facts = load_tensors(scores_path(out, cell.key))
        assert tensors["logits"].shape[0] == len(tensors["labels"]) == len(tensors["users"])
        assert facts["sizes"] == list(range(7))
    before, results = (out / CELLS).read_bytes(), [cell.results for cell in read_cells(out)]
    assert missing(wanted) == []
    assert run_cells(wanted, jobs=1) == {}
    assert (out / CELLS).read_bytes() == before
    (out / CELLS).write_bytes(before[:-40])
    assert len(missing(wanted)) == 1
    run_cells(wanted, jobs=1)
    assert [cell.results for cell in read_cells(out)] == results


def test_one_diverging_cell_does_not_stop_the_others(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    wanted = planned(tmp_path, log, runs=1, rate=1e30)
    failures = run_cells(wanted, jobs=1)
    assert set(failures) == {"mine-resus-nn-1-alone", "mine-resus-rr-1-alone"}
    assert all("not finite" in sentence for sentence in failures.values())
    assert {cell.method for cell in read_cells(tmp_path / "out")} == {"deepfm", "user-bias"}


def test_another_setting_needs_another_folder(tmp_path: Path) -> None:
    fix_settings(tmp_path, "mine", {"training.epochs": 2}, "hash")
    fix_settings(tmp_path, "mine", {"training.epochs": 2}, "hash")
    fix_settings(tmp_path, "other", {}, "hash")
    with pytest.raises(ArtifactError, match=r"training\.epochs=2.*--out"):
        fix_settings(tmp_path, "mine", {"training.epochs": 3}, "hash")


def test_predictors_come_first_and_timed_cells_run_alone(tmp_path: Path) -> None:
    cells = plan_cells(
        ["rq2", "rq5"], {"mine": tmp_path}, runs=3, methods=None, folder=tmp_path, settings={}, cores=8, jobs=4
    )
    assert len({cell.key for cell in cells}) == len(cells)
    kinds = [cell.method for cell in cells]
    assert sorted(kinds[:18]) == sorted(ARCHITECTURES * 3)
    timed = QUESTIONS["rq5"].methods
    for cell in cells:
        assert cell.alone == (cell.method in timed and cell.seed == 1)
        assert cell.threads == (8 if cell.alone else 2)


@pytest.mark.integration
def test_a_killed_reproduction_resumes_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    assert run_cells(planned(tmp_path, log), jobs=1) == {}
    expected = {cell.key: cell.results for cell in read_cells(tmp_path / "out")}
    assert set(expected) == {cell.key for cell in planned(tmp_path, log)}
    (tmp_path / "out").rename(tmp_path / "undisturbed")

    script = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from test_cells import planned, run_cells\n"
        "if __name__ == '__main__':\n"
        "    folder = Path(sys.argv[1])\n"
        "    run_cells(planned(folder, folder / 'log', jobs=2), jobs=2)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(script)
    here = Path(__file__).parent
    command = [sys.executable, str(program), str(tmp_path), str(here), str(here.parent)]
    environment = os.environ | {"PYTHONPATH": f"{here}:{here.parent}:{os.environ.get('PYTHONPATH', '')}"}
    first = subprocess.Popen(command, start_new_session=True, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and first.poll() is None and not read_cells(tmp_path / "out"):
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = len(read_cells(tmp_path / "out"))
    assert 0 < done < len(expected), f"killed after {done} cells"
    assert run_cells(planned(tmp_path, log, jobs=2), jobs=1) == {}
    cells = read_cells(tmp_path / "out")
    assert len(cells) == len(expected)
    assert {cell.key: cell.results for cell in cells} == expected


CONFIG = resolve(TINY)
tried: list[tuple[float, int]] = []


class Known:
    """A method whose validation AUC is known beforehand."""

    def __init__(self, *, rate: float, steps: int = 1) -> None:
        self.rate = rate
        self.steps = steps

    def fit(self, task: Task) -> History:
        tried.append((self.rate, self.steps))
        assert not set(task.split.train) & set(task.split.test)
        assert task.config.seed == 1
        if self.rate > 1:
            raise TrainingError("diverged")
        reached = 0.9 - abs(self.rate - 0.1) + 0.01 * self.steps
        return [EpochRecord("known", 1, reached)]

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        raise AssertionError("a search never looks at test users")

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        raise AssertionError("a search never looks at test users")


def search(folder: Path, log: InteractionLog, data_set: str = "mine", **grid: tuple[float, ...]) -> dict[str, float]:
    """Search for seed 3; the search itself always uses seed 1."""
    cell = PlannedCell(folder, folder / "log", data_set, "known", 3, settings={}, threads=1, alone=False)
    return choose(cell, MethodSpec("known", Known, grid=grid), log, CONFIG.changed({"seed": 3}), silent)


def test_the_best_point_on_validation_users_is_chosen_once(tmp_path: Path, log: InteractionLog) -> None:
    tried.clear()
    for _ in range(2):
        assert search(tmp_path, log, rate=(0.01, 0.1, 5.0), steps=(1, 2)) == {"rate": 0.1, "steps": 2}
    assert len(tried) == 6
    trials = read_trials(tmp_path)
    assert len(trials) == 6
    assert {trial.validation_auc for trial in trials if trial.point["rate"] == 5.0} == {0.0}
    search(tmp_path, log, "other", rate=(0.01, 0.1, 5.0), steps=(1, 2))
    assert len(tried) == 12


def test_a_stopped_search_resumes(tmp_path: Path, log: InteractionLog) -> None:
    tried.clear()
    search(tmp_path, log, rate=(0.01,))
    assert search(tmp_path, log, rate=(0.01, 0.1)) == {"rate": 0.1}
    assert tried == [(0.01, 1), (0.1, 1)]


def test_without_a_grid_nothing_is_searched(tmp_path: Path, log: InteractionLog) -> None:
    assert search(tmp_path, log) == {}
    assert not list(tmp_path.iterdir())


def test_fewer_training_users_leave_the_others_alone(log: InteractionLog) -> None:
    whole, part = Task(log, CONFIG).split, Task(log, CONFIG, every=3).split
    np.testing.assert_array_equal(part.train, whole.train[::3])
    np.testing.assert_array_equal(part.validation, whole.validation)
    np.testing.assert_array_equal(part.test, whole.test)
