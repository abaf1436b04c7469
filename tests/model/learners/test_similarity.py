"""Tiled similarities against their plain expressions, forward and backward."""

import pytest
import torch

from resus.model.learners import nearest
from resus.model.learners.nearest import CosineSimilarity, LearnedSimilarity

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
