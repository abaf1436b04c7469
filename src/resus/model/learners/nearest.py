"""Nearest neighbour: a softmax over similarities weighs the residuals of the support (equations 8 and 9)."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.model.learners.base import Answer, Explanation, Learner, LiveEvents, residuals_of

TILE = 1 << 19  # elements of a [rows, S, K] difference: small enough to stay in the cache


class NearestLearner(Learner):
    """Δŷ = Σ_i α_i Δy_i with α = softmax of the similarities to the support rows."""

    def __init__(self, similarity: nn.Module) -> None:
        super().__init__()
        self.similarity = similarity

    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        return residuals_of(labels, basis)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        if support.shape[1] == 0:
            return query.new_zeros(query.shape[0])
        slots = mask.index_select(0, query_user)
        scores = self.similarity(query, support, mask, query_user).masked_fill(~slots, -torch.inf)
        empty = ~slots.any(dim=1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=1)
        return (weights * (outcomes * mask).index_select(0, query_user)).sum(dim=1)

    def prefixes(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """A running mean: adding event k moves the answer by its share of the softmax over the first k events."""
        users, places, width = query.shape
        slots = support.shape[1]
        columns = {
            size: torch.tensor([column for column, other in enumerate(sizes) if other == size], device=query.device)
            for size in set(sizes)
        }
        owner = torch.arange(users, device=query.device).repeat_interleave(places)
        scores = self.similarity(query.reshape(-1, width), support, mask, owner).view(users, places, slots)
        answers = query.new_empty(users, places, len(sizes))
        if slots == 0:
            return answers
        answer = outcomes[:, None, 0] * mask[:, None, 0] + torch.zeros_like(scores[..., 0])
        highest, total = scores[..., 0], torch.ones_like(scores[..., 0])
        if 1 in columns:
            answers[..., columns[1]] = answer.unsqueeze(-1)
        for slot in range(1, slots):
            score = scores[..., slot].masked_fill(~mask[:, None, slot], -torch.inf)
            raised = torch.maximum(highest, score)
            weight = (score - raised).exp()
            total = total * (highest - raised).exp() + weight
            answer = answer + weight / total * (outcomes[:, None, slot] - answer)
            highest = raised
            if slot + 1 in columns:
                answers[..., columns[slot + 1]] = answer.unsqueeze(-1)
        return answers

    def live_state(self, width: int) -> "LiveNearest":
        return LiveNearest(self, width)


class LiveNearest(LiveEvents):
    """An event's part is its residual times its share of the softmax, computed for each candidate."""

    def __init__(self, learner: NearestLearner, width: int) -> None:
        super().__init__(learner, width)
        self._similarity = learner.similarity

    def answer(self, encoded: Tensor, *, explain: bool = False) -> Answer:
        if not len(self):
            return Answer.without_events(len(encoded), explain=explain)
        support, mask, _ = self.as_support
        owner = torch.zeros(len(encoded), dtype=torch.int64)
        parts = self._similarity(encoded, support, mask, owner).softmax(dim=1) * self.outcomes
        return Answer(parts.sum(dim=1), None, Explanation(parts) if explain else None)


class LearnedSimilarity(nn.Module):
    """g(v₁, v₂) = wᵀ|v₁ − v₂|; the paper's bias b adds the same to every slot and cancels in the softmax."""

    def __init__(self, width: int) -> None:
        super().__init__()
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, query: Tensor, support: Tensor, mask: Tensor, query_user: Tensor) -> Tensor:
        """`[Q, K]`, `[U, S, K]`, `[U, S]`, `[Q]` → `[Q, S]`; what an empty slot gets has no meaning."""
        return _WeightedDistance.apply(query, support, mask, query_user, self.weight)  # type: ignore[no-any-return,no-untyped-call]


class CosineSimilarity(nn.Module):
    """g(v₁, v₂) = cos(v₁, v₂): nothing to learn."""

    def forward(self, query: Tensor, support: Tensor, mask: Tensor, query_user: Tensor) -> Tensor:  # noqa: ARG002  # as its sibling
        """`[Q, K]`, `[U, S, K]`, `[U, S]`, `[Q]` → `[Q, S]`."""
        query = functional.normalize(query, dim=-1)
        support = functional.normalize(support, dim=-1)
        rows = max(1, TILE // max(1, support[0].numel()))
        parts = [
            (support.index_select(0, users) @ tile.unsqueeze(-1)).squeeze(-1)
            for tile, users in zip(torch.split(query, rows), torch.split(query_user, rows), strict=True)
        ]
        return torch.cat(parts)


class _WeightedDistance(torch.autograd.Function):
    """Σ_k w_k |q_k − s_k| user by user: the [Q, S, K] difference is never held whole, neither forward nor backward."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, support: Tensor, mask: Tensor, query_user: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(query, support, mask, query_user, weight)
        result = query.new_zeros(query.shape[0], support.shape[1])
        for rows, user, slots in _tiles(support, mask, query_user):
            distance = (support[user, :slots] - query[rows].unsqueeze(1)).abs_()
            result[rows, :slots] = distance @ weight
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, Tensor]:
        query, support, mask, query_user, weight = ctx.saved_tensors
        to_query, to_support, to_weight = torch.zeros_like(query), torch.zeros_like(support), torch.zeros_like(weight)
        for rows, user, slots in _tiles(support, mask, query_user):
            gradient = gradients[0][rows, :slots]
            difference = support[user, :slots] - query[rows].unsqueeze(1)
            to_weight += gradient.reshape(-1) @ difference.abs().flatten(0, 1)
            slope = difference.sign_().mul_(weight)
            to_query[rows] = -torch.bmm(gradient.unsqueeze(1), slope).squeeze(1)
            to_support[user, :slots] += slope.mul_(gradient.unsqueeze(-1)).sum(dim=0)
        return to_query, to_support, None, None, to_weight


def _tiles(support: Tensor, mask: Tensor, query_user: Tensor) -> Iterator[tuple[Any, int, int]]:
    """(rows, user, slots): rows of one user against the slots that the user fills, small enough for the cache."""
    in_order = bool((query_user[1:] >= query_user[:-1]).all())
    order = None if in_order else query_user.argsort(stable=True)
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    used = (mask * places).amax(dim=1).tolist() if mask.shape[1] else [0] * len(mask)
    start = 0
    for user, count in enumerate(torch.bincount(query_user, minlength=support.shape[0]).tolist()):
        stop, slots = start + count, used[user]
        step = max(1, TILE // max(1, slots * support.shape[2]))
        for first in range(start, stop if slots else start, step):
            rows = slice(first, min(first + step, stop))
            yield (rows if order is None else order[rows]), user, slots
        start = stop
