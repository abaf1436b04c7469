"""RESUS+ of one live user: the events, and a logistic fit of them when somebody asks."""

import torch
from torch import Tensor

from resus.model.learners.answer import Answer
from resus.model.learners.plus.posterior import Known, PosteriorLearner


class LivePosterior:
    """Each new label moves the fit of all others, so that nothing but the events is kept from one to the next.

    A fit is O(k³) for few events and O(kK²) for many; it is made once for all candidates until an event comes in.
    """

    def __init__(self, learner: PosteriorLearner, width: int) -> None:
        self._learner = learner
        self._encoded = torch.empty(0, width)
        self._outcomes = torch.empty(0, 2)
        self._dual: Tensor | None = None

    def __len__(self) -> int:
        return len(self._outcomes)

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        self._encoded, self._outcomes, self._dual = encoded, outcomes, None

    def append(self, encoded: Tensor, outcome: Tensor) -> None:
        self.insert(len(self), encoded, outcome)

    def insert(self, place: int, encoded: Tensor, outcome: Tensor) -> None:
        self.fill(
            torch.cat([self._encoded[:place], encoded.unsqueeze(0), self._encoded[place:]]),
            torch.cat([self._outcomes[:place], outcome.unsqueeze(0), self._outcomes[place:]]),
        )

    def correct(self, place: int, outcome: Tensor) -> None:
        self._outcomes[place] = outcome
        self._dual = None

    def remove(self, place: int) -> None:
        self.fill(
            torch.cat([self._encoded[:place], self._encoded[place + 1 :]]),
            torch.cat([self._outcomes[:place], self._outcomes[place + 1 :]]),
        )

    def answer(self, encoded: Tensor) -> Answer:
        learner, prior = self._learner, self._learner.prior
        known = Known.of(self._encoded.unsqueeze(0), torch.ones(1, len(self), dtype=torch.bool), self._outcomes[None])
        if self._dual is None:
            self._dual = learner.fit(prior, known)
        across = prior.covariance(encoded[None, :, 1:].double(), encoded[None, :, 0], known.codes, known.items)
        parts = (across * self._dual.unsqueeze(1)).squeeze(0)
        variance = learner.variance(prior, known, self._dual, encoded.unsqueeze(0)).squeeze(0)
        return Answer(parts.sum(dim=1).float(), parts.float(), variance.sqrt().float())
