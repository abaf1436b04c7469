"""RESUS+ as a whole run: who may read whose labels, and a run that is stopped anywhere ends as one undisturbed."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from planted_models import TINY, events, log_of

from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.progress import Progress
from resus.tensor_files import load_tensors
from resus.training import loop
from resus.training.run import Trained, train
from resus.training.stages import factorize, refine

Floats = npt.NDArray[np.float32]
FOLDS = 2
STAGES = ("factors", "scales", "evidence", "residuals")
SCALES = ("learner.log_bias", "learner.log_taste", "learner.log_repeat")


@cache
def log() -> InteractionLog:
    return log_of(events())


def config_of(kind: str = "deepfm", **changes: Any) -> Config:
    settings: dict[str, Any] = {"learner.kind": "plus", "predictor.kind": kind, "training.folds": FOLDS}
    settings |= {"encoder.epochs": 2, "predictor.batch_size": 64, "training.batch_size": 32}
    return resolve(TINY | settings | {key.replace("__", "."): value for key, value in changes.items()})


@pytest.fixture(autouse=True)
def _several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factorize, "BATCH_ROWS", 128)
    monkeypatch.setattr(refine, "BATCH_ROWS", 128)


@cache
def undisturbed(kind: str = "deepfm") -> Trained:
    return train(config_of(kind), log())


def weights_of(trained: Trained) -> dict[str, torch.Tensor]:
    predictor = {f"predictor.{name}": tensor for name, tensor in trained.model.predictor.state_dict().items()}
    return trained.model.state_dict() | predictor


def assert_same(one: Trained, other: Trained) -> None:
    mine, theirs = weights_of(one), weights_of(other)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    told, expected = ([line | {"seconds": 0} for line in trained.history] for trained in (one, other))
    assert told == expected


def changed(users: npt.NDArray[np.int64], change: Callable[[Floats], Floats]) -> InteractionLog:
    labels, rows = log().labels.copy(), log().rows_of(users)
    labels[rows] = change(labels[rows])
    return replace(log(), labels=labels)


@pytest.mark.parametrize("kind", ["deepfm", "none"])
def test_no_label_of_a_test_user_is_read(kind: str) -> None:
    config = config_of(kind)
    hidden = changed(config.user_split(log().n_users).test, lambda labels: 1 - labels)
    assert_same(train(config, hidden), train(config, log()))


def test_the_scales_are_learned_from_validation_users_alone(tmp_path: Path) -> None:
    """Every training user's labels are turned once the factors stand: the scales do not move, the evidence does."""
    config, turned = config_of(), replace(log(), labels=log().labels.copy())
    rows = turned.rows_of(config.user_split(turned.n_users).train)

    def turn(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith("factors, epoch 2 ") and done == total:
            turned.labels[rows] = 1 - turned.labels[rows]

    disturbed = train(config, turned, folder=tmp_path / "turned", progress=turn)
    train(config, log(), folder=tmp_path / "calm")
    assert not np.array_equal(turned.labels, log().labels)
    before, after = (stage_of(tmp_path / name, "scales") for name in ("calm", "turned"))
    assert all(torch.equal(before[name], after[name]) for name in before)
    factors = stage_of(tmp_path / "calm", "factors")
    assert all(before[f"module.{name}"] != factors[f"best.model.{name}"] for name in SCALES)
    moved = [
        (one, other) for one, other in zip(disturbed.history, undisturbed().history, strict=True) if unlike(one, other)
    ]
    assert {one["stage"] for one, _ in moved} == {"evidence", "residuals"}


def unlike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one | {"seconds": 0} != other | {"seconds": 0}


class StoppedError(Exception):
    pass


def stop_at(stage: str, calls: int) -> Progress:
    """Raises at the stage's next call after `calls`."""
    left = [calls]

    def progress(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith(f"{stage}, ") and "validation" not in task:
            if not left[0]:
                raise StoppedError
            left[0] -= 1

    return progress


def killed_in(stage: str, calls: int, config: Config, folder: Path, data: InteractionLog | None = None) -> None:
    with pytest.raises(StoppedError):
        train(config, data or log(), folder=folder, resume=True, progress=stop_at(stage, calls))


def stage_of(folder: Path, name: str) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "checkpoints" / f"{name}.safetensors")[0]


FOLD = f"predictor without fold 2 of {FOLDS}"


@pytest.mark.parametrize(
    ("stage", "calls"), [(FOLD, 3), ("factors", 4), ("scales", 1), ("evidence", 4), ("residuals", 0)]
)
def test_a_run_stopped_in_any_stage_ends_as_one_undisturbed(
    stage: str, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    killed_in(stage, calls, config_of(), tmp_path)
    assert_same(train(config_of(), log(), folder=tmp_path, resume=True), undisturbed())


def test_a_run_stopped_again_and_again_ends_as_one_undisturbed(tmp_path: Path) -> None:
    for stage in ("predictor", FOLD, *STAGES):
        killed_in(stage, 2, config_of(), tmp_path)
    assert_same(train(config_of(), log(), folder=tmp_path, resume=True), undisturbed())


def test_trees_stopped_after_a_fold_are_gone_on_with(tmp_path: Path) -> None:
    for stage in (FOLD, "factors"):
        killed_in(stage, 0, config_of("lightgbm"), tmp_path)
    assert_same(train(config_of("lightgbm"), log(), folder=tmp_path, resume=True), undisturbed("lightgbm"))


def test_half_written_logits_of_a_fold_are_written_to_the_end(tmp_path: Path) -> None:
    killed_in("factors", 0, config_of(), tmp_path)
    basis = np.lib.format.open_memmap(tmp_path / "checkpoints" / "basis.npy", mode="r+")
    known = np.flatnonzero(np.isfinite(basis))
    basis[known[::3]] = np.nan
    basis.flush()
    assert_same(train(config_of(), log(), folder=tmp_path, resume=True), undisturbed())
