"""RESUS+'s learner against the posterior written out: features, a numeric optimiser and inverses, user by user."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from logistic_oracle import ITEMS, design_of, newton
from scipy.optimize import brentq
from scipy.special import expit
from torch import Tensor

from resus.arrays import Doubles
from resus.model.learners.base import Posterior
from resus.model.learners.plus.fit import fit
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.plus.prior import Known

PRIOR = {"bias": 0.6, "taste": 1.7, "repeat": 2.5}


def built(steps: int = 4, *, bias: bool = True, taste: bool = True, repeats: bool = True) -> PlusLearner:
    learner = PlusLearner(steps=steps, bias=bias, taste=taste, repeats=repeats)
    learner.start_from(**PRIOR)
    return learner


@dataclass(frozen=True)
class Users:
    """Rows `[U, S, 1 + K]` with few items, so that they repeat; empty slots hold large numbers."""

    support: Tensor
    mask: Tensor
    outcomes: Tensor
    query: Tensor  # [U, P, 1 + K]

    @property
    def flat(self) -> tuple[Tensor, Tensor]:
        users, places, width = self.query.shape
        return self.query.reshape(-1, width), torch.arange(users).repeat_interleave(places)

    def answers(self, learner: PlusLearner) -> Tensor:
        query, owner = self.flat
        answers: Tensor = learner(self.support, self.mask, self.outcomes, query, owner)
        return answers.view(self.query.shape[:2])

    def posterior(self, learner: PlusLearner) -> Posterior:
        (posterior,) = learner.posteriors(self.support, self.mask, self.outcomes, [self.mask.shape[1]])
        return posterior

    def known(self, user: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
        """Support, labels, basis and queries of one user."""
        mask = self.mask[user]
        outcomes = self.outcomes[user][mask].double().numpy()
        support = self.support[user][mask].double().numpy()
        return support, outcomes[:, 0], outcomes[:, 1], self.query[user].double().numpy()


def drawn(sizes: list[int], *, width: int = 3, places: int = 5, seed: int = 0, spread: float = 2.0) -> Users:
    random = torch.Generator().manual_seed(seed)

    def rows(count: int) -> Tensor:
        items = torch.randint(ITEMS, (len(sizes), count, 1), generator=random)
        return torch.cat([items, torch.randn(len(sizes), count, width, generator=random)], dim=2)

    slots = max(sizes)
    mask = torch.arange(slots) < torch.tensor(sizes).unsqueeze(1)
    labels = torch.randint(2, (len(sizes), slots), generator=random).float()
    outcomes = built().outcomes(labels, spread * torch.randn(len(sizes), slots, generator=random))
    support = torch.where(mask.unsqueeze(2), rows(slots), 1e3)
    return Users(support, mask, torch.where(mask.unsqueeze(2), outcomes, 7e3), rows(places))


def test_no_step_leads_away_from_the_mode() -> None:
    users = drawn([30], width=4, seed=3, spread=6.0)
    support, labels, basis, _ = users.known(0)
    design = design_of(support, PRIOR)
    losses = []
    for steps in range(1, 9):
        learner = built(steps)
        known = Known.of(users.support, users.mask, users.outcomes)
        dual = fit(learner.prior, known, steps=steps).detach().numpy()[0]
        weights = design.T @ dual
        logits = basis + design @ weights
        losses.append(np.logaddexp(0, logits).sum() - labels @ logits + weights @ weights / 2)
    assert np.all(np.diff(losses) <= 1e-9)
    best, _ = newton(design, labels, basis)
    logits = basis + design @ best
    optimum = np.logaddexp(0, logits).sum() - labels @ logits + best @ best / 2
    assert losses[5] - optimum < 1e-6 * (losses[0] - optimum)


def test_steps_end_where_more_of_them_would_not_be_seen() -> None:
    users = drawn([12, 7], width=3, seed=4)
    known = Known.of(users.support, users.mask, users.outcomes)
    fits = [fit(built().prior, known, steps=steps).detach() for steps in (1, 9, 30)]
    assert torch.equal(fits[1], fits[2]), "none is taken after the fit has arrived"
    assert not torch.allclose(fits[0], fits[1], atol=1e-3)


@pytest.mark.parametrize(("label", "basis"), [(1.0, 0.0), (0.0, 1.5), (1.0, -6.0)])
def test_six_steps_are_near_the_mode_also_of_a_long_user_of_one_label(label: float, basis: float) -> None:
    events = 600
    drawn_rows = drawn([events], width=2, seed=15)
    outcomes = built().outcomes(torch.full((1, events), label), torch.full((1, events), basis))
    user = Users(drawn_rows.support, drawn_rows.mask, outcomes, drawn_rows.query)
    support, labels, basis_logits, query = user.known(0)
    mode, _ = newton(design_of(support, PRIOR), labels, basis_logits)
    found = user.answers(built(steps=6)).detach().double().numpy()[0]
    np.testing.assert_allclose(found, design_of(query, PRIOR) @ mode, rtol=0.03)


@pytest.mark.parametrize("missing", ["bias", "taste", "repeats"])
def test_a_part_left_out_has_no_variance(missing: str) -> None:
    users = drawn([6, 4], seed=4)
    found = users.answers(built(steps=14, **{missing: False})).detach().double().numpy()
    prior = PRIOR | {"repeat" if missing == "repeats" else missing: 0.0}
    for user in range(2):
        support, labels, basis, query = users.known(user)
        mode, _ = newton(design_of(support, prior), labels, basis)
        np.testing.assert_allclose(found[user], design_of(query, prior) @ mode, atol=2e-5)


@pytest.mark.parametrize("steps", [1, 9])
@pytest.mark.parametrize(("sizes", "width"), [([30, 12, 0], 3), ([9, 4], 16), ([1], 1)])
def test_prefixes_answer_as_each_size_on_its_own(sizes: list[int], width: int, steps: int) -> None:
    """Also where the fit to more events goes through a system of φ's size, and where it may not start from fewer."""
    users, learner = drawn(sizes, width=width, seed=len(sizes)), built(steps)
    asked = [*range(1, max(sizes) + 1), 1]
    with torch.no_grad():
        found = learner.prefixes(users.support, users.mask, users.outcomes, users.query, asked)
        for column, k in enumerate(asked):
            alone = Users(users.support[:, :k], users.mask[:, :k], users.outcomes[:, :k], users.query)
            torch.testing.assert_close(found[..., column], alone.answers(learner), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("asked", [[0, 1], [1], [0, 1, 2, 3], [3, 0]])
def test_prefixes_of_a_surely_wrong_basis_end_at_the_mode(asked: list[int]) -> None:
    learner = PlusLearner(steps=6, bias=True, taste=False, repeats=False)
    learner.start_from(bias=16.0, taste=1.0, repeat=1.0)
    rows = torch.cat([torch.arange(3.0).view(1, 3, 1), torch.ones(1, 3, 2)], dim=2)
    mask, query = torch.ones(1, 3, dtype=torch.bool), rows[:, :1] + 7
    outcomes = learner.outcomes(torch.ones(1, 3), torch.full((1, 3), -8.0))
    with torch.no_grad():
        found = learner.prefixes(rows, mask, outcomes, query, asked)[0, 0]
    for column, k in enumerate(asked):
        mode = brentq(lambda added, k=k: 16.0 * k * expit(8.0 - added) - added, 0.0, 100.0)
        assert found[column].item() == pytest.approx(mode, abs=1e-3)


def test_many_events_are_answered_as_few_are() -> None:
    """Supports beyond 2·(K + 1) events go through a system of φ's size; as a prefix of wide rows they do not."""
    narrow, learner = drawn([40, 25, 0], width=2, seed=9), built()
    wide_rows = [
        torch.cat([rows, rows.new_zeros(*rows.shape[:2], 60)], dim=2) for rows in (narrow.support, narrow.query)
    ]
    wide = Users(wide_rows[0], narrow.mask, narrow.outcomes, wide_rows[1])
    torch.testing.assert_close(narrow.answers(learner), wide.answers(learner), rtol=1e-5, atol=1e-6)
    scale_of = torch.autograd.grad(narrow.answers(learner).square().sum(), list(learner.parameters()))
    scale_in_dual = torch.autograd.grad(wide.answers(learner).square().sum(), list(learner.parameters()))
    torch.testing.assert_close(scale_of, scale_in_dual, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [3, 16])
def test_the_variance_is_that_of_laplace(width: int) -> None:
    users, learner = drawn([12, 5], width=width, seed=11), built(steps=14)
    with torch.no_grad():
        found = users.posterior(learner).variance(users.query).numpy()
    for user in range(2):
        support, labels, basis, query = users.known(user)
        _, hessian = newton(design_of(support, PRIOR), labels, basis)
        design = design_of(query, PRIOR)
        np.testing.assert_allclose(found[user], (design @ np.linalg.inv(hessian) * design).sum(axis=1), rtol=1e-5)


@settings(deadline=None, max_examples=15)
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=3).filter(any),
    width=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_the_variance_of_a_sum_is_that_of_the_whole_covariance(sizes: list[int], width: int, seed: int) -> None:
    users, learner = drawn(sizes, width=width, places=8, seed=seed), built(steps=14)
    weights = torch.rand(len(sizes), 8, generator=torch.Generator().manual_seed(seed)) * torch.tensor([0.0, *[1.0] * 7])
    with torch.no_grad():
        found = users.posterior(learner).variance_of_sum(users.query, weights).numpy()
    for user in range(len(sizes)):
        support, labels, basis, query = users.known(user)
        _, hessian = newton(design_of(support, PRIOR), labels, basis)
        summed = weights[user].double().numpy() @ design_of(query, PRIOR)
        np.testing.assert_allclose(found[user], summed @ np.linalg.inv(hessian) @ summed, rtol=1e-5)


def test_gradients_of_the_scales_are_those_of_differences() -> None:
    users, learner = drawn([7, 3], seed=12), built()
    value = users.answers(learner).double().square().sum()
    gradients = torch.autograd.grad(value, list(learner.parameters()))
    for parameter, gradient in zip(learner.parameters(), gradients, strict=True):
        moved = []
        for step in (1e-2, -1e-2):
            with torch.no_grad():
                parameter.add_(step)
                moved.append(float(users.answers(learner).double().square().sum()))
                parameter.sub_(step)
        assert abs((moved[0] - moved[1]) / 2e-2 - float(gradient)) < 1e-3 * max(1.0, abs(float(gradient)))


@pytest.mark.parametrize(("size", "width"), [(6, 3), (20, 1)])
def test_unknown_items_are_not_the_same(size: int, width: int) -> None:
    """Of two events and a query whose items are unknown, each counts as a separate item."""
    users, learner = drawn([size, 3], width=width, seed=15), built()
    unknown, apart, asked = users.support.clone(), users.support.clone(), users.query.clone()
    unknown[:, :2, 0], apart[:, :2, 0], asked[:, 0, 0] = -1.0, torch.tensor([91.0, 92.0]), -1.0
    away = asked.clone()
    away[:, 0, 0] = 93.0
    pairs = [Users(rows, users.mask, users.outcomes, query) for rows, query in ((unknown, asked), (apart, away))]
    with torch.no_grad():
        found, expected = (each.answers(learner) for each in pairs)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        sizes = range(1, size + 1)
        found, expected = (
            learner.prefixes(each.support, each.mask, each.outcomes, each.query, sizes) for each in pairs
        )
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        found, expected = (each.posterior(learner).variance(each.query) for each in pairs)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
        found, expected = (learner.evidence(each.support, each.mask, each.outcomes) for each in pairs)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_the_surest_basis_does_no_harm() -> None:
    users = drawn([6], seed=14, spread=400.0)
    assert bool(users.answers(built()).isfinite().all())
