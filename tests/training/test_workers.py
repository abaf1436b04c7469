"""Two workers learn what one learns."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from planted_models import FEW_STEPS, events, log_of, tiny

import resus
from resus.arrays import Booleans, Floats, Integers
from resus.episodes.batch import EpisodeBatch
from resus.tensor_files import load_tensors
from resus.training import rowwise_adam, scales
from resus.training.workers import TorchWorkers, Workers, own_episodes, own_rows

SETTINGS = {"predictor.batch_size": 64, "training.batch_size": 64}
MODELS = {"ridge": 1, "nearest": 1_000_000, "plus": 1_000_000}  # and the rows from which a table is large


def work(rank: int, folder: Path) -> None:
    """Train with the other process, which meets this one in a folder."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    log = log_of(events())
    scales.STEPS = FEW_STEPS
    for learner, large in MODELS.items():
        rowwise_adam.LARGE = large
        tiny(settings=SETTINGS, learner=learner).fit(log, folder=folder / learner, workers=TorchWorkers())
    dist.destroy_process_group()


class Half(Workers):
    """One of two workers, without the other."""

    size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def owns(self, users: Integers) -> Booleans:
        own: Booleans = users % 2 == self.rank
        return own


def test_each_user_belongs_to_one_worker_and_no_row_is_lost() -> None:
    log = log_of(events())
    rows = np.random.default_rng(1).permutation(log.n_rows)[:100]
    shares = [own_rows(Half(rank), log, rows) for rank in (0, 1)]
    assert sorted(np.concatenate(shares)) == sorted(rows)
    owners = [set(log.owners_of(share)) for share in shares]
    assert not owners[0] & owners[1]
    assert own_rows(Workers(), log, rows) is rows
    users = np.array([3, 4, 7, 10])
    batch = EpisodeBatch(log.rows_of(users), log.lengths[users], np.array([1, 0, 2, 1]))
    parts = [own_episodes(Half(rank), log, batch) for rank in (0, 1)]
    assert [part.support_sizes.tolist() for part in parts] == [[0, 1], [1, 2]]
    assert [part.rows.tolist() for part in parts] == [
        log.rows_of(users[[1, 3]]).tolist(),
        log.rows_of(users[[0, 2]]).tolist(),
    ]
    assert sum(part.n_queries for part in parts) == batch.n_queries


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of the models that two processes trained together."""
    folder = tmp_path_factory.mktemp("together")
    source, tests = Path(resus.__file__).parents[1], Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{source}:{tests}", "OMP_NUM_THREADS": "1"}
    commands = [[sys.executable, __file__, str(rank), str(folder)] for rank in (0, 1)]
    processes = [subprocess.Popen(command, env=environment) for command in commands]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    return folder


@pytest.mark.integration
@pytest.mark.parametrize("learner", MODELS)
def test_two_processes_train_the_model_of_one(
    learner: str, together: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rowwise_adam, "LARGE", MODELS[learner])
    alone = tiny(settings=SETTINGS, learner=learner).fit(log_of(events()))
    alone.save(tmp_path)
    one, other = (load_tensors(folder / "model.safetensors")[0] for folder in (together / learner, tmp_path))
    assert one.keys() == other.keys()
    for name in one:
        assert torch.allclose(one[name], other[name], atol=2e-3), name
    for mine, theirs in zip(resus.load(together / learner).history, alone.history, strict=True):
        assert (mine.stage, mine.epoch) == (theirs.stage, theirs.epoch)
        assert mine.loss == pytest.approx(theirs.loss, abs=1e-4)
        assert mine.validation_auc == pytest.approx(theirs.validation_auc, abs=2e-3)


def test_a_worker_that_owns_all_validation_users_still_meets_the_others() -> None:
    class Owner(Half):
        """Owns all users, and counts how often the others would wait for it."""

        met = 0

        def owns(self, users: Integers) -> Booleans:
            return np.ones(len(users), dtype=np.bool_)

        def combine(self, values: Floats) -> Floats:
            self.met += 1
            return values

    owner = Owner(0)
    tiny(settings=SETTINGS).fit(log_of(events()), workers=owner)
    assert owner.met == 4, "after each of two epochs of two stages"


if __name__ == "__main__":
    work(int(sys.argv[1]), Path(sys.argv[2]))
