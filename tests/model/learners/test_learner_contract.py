"""Every base-learner against its equation in float64, one user and one query at a time, and what all must keep."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from resus.model.learners.nearest.learner import NearestLearner
from resus.model.learners.nearest.similarity import CosineSimilarity, LearnedSimilarity
from resus.model.learners.ridge.learner import RidgeLearner

Doubles = npt.NDArray[np.float64]
Oracle = Callable[[nn.Module, Doubles, Doubles, Doubles], float]


def normal_equations(learner: nn.Module, support: Doubles, residuals: Doubles, query: Doubles) -> float:
    """Equation 12, the K × K system, with the bias as a column of ones."""
    assert isinstance(learner, RidgeLearner)
    if learner.constant:
        support, query = np.column_stack([support, np.ones(len(support))]), np.append(query, 1.0)
    system = support.T @ support + learner.ridge.item() * np.eye(support.shape[1])
    return float(query @ np.linalg.solve(system, support.T @ residuals))


def weighted_neighbours(learner: nn.Module, support: Doubles, residuals: Doubles, query: Doubles) -> float:
    """Equations 8 and 9, neighbour by neighbour."""
    assert isinstance(learner, NearestLearner)
    total = weighted = 0.0
    for row, residual in zip(support, residuals, strict=True):
        if isinstance(learner.similarity, LearnedSimilarity):
            similarity = float(learner.similarity.weight.detach().double().numpy() @ np.abs(query - row))
        else:
            similarity = float(query @ row / (np.linalg.norm(query) * np.linalg.norm(row)))
        total += np.exp(similarity)
        weighted += np.exp(similarity) * residual
    return weighted / total if len(support) else 0.0


LEARNERS: dict[str, tuple[Callable[[int], nn.Module], Oracle]] = {
    "ridge": (lambda _: RidgeLearner(ridge=0.7, learn_ridge=True, bias=False), normal_equations),
    "ridge with bias": (lambda _: RidgeLearner(ridge=0.7, learn_ridge=True, bias=True), normal_equations),
    "nearest": (lambda width: NearestLearner(LearnedSimilarity(width)), weighted_neighbours),
    "nearest by cosine": (lambda _: NearestLearner(CosineSimilarity()), weighted_neighbours),
}
every_learner = pytest.mark.parametrize("kind", LEARNERS)


@dataclass(frozen=True)
class Episodes:
    support: Tensor
    mask: Tensor
    residuals: Tensor
    query: Tensor
    query_user: Tensor

    def answers(self, learner: nn.Module) -> Tensor:
        return learner(self.support, self.mask, self.residuals, self.query, self.query_user)  # type: ignore[no-any-return]

    def prefixes(self, learner: nn.Module, query: Tensor) -> Tensor:
        """Of every size."""
        sizes = range(1, self.mask.shape[1] + 1)
        return learner.prefixes(self.support, self.mask, self.residuals, query, sizes)  # type: ignore[operator,no-any-return]


def drawn(sizes: list[int], *, queries: int, width: int, seed: int, spare: int = 0) -> Episodes:
    """Episodes with the given support sizes; slots without an event hold large numbers."""
    random = torch.Generator().manual_seed(seed)
    slots = max(sizes) + spare
    mask = torch.arange(slots) < torch.tensor(sizes).unsqueeze(1)
    support = torch.randn(len(sizes), slots, width, generator=random)
    residuals = 2 * torch.rand(len(sizes), slots, generator=random) - 1
    return Episodes(
        support=torch.where(mask.unsqueeze(-1), support, 100 * support),
        mask=mask,
        residuals=torch.where(mask, residuals, 100 * residuals),
        query=torch.randn(queries, width, generator=random),
        query_user=torch.randint(len(sizes), (queries,), generator=random),
    )


def built(kind: str, width: int) -> nn.Module:
    torch.manual_seed(width)
    return LEARNERS[kind][0](width)


def one_by_one(kind: str, learner: nn.Module, episodes: Episodes) -> Tensor:
    answers = []
    for query, user in zip(episodes.query.double().numpy(), episodes.query_user.tolist(), strict=True):
        known = episodes.mask[user]
        support, residuals = episodes.support[user][known], episodes.residuals[user][known]
        answers.append(LEARNERS[kind][1](learner, support.double().numpy(), residuals.double().numpy(), query))
    return torch.tensor(answers, dtype=torch.float64)


def close(found: Tensor, expected: Tensor) -> bool:
    return found.shape == expected.shape and bool(((found - expected).abs() <= 1e-5 * (1 + expected.abs())).all())


@every_learner
@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=5),
    queries=st.integers(1, 12),
    width=st.integers(1, 6),
    spare=st.integers(0, 2),
    seed=st.integers(0, 2**16),
)
def test_a_batch_answers_as_the_equations_do_one_by_one(
    kind: str, sizes: list[int], queries: int, width: int, spare: int, seed: int
) -> None:
    episodes = drawn(sizes, queries=queries, width=width, seed=seed, spare=spare)
    learner = built(kind, width)
    assert close(episodes.answers(learner), one_by_one(kind, learner, episodes))


@every_learner
@pytest.mark.parametrize(("sizes", "width"), [([30, 30, 2], 16), ([9, 4, 0, 1], 5), ([1], 1), ([150], 160)])
def test_prefixes_answer_as_each_size_on_its_own(kind: str, sizes: list[int], width: int) -> None:
    places = 5
    episodes = drawn(sizes, queries=places * len(sizes), width=width, seed=len(sizes))
    learner = built(kind, width)
    query = episodes.query.view(len(sizes), places, width)
    with torch.no_grad():
        found = episodes.prefixes(learner, query)
    assert found.shape == (len(sizes), places, max(sizes))
    users = torch.arange(len(sizes)).repeat_interleave(places)
    for k in range(1, max(sizes) + 1):
        alone = replace(
            episodes,
            support=episodes.support[:, :k],
            mask=episodes.mask[:, :k],
            residuals=episodes.residuals[:, :k],
            query_user=users,
        )
        assert close(found[..., k - 1].flatten(), one_by_one(kind, learner, alone))
        assert close(found[..., k - 1].flatten(), alone.answers(learner).detach())


@every_learner
def test_sizes_come_as_they_are_asked_for(kind: str) -> None:
    episodes = drawn([9, 4], queries=10, width=5, seed=6)
    learner, query = built(kind, 5), episodes.query.view(2, 5, 5)
    with torch.no_grad():
        every = episodes.prefixes(learner, query)
        some = learner.prefixes(episodes.support, episodes.mask, episodes.residuals, query, [7, 2, 7])  # type: ignore[operator]
    assert torch.equal(some, every[..., [6, 1, 6]])


@every_learner
@pytest.mark.parametrize("slots", [0, 3])
def test_an_empty_support_answers_exactly_zero(kind: str, slots: int) -> None:
    episodes = drawn([0, 0], queries=6, width=4, seed=1, spare=slots)
    learner = built(kind, 4)
    assert torch.equal(episodes.answers(learner), torch.zeros(6))
    query = episodes.query.view(2, 3, 4)
    with torch.no_grad():
        found = episodes.prefixes(learner, query)
    assert torch.equal(found, torch.zeros(2, 3, slots))


@every_learner
def test_what_empty_slots_hold_does_not_matter(kind: str) -> None:
    episodes = drawn([3, 0, 5], queries=20, width=4, seed=2)
    learner = built(kind, 4)
    spoiled = replace(
        episodes,
        support=torch.where(episodes.mask.unsqueeze(-1), episodes.support, torch.tensor(-7e3)),
        residuals=torch.where(episodes.mask, episodes.residuals, torch.tensor(9e5)),
    )
    assert torch.equal(episodes.answers(learner), spoiled.answers(learner))
    query = torch.randn(3, 6, 4)
    assert torch.equal(
        episodes.prefixes(learner, query),
        spoiled.prefixes(learner, query),
    )


@every_learner
def test_the_order_of_the_support_does_not_matter(kind: str) -> None:
    episodes = drawn([8, 8], queries=10, width=5, seed=3)
    learner = built(kind, 5)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(4))
    shuffled = replace(
        episodes,
        support=episodes.support[:, order],
        mask=episodes.mask[:, order],
        residuals=episodes.residuals[:, order],
    )
    assert close(shuffled.answers(learner), episodes.answers(learner).detach())


@every_learner
def test_gradients_are_those_of_float64_and_empty_slots_get_none(kind: str) -> None:
    episodes = drawn([6, 0, 1, 4], queries=15, width=5, seed=5)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        learner = built(kind, 5).to(dtype)
        support = episodes.support.to(dtype).requires_grad_()
        residuals = episodes.residuals.to(dtype).requires_grad_()
        query = episodes.query.to(dtype).requires_grad_()
        leaves = [support, residuals, query, *learner.parameters()]
        answers = learner(support, episodes.mask, residuals, query, episodes.query_user)
        gradients.append(torch.autograd.grad(answers.square().sum(), leaves))
    for narrow, wide in zip(*gradients, strict=True):
        assert close(narrow, wide)
        assert bool((wide != 0).any())
    assert torch.equal(gradients[0][0][~episodes.mask], torch.zeros_like(gradients[0][0][~episodes.mask]))
    assert torch.equal(gradients[0][1][~episodes.mask], torch.zeros_like(gradients[0][1][~episodes.mask]))
