"""Scalars fitted again on validation users: against one logistic regression per support size, and a grid of λ."""

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from planted_models import TINY, small_log
from scipy.optimize import minimize

from resus.arrays import Doubles
from resus.baselines.base import Task
from resus.config.resolve import resolve
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import logloss
from resus.model.learners.ridge import RidgeLearner
from resus.model.personalizer import Personalizer
from resus.paper.rivals.refit import Refit, refit_scalars
from resus.paper.rivals.residual import Residual


def task(**changes: Any) -> Task:
    return Task(small_log(), resolve(TINY | changes))


def trained(learner: str, given: Task) -> Personalizer:
    method = Residual(learner=learner)
    method.fit(given)
    return method.model


def answers_of(model: Personalizer, given: Task, sizes: list[int]) -> Doubles:
    """Λ's answers of the validation users, before β; NaN for rows of the support."""
    plain = copy.deepcopy(model)
    with torch.no_grad():
        plain.fusion.scale.fill_(1.0)
        if plain.fusion.bias is not None:
            plain.fusion.bias.fill_(0.0)
    ordered = given.validation
    basis = model.predictor.logits_of_rows(given.log, ordered.rows)
    added = plain.score_prefixes(given.log, ordered, sizes).astype(np.float64) - basis[:, None]
    return np.where(ordered.positions[:, None] >= np.array(sizes), added, np.nan)


def best_regression(answers: Doubles, basis: Doubles, labels: Doubles, *, bias: bool) -> Doubles:
    """β and a bias, or 0, with the smallest Logloss, by a general optimiser."""

    def loss(numbers: Doubles) -> float:
        logits = basis + numbers[0] * answers + (numbers[1] if bias else 0.0)
        return float(np.logaddexp(0, np.where(labels > 0, -logits, logits)).mean())

    found: Doubles = minimize(loss, np.array([1.0, 0.0]), method="BFGS", options={"gtol": 1e-8}).x
    return found


def loss_of(model: Personalizer, given: Task, sizes: list[int]) -> float:
    """The Logloss of all validation queries at all sizes."""
    ordered = given.validation
    logits = model.score_prefixes(given.log, ordered, sizes)
    row, column = np.nonzero(ordered.positions[:, None] >= np.array(sizes))
    return logloss(given.log.labels[ordered.rows[row]], logits[row, column])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("learner", ["ridge", "nearest"])
def test_each_size_gets_its_own_logistic_regression(learner: str, bias: bool) -> None:
    given = task(**{"fusion.bias": bias})
    sizes, ordered = [1, 2, 3, 4, 5, 6], given.validation
    model = trained(learner, given)
    before = loss_of(model, given, sizes)
    refit_scalars(model, given)
    assert loss_of(model, given, sizes) < before
    answers, fusion = answers_of(model, given, sizes), model.fusion
    basis = model.predictor.logits_of_rows(given.log, ordered.rows).astype(np.float64)
    labels = given.log.labels[ordered.rows].astype(np.float64)
    for column in range(len(sizes)):
        asked = np.isfinite(answers[:, column])
        beta, constant = best_regression(answers[asked, column], basis[asked], labels[asked], bias=bias)
        assert float(fusion.scale.detach()[column]) == pytest.approx(beta, rel=0.01, abs=0.01)
        if fusion.bias is not None:
            assert float(fusion.bias.detach()[column]) == pytest.approx(constant, rel=0.01, abs=0.01)


def test_no_other_ridge_is_better() -> None:
    given = task()
    sizes = list(range(1, 7))
    model = trained("ridge", given)
    refit_scalars(model, given)
    learner, reached = model.learner, loss_of(model, given, sizes)
    assert isinstance(learner, RidgeLearner)
    found = float(learner.ridge.detach())
    for factor in (0.1, 0.5, 2.0, 10.0):
        other = copy.deepcopy(model)
        other.learner = RidgeLearner(ridge=factor * found, learn_ridge=False, bias=False)
        refit_scalars(other, given)  # this λ stays, and gets its own β
        assert other.learner.ridge.item() == pytest.approx(factor * found, rel=1e-5)
        assert loss_of(other, given, sizes) > reached - 1e-5


def test_a_monotone_beta_stays_monotone() -> None:
    given = task(**{"fusion.monotone": True, "evaluation.step": 2})
    model = trained("nearest", given)
    before = loss_of(model, given, [2, 4, 6])
    refit_scalars(model, given)
    assert loss_of(model, given, [2, 4, 6]) < before
    assert (np.diff(model.fusion.scale.detach().numpy()) >= 0).all()


def test_sizes_that_are_not_evaluated_lie_between() -> None:
    given = task(**{"evaluation.step": 2})
    model = trained("nearest", given)
    refit_scalars(model, given)
    scale = model.fusion.scale.detach().numpy()
    np.testing.assert_allclose(scale[[2, 4]], (scale[[1, 3]] + scale[[3, 5]]) / 2, rtol=1e-5)
    assert scale[0] == scale[1]


def test_only_scalars_change_and_test_users_do_not_matter() -> None:
    given = task()
    plain = trained("ridge", given)
    test = given.log.rows_of(given.split.test)
    labels = given.log.labels.copy()
    labels[test] = 1 - labels[test]
    found = []
    for log in (given.log, replace(given.log, labels=labels)):
        method = Refit(learner="ridge")
        history = method.fit(replace(given, log=log))
        assert history[-1].stage == "scalars"
        found.append(method.trained.model)
    for name, tensor in found[0].state_dict().items():
        assert torch.equal(tensor, found[1].state_dict()[name])
        is_scalar = name.startswith("fusion") or name == "learner.raw_ridge"
        assert torch.equal(tensor, plain.state_dict()[name]) != is_scalar, name
    ordered = OrderedUsers.of(given.log, given.split.test, seed=1)
    answers = found[0].score_prefixes(given.log, ordered, [0])[:, 0]
    np.testing.assert_array_equal(answers, plain.predictor.logits_of_rows(given.log, ordered.rows))
    assert math.isfinite(history[-1].validation_auc)
