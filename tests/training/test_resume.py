"""A run that is killed and resumed ends exactly like one that ran through."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from planted_models import TINY, events, log_of

from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.errors import ArtifactError
from resus.progress import Progress, silent
from resus.tensor_files import load_tensors
from resus.training import factors, loop, rowwise_adam
from resus.training.train import Trained, train, train_predictor

FOLDS = 2
FOLD = f"predictor without fold {FOLDS} of {FOLDS}"
BATCHES = {"predictor.batch_size": 64, "training.batch_size": 64}
PLUS: dict[str, Any] = {"learner.kind": "plus", "training.folds": FOLDS, "encoder.epochs": 2, "training.batch_size": 32}
MODELS: dict[str, dict[str, Any]] = {
    "ridge": {},
    "ridge with a fixed λ": {"learner.learn_ridge": False, "fusion.bias": True},
    "nearest": {"learner.kind": "nearest"},
    "joint ridge": {"predictor.pretrain": False},
    "joint nearest": {"predictor.pretrain": False, "learner.kind": "nearest"},
    "plus": PLUS,
    "plus on trees": PLUS | {"predictor.kind": "lightgbm"},
    "plus of a mean": PLUS | {"training.average": "always"},
    "plus of a mean of trees": PLUS | {"predictor.kind": "lightgbm", "training.average": "always"},
}
LAST = "scales without folds"
SHARED = "factors shared with choices"
PLUS_STAGES = ("factors", "scales", SHARED, "factors without folds", LAST)


@cache
def log() -> InteractionLog:
    return log_of(events())


def config_of(model: str) -> Config:
    return resolve(TINY | BATCHES | MODELS[model])


@pytest.fixture(autouse=True)
def _several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "BATCH_ROWS", 48)


@pytest.fixture
def _save_after_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)


@cache
def uninterrupted(model: str) -> Trained:
    return train(config_of(model), log())


def resume(model: str, folder: Path, progress: Progress = silent) -> Trained:
    return train(config_of(model), log(), folder=folder, resume=True, progress=progress)


def assert_same(one: Trained, other: Trained) -> None:
    assert one.history == other.history
    for mine, theirs in (
        (one.model.state_dict(), other.model.state_dict()),
        (one.model.predictor.state_dict(), other.model.predictor.state_dict()),
    ):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


class KilledError(Exception):
    pass


class Killer:
    """Progress that lets a stage, or one epoch, report `calls` times and raises at the next report."""

    def __init__(self, stage: str, calls: int) -> None:
        self.task, self.left, self.done = stage if "," in stage else f"{stage},", calls, 0

    def __call__(self, task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith(self.task):
            if not self.left:
                self.done = done
                raise KilledError
            self.left -= 1


def kill(model: str, stage: str, calls: int, folder: Path) -> int:
    """Train until the stage has reported so often; return how many rows of the epoch were done by then."""
    killer = Killer(stage, calls)
    with pytest.raises(KilledError):
        resume(model, folder, killer)
    return killer.done


@pytest.mark.usefixtures("_save_after_each_batch")
@pytest.mark.parametrize("large", [1, 1_000_000])
@pytest.mark.parametrize(("stage", "calls"), [("predictor", 3), ("predictor, epoch 2", 1), ("residuals", 4)])
def test_an_epoch_resumes_after_its_last_saved_batch(
    stage: str, calls: int, large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rowwise_adam, "LARGE", large)
    expected = train(config_of("ridge"), log())
    done = kill("ridge", stage, calls, tmp_path)
    kept = tmp_path / "checkpoints" / f"{stage.partition(',')[0]}.safetensors"
    assert load_tensors(kept)[1]["state"]["batch"] == calls
    reported: list[int] = []

    def watch(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith(stage):
            reported.append(done)

    assert_same(resume("ridge", tmp_path, watch), expected)
    assert reported[0] == done, "it does not repeat the batches before"


@pytest.mark.usefixtures("_save_after_each_batch")
@pytest.mark.parametrize(
    ("stage", "calls"), [(FOLD, 3), ("factors", 4), ("scales", 6), (SHARED, 4), ("factors without folds", 4), (LAST, 9)]
)
def test_each_stage_of_resus_plus_resumes(stage: str, calls: int, tmp_path: Path) -> None:
    kill("plus", stage, calls, tmp_path)
    assert_same(resume("plus", tmp_path), uninterrupted("plus"))


@pytest.mark.parametrize("model", ["plus", "plus of a mean"])
def test_a_run_killed_in_every_stage_resumes(model: str, tmp_path: Path) -> None:
    for stage in ("predictor", FOLD, *PLUS_STAGES):
        kill(model, stage, 2, tmp_path)
    assert_same(resume(model, tmp_path), uninterrupted(model))


@pytest.mark.parametrize("model", ["plus on trees", "plus of a mean of trees"])
def test_a_run_on_trees_resumes_after_a_fold(model: str, tmp_path: Path) -> None:
    for stage in (FOLD, "factors"):
        kill(model, stage, 0, tmp_path)
    assert_same(resume(model, tmp_path), uninterrupted(model))


def test_half_written_logits_are_completed(tmp_path: Path) -> None:
    kill("plus", "factors", 0, tmp_path)
    logits = np.lib.format.open_memmap(tmp_path / "checkpoints" / "basis.npy", mode="r+")
    logits[np.flatnonzero(np.isfinite(logits))[::3]] = np.nan
    logits.flush()
    assert_same(resume("plus", tmp_path), uninterrupted("plus"))


@pytest.mark.usefixtures("_save_after_each_batch")
@pytest.mark.parametrize("model", MODELS)
def test_checkpoints_hold_all_that_the_last_stage_needs(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resumed run starts from other weights, so anything that is missing in a checkpoint would show."""
    kill(model, uninterrupted(model).history[-1].stage, 3, tmp_path)
    seed = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda number: seed(number + 100))
    assert_same(resume(model, tmp_path), uninterrupted(model))


def test_a_predictor_that_is_trained_alone_resumes(tmp_path: Path) -> None:
    expected = train_predictor(config_of("ridge"), log())
    with pytest.raises(KilledError):
        train_predictor(config_of("ridge"), log(), folder=tmp_path, progress=Killer("predictor, epoch 2", 2))
    found = train_predictor(config_of("ridge"), log(), folder=tmp_path)
    assert found.history == expected.history
    mine, theirs = found.predictor.state_dict(), expected.predictor.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_a_run_resumes_only_with_the_same_settings_data_and_predictor(tmp_path: Path) -> None:
    kill("ridge", "residuals", 0, tmp_path)
    given = train_predictor(config_of("ridge"), log())
    with pytest.raises(ArtifactError, match="holds an unfinished run: resume it with resume=True"):
        train(config_of("ridge"), log(), folder=tmp_path)
    for config, predictor in ((config_of("nearest"), None), (config_of("ridge"), given)):
        with pytest.raises(ArtifactError, match="holds an unfinished run with other settings or other data"):
            train(config, log(), folder=tmp_path, resume=True, given=predictor)
