"""The stages of each recipe, and which users' labels they read."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from planted_models import TINY, events, log_of

from resus.arrays import Integers
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.model.learners.plus.factors import FactorEncoder
from resus.tensor_files import load_tensors
from resus.training import factors
from resus.training.recipes import plus as recipe
from resus.training.train import train
from resus.training.validation import Validation

FOLDS = ["predictor without fold 1 of 2", "predictor without fold 2 of 2"]
PLUS: dict[str, Any] = {"learner.kind": "plus", "training.folds": 2, "encoder.epochs": 2, "training.batch_size": 32}
ON_FOLDS = ["factors", "scales", "factors shared with choices", "scales shared with choices"]
LEARNED = [*ON_FOLDS, "factors without folds", "scales without folds"]
MEAN = "mean of all predictors"


@cache
def log() -> InteractionLog:
    return log_of(events())


def config_of(settings: dict[str, Any]) -> Config:
    return resolve(TINY | settings)


def with_other_labels(users: Integers) -> InteractionLog:
    labels, rows = log().labels.copy(), log().rows_of(users)
    labels[rows] = 1 - labels[rows]
    return replace(log(), labels=labels)


@pytest.mark.parametrize(
    ("settings", "stages"),
    [
        ({}, ["predictor", "residuals"]),
        ({"learner.kind": "nearest", "predictor.kind": "lightgbm"}, ["predictor", "residuals"]),
        ({"predictor.kind": "none"}, ["residuals"]),
        ({"predictor.pretrain": False}, ["residuals"]),
        (PLUS | {"training.average": "never"}, ["predictor", *FOLDS, *LEARNED]),
        (PLUS | {"training.average": "always"}, ["predictor", *FOLDS, MEAN, *LEARNED]),
        (PLUS | {"training.folds": 1}, ["predictor", *ON_FOLDS]),
        (PLUS | {"predictor.kind": "none"}, ON_FOLDS),
        (PLUS | {"predictor.kind": "none", "learner.choices": False}, ON_FOLDS[:2]),
    ],
    ids=str,
)
def test_stages_have_true_names(settings: dict[str, Any], stages: Sequence[str]) -> None:
    history = train(config_of(settings), log()).history
    assert list(dict.fromkeys(record.stage for record in history)) == stages


@pytest.mark.parametrize(("stage", "settings"), [("predictor", {}), ("residuals", {"predictor.pretrain": False})])
def test_training_lowers_the_loss(stage: str, settings: dict[str, Any]) -> None:
    longer = {"epochs": 4, "patience": 4, "batch_size": 64, "learning_rate": 0.01}
    longer = {f"{section}.{key}": value for section in ("predictor", "training") for key, value in longer.items()}
    history = train(config_of(longer | settings), log()).history
    losses = [record.loss or 0 for record in history if record.stage == stage]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("settings", [{}, PLUS, PLUS | {"predictor.kind": "none"}], ids=str)
def test_no_label_of_a_test_user_is_read(settings: dict[str, Any]) -> None:
    config = config_of(settings)
    hidden = with_other_labels(config.user_split(log().n_users).test)
    one, other = train(config, hidden), train(config, log())
    assert one.history == other.history
    mine, theirs = one.model.state_dict(), other.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_many_users_are_not_learned_without_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(PLUS)
    monkeypatch.setattr(recipe, "FEW_USERS", len(config.user_split(log().n_users).train))
    stages = {record.stage for record in train(config, log()).history}
    assert not {stage for stage in stages if "without folds" in stage}


def test_the_scales_are_learned_from_validation_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flipping all labels of training users after the factors are learned changes the factors, not the scales."""
    monkeypatch.setattr(factors, "BATCH_ROWS", 128)
    config, flipped = config_of(PLUS), replace(log(), labels=log().labels.copy())
    rows = flipped.rows_of(config.user_split(flipped.n_users).train)

    def flip(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith("factors, epoch 2 ") and done == total:
            flipped.labels[rows] = 1 - flipped.labels[rows]

    one = train(config, flipped, folder=tmp_path / "flipped", progress=flip)
    other = train(config, log(), folder=tmp_path / "plain")
    assert not np.array_equal(flipped.labels, log().labels)

    def stage(folder: str, name: str) -> dict[str, torch.Tensor]:
        return load_tensors(tmp_path / folder / "checkpoints" / f"{name}.safetensors")[0]

    before, after, start = stage("plain", "scales"), stage("flipped", "scales"), stage("plain", "factors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    learned = {name for name in before if name.startswith("module.learner.")}
    assert len(learned) == len(list(one.model.learner.parameters()))
    for name in before:
        if name.startswith("module."):
            was = start[name.replace("module.", "best.model.")]
            assert torch.equal(before[name], was) == (name not in learned), name
    moved = {mine.stage for mine, theirs in zip(one.history, other.history, strict=True) if mine != theirs}
    assert moved == {*LEARNED} - {"factors", "scales"}


def test_validation_users_choose_between_ways_to_learn_factors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, ways = config_of(PLUS), LEARNED[1::2]
    for better in ways:
        calls: list[float] = []

        def judge(*_: object, calls: list[float] = calls, better: str = better) -> float:
            calls.append(0.6 if ways[len(calls)] == better else 0.7)
            return calls[-1]

        monkeypatch.setattr(Validation, "logloss_of_model", judge)
        trained = train(config, log(), folder=tmp_path / better)
        best, _ = load_tensors(tmp_path / better / "checkpoints" / f"{better.replace(' ', '-')}.safetensors")
        assert len(calls) == 3
        assert bool(FactorEncoder.of(trained.model.encoder).speaks.all()) == (better == "scales shared with choices")
        for name, tensor in trained.model.state_dict().items():
            assert torch.equal(tensor, best[f"best.{name}"]), name
