"""How alike a query and a support row are (section 4.1)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

TILE = 1 << 19  # elements of a [rows, S, K] difference: small enough to stay in the cache


class LearnedSimilarity(nn.Module):
    """g(v₁, v₂) = wᵀ|v₁ − v₂|; the paper's bias b adds the same to every slot and cancels in the softmax."""

    def __init__(self, width: int) -> None:
        super().__init__()
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, query: Tensor, support: Tensor, query_user: Tensor) -> Tensor:
        """`[Q, K]`, `[U, S, K]`, `[Q]` → `[Q, S]`."""
        return _WeightedDistance.apply(query, support, query_user, self.weight)  # type: ignore[no-any-return,no-untyped-call]


class CosineSimilarity(nn.Module):
    """g(v₁, v₂) = cos(v₁, v₂): nothing to learn."""

    def forward(self, query: Tensor, support: Tensor, query_user: Tensor) -> Tensor:
        """`[Q, K]`, `[U, S, K]`, `[Q]` → `[Q, S]`."""
        query = functional.normalize(query, dim=-1)
        support = functional.normalize(support, dim=-1)
        parts = [
            (support.index_select(0, query_user[tile]) @ query[tile].unsqueeze(-1)).squeeze(-1)
            for tile in _tiles(query, support)
        ]
        return torch.cat(parts) if parts else query.new_empty(0, support.shape[1])


class _WeightedDistance(torch.autograd.Function):
    """Σ_k w_k |q_k − s_k| in tiles: the [Q, S, K] difference is never held whole, neither forward nor backward."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, support: Tensor, query_user: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(query, support, query_user, weight)
        result = query.new_empty(query.shape[0], support.shape[1])
        for tile in _tiles(query, support):
            distance = _difference(query, support, query_user, tile).abs_()
            result[tile] = distance @ weight
        return result

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, Tensor, None, Tensor]:
        (gradient,) = gradients
        query, support, query_user, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        to_query, to_support, to_weight = torch.empty_like(query), torch.zeros_like(support), torch.zeros_like(weight)
        for tile in _tiles(query, support):
            difference = _difference(query, support, query_user, tile)
            to_weight += gradient[tile].reshape(-1) @ difference.abs().flatten(0, 1)
            slope = difference.sign_().mul_(weight)
            to_query[tile] = -torch.bmm(gradient[tile].unsqueeze(1), slope).squeeze(1)
            to_support.index_add_(0, query_user[tile], slope.mul_(gradient[tile].unsqueeze(-1)))
        return to_query, to_support, None, to_weight


def _tiles(query: Tensor, support: Tensor) -> list[slice]:
    rows = max(1, TILE // max(1, support.shape[1] * support.shape[2]))
    return [slice(start, start + rows) for start in range(0, query.shape[0], rows)]


def _difference(query: Tensor, support: Tensor, query_user: Tensor, tile: slice) -> Tensor:
    return support.index_select(0, query_user[tile]).sub_(query[tile].unsqueeze(1))
