"""MeLU (Lee et al. 2019, "Meta-Learned User Preference Estimator for Cold-Start Recommendation").

θ_u = θ − α ∇_θ L(support of u; φ, θ) for the decision layers θ. All users share the embeddings φ. φ and θ learn from
the loss of the queries under θ_u, through the adaptation (algorithm 1 of MeLU). The decision layers are DeepFM's here.
"""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from resus.baselines.base import Task
from resus.episodes.batch import EpisodeBatch, Features
from resus.model.encoders.base import pairwise_interactions
from resus.model.encoders.deepfm import DeepFM
from resus.paper.rivals.episodic import EpisodicMethod, deepfm
from resus.paper.rivals.fast_weights import FastWeights, adapt, answer, take


class MeLUNetwork(nn.Module):
    """ŷ = w_u·(FM(x) ⊕ MLP_u(x)) + b_u: the perceptron and the output are the user's own, the embedding is not."""

    def __init__(self, encoder: DeepFM, *, inner_rate: float, inner_steps: int) -> None:
        super().__init__()
        self.embedding = encoder.embedding
        linear = [layer for layer in encoder.deep if isinstance(layer, nn.Linear)]
        self.hidden = nn.ModuleList(linear)
        self.output = nn.Linear(encoder.width, 1)
        self.widths = [*(layer.out_features for layer in linear), 1]
        self.inner_rate = inner_rate
        self.inner_steps = inner_steps

    def forward(self, batch: EpisodeBatch, features: Features, labels: Tensor) -> Tensor:
        vectors = self.embedding(features)
        flat, pairs = vectors.flatten(1), pairwise_interactions(vectors)

        def decide(places: Tensor, fast: FastWeights) -> Tensor:
            hidden = take(flat, places)
            for layer in self.hidden:
                hidden = fast(layer(hidden), hidden).relu()
            encoded = torch.cat([take(pairs, places), hidden], dim=-1)
            return fast(self.output(encoded), encoded).squeeze(-1)

        changes = adapt(decide, batch, labels, widths=self.widths, rate=self.inner_rate, steps=self.inner_steps)
        return answer(decide, batch, changes)


@dataclass(eq=False, kw_only=True)
class MeLU(EpisodicMethod):
    """MeLU on DeepFM. `inner_rate` is α, `inner_steps` the number of gradient steps on a support."""

    inner_rate: float = 0.3
    inner_steps: int = 1

    def build(self, task: Task) -> MeLUNetwork:
        encoder = deepfm(task.config.predictor, task.log.features)
        return MeLUNetwork(encoder, **asdict(self))
