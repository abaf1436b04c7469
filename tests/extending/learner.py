"""A learner: the mean residual of the user's events, the same for every candidate."""

from typing import ClassVar, Literal

from torch import Tensor

from resus.model.encoders.base import Encoder
from resus.model.learners import LearnerSettings
from resus.model.learners.base import Learner, residuals_of


class MeanLearner(Learner):
    def __init__(self, prior: float) -> None:
        super().__init__()
        self.prior = prior

    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        return residuals_of(labels, basis)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        means = (outcomes * mask).sum(dim=1) / (mask.sum(dim=1) + self.prior)
        return means[query_user]


class MeanSettings(LearnerSettings):
    kind: Literal["mean"] = "mean"
    prior: float = 1.0
    title: ClassVar[str] = "mean"

    def build_learner(self, encoder: Encoder) -> MeanLearner:
        return MeanLearner(self.prior)
