"""Two workers learn what one learns."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from crew_of_two import SETTINGS
from planted_models import events, log_of, tiny

import resus
from resus.episodes.batch import EpisodeBatch
from resus.tensor_files import load_tensors
from resus.training import rowwise_adam
from resus.training.crew import Alone
from resus.training.shares import own_episodes, own_rows

SCRIPT = Path(__file__).with_name("crew_of_two.py")


class Half:
    """One of two workers, without the other."""

    size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def owns(self, users: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        own: np.ndarray[tuple[int], np.dtype[np.bool_]] = users % 2 == self.rank
        return own


def test_a_user_stays_with_one_worker_and_no_row_is_lost() -> None:
    log = log_of(events())
    rows = np.random.default_rng(1).permutation(log.n_rows)[:100]
    shares = [own_rows(Half(rank), log, rows) for rank in (0, 1)]  # type: ignore[arg-type]
    assert sorted(np.concatenate(shares)) == sorted(rows)
    owners = [{int(np.searchsorted(log.offsets, row, side="right")) - 1 for row in share} for share in shares]
    assert not owners[0] & owners[1]
    assert own_rows(Alone(), log, rows) is rows
    users = np.array([3, 4, 7, 10])
    batch = EpisodeBatch(log.rows_of(users), log.lengths[users], np.array([1, 0, 2, 1]))
    parts = [own_episodes(Half(rank), log, batch) for rank in (0, 1)]  # type: ignore[arg-type]
    assert [part.support_sizes.tolist() for part in parts] == [[0, 1], [1, 2]]
    assert [part.rows.tolist() for part in parts] == [
        log.rows_of(users[[1, 3]]).tolist(),
        log.rows_of(users[[0, 2]]).tolist(),
    ]
    assert sum(part.n_queries for part in parts) == batch.n_queries


@pytest.mark.integration
@pytest.mark.parametrize(("large", "learner"), [(1, "ridge"), (1_000_000, "nearest"), (1_000_000, "plus")])
def test_two_processes_train_the_model_of_one(
    large: int, learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, tests = Path(resus.__file__).parents[1], SCRIPT.parents[1]
    environment = os.environ | {"PYTHONPATH": f"{source}:{tests}", "OMP_NUM_THREADS": "1"}
    folder = tmp_path / "together"
    workers = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(tmp_path / "meeting"), str(folder), str(large), learner],
            env=environment,
        )
        for rank in (0, 1)
    ]
    assert [worker.wait(timeout=300) for worker in workers] == [0, 0]
    monkeypatch.setattr(rowwise_adam, "LARGE", large)
    alone = tiny(settings=SETTINGS, learner=learner).fit(log_of(events()))
    alone.save(tmp_path / "alone")
    one, other = (load_tensors(place / "model.safetensors")[0] for place in (folder, tmp_path / "alone"))
    assert one.keys() == other.keys()
    for name in one:
        assert torch.allclose(one[name], other[name], atol=2e-3), name
    together = resus.load(folder)
    for mine, theirs in zip(together.history, alone.history, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], abs=1e-4)
        assert mine["validation_auc"] == pytest.approx(theirs["validation_auc"], abs=2e-3)


def test_everyone_meets_even_where_one_owns_all_validation_users() -> None:
    class Owner(Half):
        """The worker to whom all users happen to fall; it counts how often the others would wait for it."""

        met = 0

        def owns(self, users: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
            return np.ones(len(users), dtype=np.bool_)

        def share(self, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> torch.Tensor:
            return loss

        def combine(self, values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Any:
            self.met += 1
            return values

        def wait(self) -> None:
            pass

    crew = Owner(0)
    tiny(settings=SETTINGS).fit(log_of(events()), crew=crew)
    assert crew.met == 4, "after each of two epochs of two stages"
