"""Cross-fitted logits: changing the labels of a user shows which logits depend on them."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from planted_models import TINY, complete_events, log_of

from resus.arrays import Floats, Integers
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.episodes.batch import features_of
from resus.evaluation.metrics import auc
from resus.history import EpochRecord, History
from resus.model.predictors import GradientSettings
from resus.model.predictors.average import AveragePredictor
from resus.model.predictors.base import Predictor
from resus.training.loop import Schedule
from resus.training.predictor import WORTHWHILE, better_of, fit_network
from resus.training.run import Run, TrainedPredictor
from resus.training.train import cross_fitted_logits, train, train_predictor
from resus.training.validation import Validation

FOLDS = 3
SETTINGS: dict[str, Any] = TINY | {"learner.kind": "plus", "training.folds": FOLDS, "encoder.epochs": 1}


@cache
def log() -> InteractionLog:
    return log_of(complete_events())


def config_of(**changes: Any) -> Config:
    return resolve(SETTINGS | {key.replace("__", "."): value for key, value in changes.items()})


def cross_fitted(
    config: Config, log: InteractionLog, folder: Path, known: Sequence[EpochRecord] = ()
) -> tuple[Floats, History]:
    """The logits of every row, NaN where there are none, and how their predictors were trained."""
    given = TrainedPredictor(some_predictor(config), known, folder / "logits.npy")
    logits, history = cross_fitted_logits(config, log, given, folder=folder / "run")
    np.testing.assert_array_equal(np.lib.format.open_memmap(folder / "logits.npy"), logits)
    return logits, history


@cache
def some_predictor(config: Config) -> Predictor:
    return train_predictor(config, log()).predictor


def with_other_labels(users: Integers) -> InteractionLog:
    labels, rows = log().labels.copy(), log().rows_of(users)
    labels[rows] = 1 - labels[rows]
    return replace(log(), labels=labels)


def by_hand(config: Config, users: Integers) -> Predictor:
    """A predictor that learns from the rows of these users only."""
    held_out, rows = log().rows_of(config.user_split(log().n_users).validation), log().rows_of(users)
    torch.manual_seed(config.seed)
    predictor = config.predictor.build_predictor(log().features)
    if predictor.network is None:
        predictor.fit(log(), rows, held_out, seed=config.seed, threads=1)
        return predictor
    chosen = GradientSettings.sharing(config.predictor)
    schedule = Schedule(
        "predictor",
        validate=lambda: auc(log().labels[held_out], predictor.logits_of_rows(log(), held_out)),
        epochs=chosen.epochs,
        patience=chosen.patience,
    )
    fit_network(predictor.network, log(), rows, schedule, chosen, seed=config.seed)
    return predictor


@pytest.mark.parametrize("kind", ["deepfm", "lightgbm"])
def test_a_training_users_logits_come_from_a_predictor_that_never_saw_the_user(kind: str, tmp_path: Path) -> None:
    config = config_of(predictor__kind=kind)
    users, before = config.user_split(log().n_users).train, cross_fitted(config, log(), tmp_path)[0]
    rows = log().rows_of(users)
    assert np.array_equal(np.isfinite(before).nonzero()[0], np.sort(rows)), "training users only"
    folds, left = [], users
    for number in range(FOLDS):
        after, _ = cross_fitted(config, with_other_labels(left[:1]), tmp_path / f"again {number}")
        starts = np.append(0, np.cumsum(log().lengths[users])[:-1])
        folds.append(users[~np.logical_or.reduceat(before[rows] != after[rows], starts)])
        assert left[0] in folds[-1], "a user's own labels do not reach the user's own logits"
        left = np.setdiff1d(left, folds[-1])
    assert np.array_equal(np.sort(np.concatenate(folds)), users), "each user is in exactly one fold"
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    for fold in folds:
        own = log().rows_of(fold)
        alone = by_hand(config, np.setdiff1d(users, fold))
        assert torch.equal(alone.logits(features_of(log(), own)), torch.from_numpy(before[own]))


def test_only_training_users_have_cross_fitted_logits(tmp_path: Path) -> None:
    config = config_of()
    trained, split = train(config, log(), folder=tmp_path), config.user_split(log().n_users)
    basis = np.lib.format.open_memmap(tmp_path / "checkpoints" / "basis.npy")
    assert np.isnan(basis[log().rows_of(np.concatenate([split.validation, split.test]))]).all()
    seen = log().rows_of(split.train)
    assert np.abs(basis[seen] - trained.model.predictor.logits(features_of(log(), seen)).numpy()).min() > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"predictor.kind": "none"},
        {"predictor.kind": "external", "predictor.column": "price"},
        {"training.folds": 1},
    ],
    ids=str,
)
def test_what_needs_no_fold_has_none(changes: dict[str, Any], tmp_path: Path) -> None:
    config = config_of().changed(changes)
    logits, history = cross_fitted(config, log(), tmp_path)
    assert history == []
    assert np.isnan(logits).all()
    assert not [record.stage for record in train(config, log()).history if "without fold" in record.stage]


@pytest.mark.parametrize("best", [1, 3])
def test_a_fold_trains_for_as_many_epochs_as_were_best_for_the_predictor(
    best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the validation users say of its own epochs."""
    known = [EpochRecord("predictor", epoch, 0.9 if epoch == best else 0.5) for epoch in range(1, 6)]
    found = []
    for step in (-0.01, 0.01):
        scores = itertools.count(0.5, step)
        monkeypatch.setattr(Validation, "auc_of_predictor", lambda _, __, scores=scores: next(scores))
        logits, history = cross_fitted(config_of(predictor__patience=1), log(), tmp_path / str(step), known)
        assert [record.epoch for record in history] == list(range(1, best + 1)) * FOLDS
        found.append(logits)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    ("average", "gain", "chosen"),
    [
        ("auto", 2.0, True),
        ("auto", 0.5, False),
        ("auto", -1.0, False),
        ("always", -1.0, True),
        ("never", 2.0, False),
    ],
)
def test_the_mean_of_predictors_is_taken_where_validation_users_gain_enough(
    average: str, gain: float, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gain` in Logloss is a multiple of what makes the mean worth its cost."""

    def logloss(_: Validation, predictor: Predictor) -> float:
        return 0.6 * (1 - gain * WORTHWHILE) if isinstance(predictor, AveragePredictor) else 0.6

    monkeypatch.setattr(Validation, "logloss_of_predictor", logloss)
    config = config_of(training__average=average)
    run = Run(config, log())
    alone, *fitted = (config.predictor.build_predictor(log().features) for _ in range(FOLDS + 1))
    found = better_of(run, alone, fitted)
    if chosen:
        assert isinstance(found, AveragePredictor)
        assert found.members == [alone, *fitted]
        assert [record.stage for record in run.history] == ["mean of all predictors"]
        assert better_of(run, found, fitted) is found, "a mean that another run gave"
    else:
        assert found is alone
        assert run.history == []
    assert better_of(run, alone, []) is alone
