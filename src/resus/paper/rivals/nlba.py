"""NLBA (Vartak et al. 2017, "A Meta-Learning Perspective on Cold-Start Recommendations for Items"), here for users."""

from dataclasses import dataclass

from torch import Tensor, nn

from resus.baselines.base import Task
from resus.paper.rivals.class_means import ClassMeansNetwork, UserClassifier
from resus.paper.rivals.episodic import PrefixMethod, deepfm


class AdaptedBiases(UserClassifier):
    """h = relu(WΦ(x) + V₀R₀ + V₁R₁ + d), logit = v·h + u₀·R₀ + u₁·R₁ + c: weights are shared, biases the user's own."""

    def __init__(self, width: int, *, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden, bias=False)  # W
        self.output = nn.Linear(hidden, 1, bias=False)  # v
        self.biases = nn.Linear(2 * width, hidden + 1)  # V₀, V₁ and d; its last row is u₀, u₁ and c

    def of_user(self, means: Tensor) -> Tensor:
        """The biases of the hidden layer and of the output `[U, T, hidden + 1]`."""
        return self.biases(means.flatten(2))  # type: ignore[no-any-return]

    def forward(self, query: Tensor, own: Tensor) -> Tensor:
        hidden = (self.hidden(query).unsqueeze(2) + own[:, None, :, :-1]).relu()  # [U, P, T, hidden]
        return self.output(hidden).squeeze(-1) + own[:, None, :, -1]  # type: ignore[no-any-return]


@dataclass(eq=False, kw_only=True)
class NLBA(PrefixMethod):
    """Non-linear bias adaptation, with DeepFM as Φ and one hidden layer."""

    hidden: int = 100

    def build(self, task: Task) -> ClassMeansNetwork:
        encoder = deepfm(task.config.encoder, task.log.features)
        return ClassMeansNetwork(encoder, AdaptedBiases(encoder.width, hidden=self.hidden))
