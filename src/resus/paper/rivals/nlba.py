"""NLBA (Vartak et al. 2017, "A Meta-Learning Perspective on Cold-Start Recommendations for Items"), here for users."""

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


class AdaptedBiases(nn.Module):
    """h = relu(WΦ(x) + V₀R₀ + V₁R₁ + d), logit = v·h + u₀·R₀ + u₁·R₁ + c: all weights shared, the biases the user's."""

    def __init__(self, width: int, *, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden, bias=False)  # W
        self.output = nn.Linear(hidden, 1, bias=False)  # v
        self.biases = nn.Linear(2 * width, hidden + 1)  # V₀, V₁ and d; its last row is u₀, u₁ and c

    def of_user(self, means: Tensor) -> Tensor:
        """R₀ and R₁ `[U, T, 2, K]` → the hidden biases and the output's `[U, T, hidden + 1]`."""
        return self.biases(means.flatten(2))  # type: ignore[no-any-return]

    def forward(self, query: Tensor, biases: Tensor) -> Tensor:
        """`[U, P, K]`, `[U, T, hidden + 1]` → logits `[U, P, T]`."""
        hidden = (self.hidden(query).unsqueeze(2) + biases[:, None, :, :-1]).relu()  # [U, P, T, hidden]
        return self.output(hidden).squeeze(-1) + biases[:, None, :, -1]  # type: ignore[no-any-return]


class NLBA:
    """Non-linear bias adaptation, with DeepFM as Φ and one hidden layer."""

    def __init__(self, *, hidden: int = 100) -> None:
        self.hidden = hidden
        self.network: ClassMeansNetwork

    def fit(self, task: Task) -> History:
        torch.manual_seed(task.config.seed)
        encoder = build_network("deepfm", task.config.encoder, task.log.features)
        classifier = AdaptedBiases(encoder.width, hidden=self.hidden)
        self.network = ClassMeansNetwork(encoder, classifier)
        return self.network.fit(task)

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        return self.network.score(log, batch)

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        return self.network.score_prefixes(log, ordered, sizes)
