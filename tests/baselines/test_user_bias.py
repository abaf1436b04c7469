"""User bias against numbers worked out by hand, loops over users, and logs with and without personal taste."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from planted_models import TINY

from resus.baselines.base import Task
from resus.baselines.user_bias import UserBias
from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.data.log.manifest import Manifest
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.model.predictors.base import NoPredictor

SIZES = (0, 1, 3, 6)


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=120, items=20, events_per_user=14, bias_spread=1.5, seed=5))


@pytest.fixture(scope="module")
def fitted(log: InteractionLog) -> UserBias:
    method = UserBias()
    method.fit(Task(log, resolve(TINY)))
    return method


def naive_loss(method: UserBias, task: Task, scale: float, prior: float) -> float:
    """The mean cross-entropy over every size's queries of the validation users, one query after the other."""
    found, start = [], 0
    basis = method.predictor.logits_of_rows(task.log, task.validation.rows).astype(np.float64)
    labels = task.log.labels[task.validation.rows].astype(np.float64)
    for length in task.validation.lengths:
        own, clicked = basis[start : start + length], labels[start : start + length]
        residuals = clicked - 1 / (1 + np.exp(-own))
        for size in task.config.evaluation.sizes[1:]:
            added = scale * residuals[:size].sum() / (size + prior)
            found += list(np.logaddexp(0.0, own[size:] + added) - clicked[size:] * (own[size:] + added))
        start += length
    return float(np.mean(found))


def test_a_case_worked_out_by_hand(log: InteractionLog) -> None:
    method = UserBias()
    method.predictor, method.scale, method.prior = NoPredictor(), 2.0, 3.0
    labels = log.labels.copy()
    labels[log.offsets[0] : log.offsets[0] + 3] = [1, 1, 0]
    changed = replace(log, labels=labels)
    ordered = OrderedUsers.of(changed, np.array([0]), seed=1)
    answers = method.score_prefixes(changed, ordered, (0, 1, 2, 3))
    # Ψ = 0, so the residuals are ½, ½, −½
    np.testing.assert_allclose(answers[-1], [0, 2 * 0.5 / 4, 2 * 1.0 / 5, 2 * 0.5 / 6], rtol=1e-6)


def test_scores_equal_a_loop_over_users(log: InteractionLog, fitted: UserBias) -> None:
    users = np.arange(10)
    lengths = log.lengths[users]
    sizes = np.minimum(np.arange(10) % 5, lengths - 1)
    rows = log.rows_of(users)
    basis = fitted.predictor.logits_of_rows(log, rows).astype(np.float64)
    expected: list[float] = []
    for start, length, size in zip(np.cumsum(lengths) - lengths, lengths, sizes, strict=True):
        known = slice(start, start + size)
        residual = sum(log.labels[rows[known]] - 1 / (1 + np.exp(-basis[known])))
        expected += list(basis[start + size : start + length] + fitted.scale * residual / (size + fitted.prior))
    np.testing.assert_allclose(fitted.score(log, EpisodeBatch(rows, lengths, sizes)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_no_other_scale_or_prior_is_better(log: InteractionLog, fitted: UserBias, factor: float) -> None:
    task = Task(log, resolve(TINY))
    best = naive_loss(fitted, task, fitted.scale, fitted.prior)
    assert naive_loss(fitted, task, fitted.scale * factor, fitted.prior) > best
    assert naive_loss(fitted, task, fitted.scale, fitted.prior * factor) > best


def test_it_beat_the_shared_model_where_users_differ(log: InteractionLog, fitted: UserBias) -> None:
    task = Task(log, resolve(TINY))
    shared = UserBias()
    shared.predictor, shared.scale, shared.prior = fitted.predictor, 0.0, 1.0
    of_shared, of_bias = (task.validation_auc(partial(method.score_prefixes, log)) for method in (shared, fitted))
    assert of_bias > of_shared + 0.02


def test_where_all_users_are_alike_it_adds_next_to_nothing(log: InteractionLog) -> None:
    random = np.random.default_rng(1)
    alike = replace(log, labels=(random.random(log.n_rows) < 0.4).astype(np.float32), manifest=Manifest())
    method = UserBias()
    history = method.fit(Task(alike, resolve(TINY)))
    assert history[-1].stage == "bias"
    ordered = OrderedUsers.of(alike, np.arange(alike.n_users), seed=1)
    answers = method.score_prefixes(alike, ordered, SIZES)
    assert np.abs(answers - answers[:, :1]).mean() < 0.15
