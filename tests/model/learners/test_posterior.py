"""RESUS+'s learner against the posterior written out: features, a numeric optimiser and inverses, user by user."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plus_oracle import Scales, answers_of, design_of, draw_rows, layout_of, newton, plus_learner, rows_of
from scipy.optimize import brentq
from scipy.special import expit
from torch import Tensor

from resus.arrays import Doubles
from resus.model.learners.base import Posterior
from resus.model.learners.plus import fit as fitting
from resus.model.learners.plus.fit import fit
from resus.model.learners.plus.in_numpy.fit import Said
from resus.model.learners.plus.in_numpy.fit import fit as fit_in_numpy
from resus.model.learners.plus.in_numpy.systems import Dense
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.plus.numbers import LONG

WIDTH = 3


def built(steps: int = 4, width: int = WIDTH, **parts: bool) -> PlusLearner:
    return plus_learner(layout_of(width), steps=steps, **parts)


@dataclass(frozen=True)
class Users:
    """Rows `[U, S, K]` that match in many values; empty slots hold large numbers."""

    support: Tensor
    mask: Tensor
    outcomes: Tensor
    query: Tensor  # [U, P, K]

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

    def first(self, size: int) -> "Users":
        """Only the first slots of the supports."""
        return Users(self.support[:, :size], self.mask[:, :size], self.outcomes[:, :size], self.query)

    def designs(self, user: int, learner: PlusLearner) -> tuple[Doubles, Doubles]:
        """Feature vectors of the events and of the queries of one user."""
        support, _, _, query = self.known(user)
        both = design_of(rows_of(np.concatenate([support, query]), learner.layout), Scales.of(learner))
        return both[: len(support)], both[len(support) :]

    def mode(self, user: int, learner: PlusLearner) -> tuple[Doubles, Doubles]:
        """Of the weights of these vectors, with the Hessian there."""
        _, labels, basis, _ = self.known(user)
        return newton(self.designs(user, learner)[0], labels, basis, Scales.of(learner).trust_in(labels))


def drawn(sizes: list[int], *, width: int = WIDTH, places: int = 5, seed: int = 0, spread: float = 2.0) -> Users:
    random, layout = torch.Generator().manual_seed(seed), layout_of(width)
    slots = max(sizes)
    mask = torch.arange(slots) < torch.tensor(sizes).unsqueeze(1)
    labels = torch.randint(2, (len(sizes), slots), generator=random).float()
    outcomes = torch.stack([labels, spread * torch.randn(len(sizes), slots, generator=random)], dim=2)
    support = torch.where(mask.unsqueeze(2), draw_rows((len(sizes), slots), layout, random), 1e3)
    query = draw_rows((len(sizes), places), layout, random)
    return Users(support, mask, torch.where(mask.unsqueeze(2), outcomes, 7e3), query)


def test_no_step_leads_away_from_the_mode() -> None:
    users, learner = drawn([30], width=4, seed=3, spread=6.0), built(width=4)
    _, labels, basis, _ = users.known(0)
    design, _ = users.designs(0, learner)
    known, trust = learner.known(users.support, users.mask, users.outcomes), Scales.of(learner).trust_in(labels)
    losses = []
    for steps in range(1, 9):
        dual = fit(learner.prior, known, steps=steps).detach().numpy()[0]
        weights = design.T @ dual
        logits = basis + design @ weights
        losses.append(trust @ (np.logaddexp(0, logits) - labels * logits) + weights @ weights / 2)
    assert np.all(np.diff(losses) <= 1e-9)
    best, _ = newton(design, labels, basis, trust)
    logits = basis + design @ best
    optimum = trust @ (np.logaddexp(0, logits) - labels * logits) + best @ best / 2
    assert losses[5] - optimum < 1e-6 * (losses[0] - optimum)


def test_steps_end_where_more_of_them_would_not_be_seen() -> None:
    users = drawn([12, 7], seed=4)
    known = built().known(users.support, users.mask, users.outcomes)
    fits = [fit(built().prior, known, steps=steps).detach() for steps in (1, 9, 30)]
    assert torch.equal(fits[1], fits[2]), "none is taken after the fit has arrived"
    assert not torch.allclose(fits[0], fits[1], atol=1e-3)


@pytest.mark.parametrize(("label", "basis"), [(1.0, 0.0), (0.0, 1.5), (1.0, -6.0)])
def test_six_steps_are_near_the_mode_also_of_a_long_user_of_one_label(label: float, basis: float) -> None:
    events, learner = 600, built(steps=6)
    outcomes = torch.stack([torch.full((1, events), label), torch.full((1, events), basis)], dim=2)
    user = replace(drawn([events], seed=15), outcomes=outcomes)
    found = user.answers(learner).detach().double().numpy()[0]
    np.testing.assert_allclose(found, answers_of(learner, *user.known(0)), rtol=0.03, atol=1e-3)


@pytest.mark.parametrize("missing", ["bias", "matches", "taste", "choices", "context", "trust", "sizes"])
def test_a_part_left_out_adds_nothing(missing: str) -> None:
    users, learner = drawn([6, 4], seed=4), built(14, **{missing: False})
    found = users.answers(learner).detach().double().numpy()
    whole = users.answers(built(14)).detach().double().numpy()
    assert np.abs(found - whole).max() > 1e-2
    for user in range(2):
        np.testing.assert_allclose(found[user], answers_of(learner, *users.known(user)), atol=2e-5)


@pytest.mark.parametrize("steps", [1, 9])
@pytest.mark.parametrize(("sizes", "width"), [([30, 12, 0], 3), ([9, 4], 16), ([1], 1)])
def test_prefixes_answer_as_each_size_on_its_own(sizes: list[int], width: int, steps: int) -> None:
    """Also with a single step, which may not start from the fit to fewer events."""
    users, learner = drawn(sizes, width=width, seed=len(sizes)), built(steps, width)
    asked = [*range(1, max(sizes) + 1), 1]
    with torch.no_grad():
        found = learner.prefixes(users.support, users.mask, users.outcomes, users.query, asked)
        for column, k in enumerate(asked):
            alone = users.first(k)
            torch.testing.assert_close(found[..., column], alone.answers(learner), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("asked", [[0, 1], [1], [0, 1, 2, 3], [3, 0]])
def test_prefixes_of_a_surely_wrong_basis_end_at_the_mode(asked: list[int]) -> None:
    learner = built(6, **dict.fromkeys(("matches", "taste", "choices", "context", "trust", "sizes"), False))
    learner.start_from(bias=16.0)
    users = drawn([3])
    outcomes = learner.outcomes(torch.ones(1, 3), torch.full((1, 3), -8.0))
    with torch.no_grad():
        found = learner.prefixes(users.support, users.mask, outcomes, users.query, asked)[0, 0]
    for column, k in enumerate(asked):
        mode = brentq(lambda added, k=k: 16.0 * k * expit(8.0 - added) - added, 0.0, 100.0)
        assert found[column].item() == pytest.approx(mode, abs=1e-3)


def test_long_supports_are_answered_without_a_matrix_as_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conjugate gradients and Cholesky factors give the same answers, gradients and variances."""
    users = drawn([60, 35, 3, 0], seed=9)
    found = []
    for most in (59, 60):
        monkeypatch.setattr(fitting, "LONG", most)
        learner = built(steps=6, common=False, scale=False)
        answers = users.answers(learner)
        gradients = torch.autograd.grad(answers.double().square().sum(), list(learner.parameters()))
        with torch.no_grad():
            spread = users.posterior(learner)
            variances = spread.variance(users.query), spread.variance_of_sum(users.query, torch.ones(4, 5))
        found.append((answers.detach(), *gradients, *variances))
    for iterated, exact in zip(*found, strict=True):
        torch.testing.assert_close(iterated, exact, rtol=1e-5, atol=1e-6)


def test_more_than_512_events_are_answered_as_fewer_are(monkeypatch: pytest.MonkeyPatch) -> None:
    users, learner = drawn([LONG + 8], seed=10), built(steps=3)
    with torch.no_grad():
        found = users.answers(learner)
        monkeypatch.setattr(fitting, "_Iterative", None)
        with pytest.raises(TypeError):
            users.answers(learner)
        monkeypatch.setattr(fitting, "LONG", LONG + 8)
        torch.testing.assert_close(found, users.answers(learner), rtol=1e-5, atol=1e-5)
    assert LONG == 512


@pytest.mark.parametrize("width", [3, 16])
def test_the_variance_is_that_of_laplace(width: int) -> None:
    users, learner = drawn([12, 5], width=width, seed=11), built(14, width)
    with torch.no_grad():
        found = users.posterior(learner).variance(users.query).numpy()
    for user in range(2):
        _, hessian = users.mode(user, learner)
        _, design = users.designs(user, learner)
        np.testing.assert_allclose(found[user], (design @ np.linalg.inv(hessian) * design).sum(axis=1), rtol=1e-5)


@settings(deadline=None, max_examples=15)
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=3).filter(any),
    width=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_the_variance_of_a_sum_is_that_of_the_whole_covariance(sizes: list[int], width: int, seed: int) -> None:
    users, learner = drawn(sizes, width=width, places=8, seed=seed), built(14, width)
    weights = torch.rand(len(sizes), 8, generator=torch.Generator().manual_seed(seed)) * torch.tensor([0.0, *[1.0] * 7])
    with torch.no_grad():
        found = users.posterior(learner).variance_of_sum(users.query, weights).numpy()
    for user in range(len(sizes)):
        _, asked = users.designs(user, learner)
        summed = weights[user].double().numpy() @ asked
        _, hessian = users.mode(user, learner)
        np.testing.assert_allclose(found[user], summed @ np.linalg.inv(hessian) @ summed, rtol=1e-5)


def test_gradients_of_the_scales_are_those_of_differences() -> None:
    users, learner = drawn([7, 3], seed=12), built(14, common=False, scale=False)
    value = users.answers(learner).double().square().sum()
    gradients = torch.autograd.grad(value, list(learner.parameters()))
    for parameter, gradient in zip(learner.parameters(), gradients, strict=True):
        for entry, expected in zip(parameter.view(-1), gradient.view(-1).tolist(), strict=True):
            moved = []
            for step in (1e-2, -1e-2):
                with torch.no_grad():
                    entry.add_(step)
                    moved.append(float(users.answers(learner).double().square().sum()))
                    entry.sub_(step)
            assert abs((moved[0] - moved[1]) / 2e-2 - expected) < 1e-3 * max(1.0, abs(expected))


def test_unknown_items_do_not_match_but_leave_each_other_out() -> None:
    """For the fit they are items of their own; choices and contexts leave them out, since they may be the same item."""
    users, learner = drawn([6, 3], seed=15), built(choices=False, context=False, sizes=False)
    item_share = 3 + sum(learner.layout.columns)
    support, query = users.support.clone(), users.query.clone()
    support[:, :2, item_share], query[:, 0, item_share] = 0.0, 0.0
    unknown, apart, asked, away = support.clone(), support.clone(), query.clone(), query.clone()
    unknown[:, :2, 0], apart[:, :2, 0] = -1.0, torch.tensor([91.0, 92.0])
    asked[:, 0, 0], away[:, 0, 0] = -1.0, 93.0
    pairs = [replace(users, support=rows, query=query) for rows, query in ((unknown, asked), (apart, away))]
    with torch.no_grad():
        found, expected = (each.answers(learner) for each in pairs)
        assert torch.equal(found, expected)
        found, expected = (each.posterior(learner).variance(each.query) for each in pairs)
        assert torch.equal(found, expected)
        every = replace(pairs[0], query=asked[:, :1])
        others = replace(every, mask=users.mask & (unknown[..., 0] >= 0))
        added, expected = (each.answers(built()) - each.answers(learner) for each in (every, others))
        torch.testing.assert_close(added, expected)


def test_the_surest_basis_does_no_harm() -> None:
    users = drawn([6], seed=14, spread=400.0)
    assert bool(users.answers(built()).isfinite().all())


@settings(max_examples=60, deadline=None)
@given(events=st.integers(2, 8), width=st.floats(-2, 3), certain=st.floats(0, 12), seed=st.integers(0, 2**16))
def test_the_service_reaches_the_same_fit_from_any_start(events: int, width: float, certain: float, seed: int) -> None:
    """Also if the prior is wide, Ψ is certain and wrong, and the start fits the opposite labels."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(events, 4))
    system = Dense(10.0**width * rows @ rows.T)
    labels = random.integers(0, 2, events).astype(np.float64)
    said = Said(labels, certain * random.normal(size=events), np.ones(events))
    wrong = fit_in_numpy(replace(said, labels=1 - labels), system, np.zeros(events), 200)
    near = wrong * (np.arange(events) > 0)  # without the first event
    reached = [system.times(fit_in_numpy(said, system, start, 200)) for start in (np.zeros(events), wrong, near)]
    np.testing.assert_allclose(reached[1], reached[0], atol=1e-4)
    np.testing.assert_allclose(reached[2], reached[0], atol=1e-4)
    slope = labels - expit(said.basis + reached[0])  # at the mode α = y − σ
    np.testing.assert_allclose(system.times(slope), reached[0], atol=1e-3 * (1 + 10.0**width))
