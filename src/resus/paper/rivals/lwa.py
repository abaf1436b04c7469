"""LWA (Vartak et al. 2017, "A Meta-Learning Perspective on Cold-Start Recommendations for Items"), here for users."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from resus.baselines.method import Floats, Task
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import History
from resus.model.build import build_network
from resus.paper.rivals.class_means import ClassMeansNetwork


class AdaptedWeights(nn.Module):
    """logit = b + Φ(x)·(w₀R₀ + w₁R₁): a linear classifier whose weights are the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.tensor([-1.0, 1.0]))  # w₀, w₁: like what was clicked, unlike what was not
        self.bias = nn.Parameter(torch.zeros(()))

    def of_user(self, means: Tensor) -> Tensor:
        """R₀ and R₁ `[U, T, 2, K]` → weights `[U, T, K]`."""
        return (self.mix.unsqueeze(-1) * means).sum(dim=2)

    def forward(self, query: Tensor, weights: Tensor) -> Tensor:
        """`[U, P, K]`, `[U, T, K]` → logits `[U, P, T]`."""
        return self.bias + query @ weights.transpose(1, 2)


class LWA:
    """Linear weight adaptation, with DeepFM as Φ.

    The RESUS paper sketches a linear classifier on concatenated representations, but its numbers, far below DeepFM's
    on small supports, fit Vartak's own equation, which stands here.
    """

    def __init__(self) -> None:
        self.network: ClassMeansNetwork

    def fit(self, task: Task) -> History:
        torch.manual_seed(task.config.seed)
        encoder = build_network("deepfm", task.config.encoder, task.log.features)
        self.network = ClassMeansNetwork(encoder, AdaptedWeights())
        return self.network.fit(task)

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        return self.network.score(log, batch)

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        return self.network.score_prefixes(log, ordered, sizes)
