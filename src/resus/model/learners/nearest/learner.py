"""Nearest neighbour: a softmax over similarities weighs the residuals of the support (equations 8 and 9)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from resus.model.learners.base import Answer, Learner, LiveEvents, residuals_of


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
        columns: dict[int, list[int]] = {}
        for column, size in enumerate(sizes):
            columns.setdefault(size, []).append(column)
        owner = torch.arange(users).repeat_interleave(places)
        scores = self.similarity(query.reshape(-1, width), support, mask, owner).view(users, places, slots)
        answers = query.new_empty(users, places, len(sizes))
        if slots == 0:
            return answers
        answer = outcomes[:, None, 0] * mask[:, None, 0] + torch.zeros_like(scores[..., 0])
        highest, total = scores[..., 0], torch.ones_like(scores[..., 0])
        answers[..., columns.get(1, [])] = answer.unsqueeze(-1)
        for slot in range(1, slots):
            score = scores[..., slot].masked_fill(~mask[:, None, slot], -torch.inf)
            raised = torch.maximum(highest, score)
            weight = (score - raised).exp()
            total = total * (highest - raised).exp() + weight
            answer = answer + weight / total * (outcomes[:, None, slot] - answer)
            highest = raised
            answers[..., columns.get(slot + 1, [])] = answer.unsqueeze(-1)
        return answers

    def live_state(self, width: int) -> LiveEvents:
        return LiveNearest(self, width)


class LiveNearest(LiveEvents):
    """An event's part is its residual times its share of the softmax, computed for each candidate."""

    def __init__(self, learner: NearestLearner, width: int) -> None:
        super().__init__(learner, width)
        self._similarity = learner.similarity

    def answer(self, encoded: Tensor) -> Answer:
        if not len(self):
            return Answer.without_events(len(encoded))
        support, mask, _ = self.as_support
        owner = torch.zeros(len(encoded), dtype=torch.int64)
        parts = self._similarity(encoded, support, mask, owner).softmax(dim=1) * self.outcomes
        return Answer(parts.sum(dim=1), parts)
