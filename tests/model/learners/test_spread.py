"""Draws of a user's whole function against the posterior written out as one joint Gaussian."""

import numpy as np
import pytest
import torch
from plus_oracle import Scales, design_of, draw_rows, layout_of, newton, plus_learner, rows_of

from resus.arrays import Doubles, Floats
from resus.model.inference.fusion import Stretched
from resus.model.learners.plus.drawing import deviations_drawn
from resus.model.learners.plus.in_numpy.codes import CodeColumns
from resus.model.learners.plus.in_numpy.learner import LivePlus, PlusInNumpy
from resus.model.learners.plus.learner import PlusLearner, PlusPosterior
from resus.model.learners.plus.noise import Part, normals

LAYOUT = layout_of(3)
DRAWS = 40_000


def in_numpy(learner: PlusLearner) -> PlusInNumpy:
    layout = CodeColumns(LAYOUT.names, LAYOUT.columns, LAYOUT.item, LAYOUT.taste, LAYOUT.choice)
    weights = {name: value.detach().numpy() for name, value in learner.state_dict().items()}
    return PlusInNumpy(layout, weights, steps=learner.steps)


def drawn_rows(count: int, seed: int) -> Floats:
    rows: Floats = draw_rows((count,), LAYOUT, torch.Generator().manual_seed(seed)).numpy()
    return rows


def user_with(events: int, learner: PlusLearner, seed: int = 3) -> tuple[LivePlus, Floats, Doubles, Doubles]:
    """A live user, and the user's codes, labels and logits of the crowd."""
    random = np.random.default_rng(seed)
    encoded, labels = drawn_rows(events, seed), random.integers(2, size=events).astype(np.float64)
    basis = random.normal(size=events)
    live = in_numpy(learner).state()
    live.fill(encoded, labels, basis)
    return live, encoded, labels, basis


def joint_covariance(
    learner: PlusLearner, support: Floats, labels: Doubles, basis: Doubles, query: Floats
) -> tuple[Doubles, Doubles]:
    """Under the posterior of the weights of feature vectors, as a matrix; and the same under the prior."""
    scales = Scales.of(learner)
    design = design_of(rows_of(np.concatenate([support, query]), learner.layout), scales)
    events, asked = design[: len(support)], design[len(support) :]
    _, hessian = newton(events, labels, basis, scales.trust_in(labels))
    return asked @ np.linalg.inv(hessian) @ asked.T, asked @ asked.T


def near(found: Doubles, expected: Doubles, draws: int) -> bool:
    """Within five standard errors of a sample covariance."""
    variance = np.diag(expected)
    error = np.sqrt((np.outer(variance, variance) + expected**2) / draws)
    return bool((np.abs(found - expected) <= 5 * error + 1e-6).all())


@pytest.mark.parametrize("events", [0, 1, 9, 40])
def test_draws_covary_as_the_exact_posterior_of_all_candidates_together(events: int) -> None:
    learner = plus_learner(LAYOUT)
    live, encoded, labels, basis = user_with(events, learner)
    query = drawn_rows(12, 8)
    exact, prior = joint_covariance(learner, encoded, labels, basis, query)
    draws = live.spread().sample(5, DRAWS)(query).astype(np.float64)
    assert near(draws @ draws.T / DRAWS, exact, DRAWS)
    assert (np.abs(draws.mean(axis=1)) < 5 * np.sqrt(np.diag(exact) / DRAWS)).all()
    np.testing.assert_allclose(live.spread().deviation(query), np.sqrt(np.diag(exact)), rtol=1e-3, atol=1e-4)
    alone = np.diag(np.diag(exact))
    assert not near(alone, exact, DRAWS), "the candidates are alike, so that independent draws would be seen"
    if events:
        assert not near(prior, exact, DRAWS), "the events say something"


@pytest.mark.parametrize("part", ["bias", "matches", "taste"])
def test_a_part_that_is_turned_off_is_not_drawn(part: str) -> None:
    learner = plus_learner(LAYOUT, **{part: False})
    live, encoded, labels, basis = user_with(9, learner)
    query = drawn_rows(6, 8)
    draws = live.spread().sample(5, DRAWS)(query).astype(np.float64)
    exact, _ = joint_covariance(learner, encoded, labels, basis, query)
    assert near(draws @ draws.T / DRAWS, exact, DRAWS)


def test_a_draw_is_the_same_however_candidates_are_asked_for() -> None:
    live, *_ = user_with(9, plus_learner(LAYOUT))
    query = drawn_rows(12, 8)
    all_at_once = live.spread().sample(2**53 - 1, 7)(query)
    few = live.spread().sample(2**53 - 1, 3)
    np.testing.assert_allclose(np.concatenate([few(query[:5]), few(query[5:])]), all_at_once[:, :3], atol=1e-5)
    np.testing.assert_array_equal(live.spread().sample(2**53 - 1, 7)(query), all_at_once)
    other = live.spread().sample(0, 7)(query)
    assert np.abs(other - all_at_once).max() > 0.1


def test_a_user_with_very_many_events_is_as_sure_as_after_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = plus_learner(LAYOUT)
    live, *_ = user_with(30, learner)
    query = drawn_rows(6, 8)
    sure = live.spread().deviation(query)
    monkeypatch.setattr("resus.model.learners.plus.in_numpy.learner.LONG", 20)
    fewer = live.spread().deviation(query)
    assert (fewer > sure).all()
    assert (fewer < learner.prior.variance(LAYOUT.unpack(torch.from_numpy(query))).detach().sqrt().numpy()).all()


def test_fusion_stretches_draws_as_it_does_deviations() -> None:
    live, *_ = user_with(4, plus_learner(LAYOUT))
    query = drawn_rows(3, 8)
    twice = Stretched(live.spread(), -2.0)
    np.testing.assert_allclose(twice.deviation(query), 2 * live.spread().deviation(query))
    np.testing.assert_allclose(twice.sample(4, 3)(query), -2 * live.spread().sample(4, 3)(query))


def test_numbers_of_different_seeds_parts_and_keys_are_independent_normal_ones() -> None:
    keys = np.arange(64)
    tables = [normals(seed, part, keys, 500) for seed in (0, 1, 2) for part in (Part.VALUE, Part.TASTE)]
    numbers = np.concatenate(tables).astype(np.float64)
    assert abs(numbers.mean()) < 5 / np.sqrt(numbers.size)
    assert abs(numbers.var() - 1) < 5 * np.sqrt(2 / numbers.size)
    assert abs((numbers**4).mean() - 3) < 5 * np.sqrt(96 / numbers.size)
    alike = np.asarray(np.corrcoef(numbers))[~np.eye(len(numbers), dtype=bool)]
    assert np.abs(alike).max() < 6 / np.sqrt(500)
    assert np.array_equal(
        normals(np.array([[1], [2]]), Part.VALUE, keys[:3], 4)[1], normals(2, Part.VALUE, keys[:3], 4)
    )


def test_many_users_at_a_time_get_the_draws_that_each_gets_alone() -> None:
    learner = plus_learner(LAYOUT)
    sizes, seeds = [0, 3, 7], np.array([4, 5, 4])
    users = [user_with(size, learner, seed) for seed, size in enumerate(sizes)]
    query = np.stack([drawn_rows(6, seed) for seed in range(3)])
    mask = torch.arange(max(sizes)) < torch.tensor(sizes).unsqueeze(1)
    support, outcomes = torch.full((3, 7, LAYOUT.width), 1e3), torch.zeros(3, 7, 2)
    for user, (_, encoded, labels, basis) in enumerate(users):
        support[user, mask[user]] = torch.from_numpy(encoded)
        outcomes[user, mask[user]] = torch.from_numpy(np.stack([labels, basis], axis=1)).float()
    (posterior,) = learner.posteriors(support, mask, outcomes, [7])
    assert isinstance(posterior, PlusPosterior)
    together = deviations_drawn(posterior, torch.from_numpy(query), seeds, 3).numpy()
    for user, (live, *_) in enumerate(users):
        np.testing.assert_allclose(live.spread().sample(int(seeds[user]), 3)(query[user]), together[user], atol=2e-4)
