"""LWA (Vartak et al. 2017, "A Meta-Learning Perspective on Cold-Start Recommendations for Items"), here for users."""

import torch
from torch import Tensor, nn

from resus.baselines.base import Task
from resus.paper.rivals.class_means import ClassMeansNetwork, UserClassifier
from resus.paper.rivals.episodic import PrefixMethod, deepfm


class AdaptedWeights(UserClassifier):
    """logit = b + Φ(x)·(w₀R₀ + w₁R₁): a linear classifier with weights of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.tensor([-1.0, 1.0]))  # w₀, w₁: like what was clicked, unlike what was not
        self.bias = nn.Parameter(torch.zeros(()))

    def of_user(self, means: Tensor) -> Tensor:
        """The weights `[U, T, K]`."""
        return (self.mix.unsqueeze(-1) * means).sum(dim=2)

    def forward(self, query: Tensor, own: Tensor) -> Tensor:
        return self.bias + query @ own.transpose(1, 2)


class LWA(PrefixMethod):
    """Linear weight adaptation, with DeepFM as Φ.

    The RESUS paper sketches a linear classifier on concatenated representations. Its numbers, far below DeepFM's on
    small supports, fit Vartak's own equation, which this class implements.
    """

    def build(self, task: Task) -> ClassMeansNetwork:
        return ClassMeansNetwork(deepfm(task.config.encoder, task.log.features), AdaptedWeights())
