"""The nearest-neighbour learner and its similarities against plain expressions."""

import pytest
import torch
from torch import Tensor, nn

from resus.model.learners import nearest
from resus.model.learners.nearest import CosineSimilarity, LearnedSimilarity, NearestLearner


class GivenScores(nn.Module):
    """The query vector is the list of its similarities to the slots."""

    def forward(self, query: Tensor, support: Tensor, mask: Tensor, query_user: Tensor) -> Tensor:
        return query[:, : support.shape[1]]


@pytest.mark.parametrize(("center", "spread"), [(0.0, 1.0), (0.0, 10.0), (200.0, 1.0), (-200.0, 1.0), (0.0, 200.0)])
@pytest.mark.parametrize("slots", [1, 2, 30])
def test_prefixes_are_stable(center: float, spread: float, slots: int) -> None:
    random = torch.Generator().manual_seed(7)
    scores = center + spread * torch.randn(3, 8, slots, generator=random)
    residuals = 2 * torch.rand(3, slots, generator=random) - 1
    mask = torch.ones(3, slots, dtype=torch.bool)
    learner = NearestLearner(GivenScores())
    found = learner.prefixes(torch.zeros(3, slots, slots), mask, residuals, scores, range(1, slots + 1))
    for k in range(1, slots + 1):
        weights = torch.softmax(scores[..., :k].double(), dim=-1)
        expected = (weights * residuals[:, None, :k].double()).sum(dim=-1)
        assert (found[..., k - 1] - expected).abs().max().item() < 1e-5
        owner = torch.arange(3).repeat_interleave(8)
        alone = learner(torch.zeros(3, k, slots), mask[:, :k], residuals[:, :k], scores.flatten(0, 1), owner)
        assert (alone.view(3, 8) - expected).abs().max().item() < 1e-5


def test_the_only_neighbour_decides_alone() -> None:
    residuals = torch.tensor([[0.25], [-0.75]])
    mask = torch.ones(2, 1, dtype=torch.bool)
    answers = NearestLearner(GivenScores())(
        torch.zeros(2, 1, 1), mask, residuals, torch.tensor([[-200.0], [200.0], [0.0]]), torch.tensor([0, 1, 1])
    )
    assert answers.tolist() == [0.25, -0.75, -0.75]


def test_a_twin_outweighs_distant_neighbours() -> None:
    residuals = torch.tensor([[0.5, -0.5, -0.5]])
    scores = torch.tensor([[200.0, -200.0, -200.0]])
    answer = NearestLearner(GivenScores())(
        torch.zeros(1, 3, 3), torch.ones(1, 3, dtype=torch.bool), residuals, scores, torch.tensor([0])
    )
    assert answer.item() == 0.5


SHAPES = [(11, 3, 4, 5), (1, 1, 1, 1), (6, 2, 1, 3), (9, 4, 6, 1)]  # Q, U, S, K


def drawn(shape: tuple[int, int, int, int], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Queries, supports, which slots are filled, and whose query each is; in no order."""
    queries, users, slots, width = shape
    random = torch.Generator().manual_seed(sum(shape))
    query = torch.randn(queries, width, generator=random, dtype=dtype)
    support = torch.randn(users, slots, width, generator=random, dtype=dtype)
    filled = torch.rand(users, slots, generator=random) < 0.7
    return query, support, filled, torch.randint(users, (queries,), generator=random)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("tile", [1, 40, 1 << 19])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_weighted_distance_and_its_gradients_are_those_of_the_plain_expression(
    monkeypatch: pytest.MonkeyPatch, tile: int, shape: tuple[int, int, int, int], in_order: bool
) -> None:
    monkeypatch.setattr(nearest, "TILE", tile)
    query, support, filled, user = drawn(shape, torch.float64)
    user = user.sort().values if in_order else user
    learned = LearnedSimilarity(shape[3]).double()
    leaves = [query.requires_grad_(), support.requires_grad_(), learned.weight]
    found = learned(query, support, filled, user) * filled[user]
    plain = (query[:, None] - support[user]).abs() @ learned.weight * filled[user]
    assert torch.allclose(found, plain, rtol=0, atol=1e-12)
    direction = torch.randn(plain.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for own, expected in zip(
        torch.autograd.grad(found, leaves, direction), torch.autograd.grad(plain, leaves, direction), strict=True
    ):
        assert torch.allclose(own, expected, rtol=0, atol=1e-12)


def test_the_weighted_distance_passes_gradcheck_over_several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "TILE", 30)
    query, support, filled, user = drawn((7, 3, 2, 4), torch.float64)
    weight = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda q, s, w: nearest._WeightedDistance.apply(q, s, filled, user, w),  # type: ignore[no-untyped-call]
        (query.requires_grad_(), support.requires_grad_(), weight),
    )


@pytest.mark.parametrize("tile", [1, 40, 1 << 19])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_cosine_is_that_of_torch(
    monkeypatch: pytest.MonkeyPatch, tile: int, shape: tuple[int, int, int, int]
) -> None:
    monkeypatch.setattr(nearest, "TILE", tile)
    query, support, filled, user = drawn(shape, torch.float32)
    expected = torch.nn.functional.cosine_similarity(query[:, None], support[user], dim=-1)
    assert torch.allclose(CosineSimilarity()(query, support, filled, user), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("build", [lambda: LearnedSimilarity(3), CosineSimilarity])
def test_no_query_has_no_similarity(build: type[CosineSimilarity]) -> None:
    no_query, filled = torch.empty(0, dtype=torch.int64), torch.ones(2, 4, dtype=torch.bool)
    assert build()(torch.empty(0, 3), torch.randn(2, 4, 3), filled, no_query).shape == (0, 4)
