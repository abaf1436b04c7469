"""Nearest neighbour of one live user."""

import torch
from torch import Tensor

from resus.model.learners.answer import Answer
from resus.model.learners.nearest.learner import NearestLearner


class LiveNearest:
    """The support's encodings and residuals; the softmax over them is taken anew for each candidate."""

    def __init__(self, learner: NearestLearner, width: int) -> None:
        self._similarity = learner.similarity
        self._encoded = torch.empty(0, width)
        self._residuals = torch.empty(0)

    def __len__(self) -> int:
        return len(self._residuals)

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        self._encoded, self._residuals = encoded, outcomes

    def append(self, encoded: Tensor, outcome: Tensor) -> None:
        self.insert(len(self), encoded, outcome)

    def insert(self, place: int, encoded: Tensor, outcome: Tensor) -> None:
        self._encoded = torch.cat([self._encoded[:place], encoded.unsqueeze(0), self._encoded[place:]])
        self._residuals = torch.cat([self._residuals[:place], outcome.view(1), self._residuals[place:]])

    def correct(self, place: int, outcome: Tensor) -> None:
        self._residuals[place] = outcome

    def remove(self, place: int) -> None:
        self._encoded = torch.cat([self._encoded[:place], self._encoded[place + 1 :]])
        self._residuals = torch.cat([self._residuals[:place], self._residuals[place + 1 :]])

    def answer(self, encoded: Tensor) -> Answer:
        if not len(self):
            return Answer(encoded.new_zeros(len(encoded)), encoded.new_zeros(len(encoded), 0), None)
        mask = torch.ones(1, len(self), dtype=torch.bool)
        owner = torch.zeros(len(encoded), dtype=torch.int64)
        weights = self._similarity(encoded, self._encoded.unsqueeze(0), mask, owner).softmax(dim=1)
        parts = weights * self._residuals
        return Answer(parts.sum(dim=1), parts, None)
