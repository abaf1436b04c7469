"""DeepFM (Guo et al. 2017) as the RESUS paper has it (equation 1)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder, FieldEmbedding, pairwise_interactions, perceptron


class DeepFM(Encoder):
    """Φ(x) = FM(x) ⊕ MLP(x) on the same vectors."""

    def __init__(
        self,
        n_ids: int,
        column_counts: Sequence[int],
        *,
        embedding_dim: int,
        embedding_std: float,
        hidden_units: Sequence[int],
    ) -> None:
        super().__init__()
        self.embedding = FieldEmbedding(n_ids, column_counts, embedding_dim, std=embedding_std)
        self.deep = perceptron(len(column_counts) * embedding_dim, hidden_units)
        self.width = embedding_dim + hidden_units[-1]

    def forward(self, features: Features) -> Tensor:
        vectors = self.embedding(features)
        return torch.cat([pairwise_interactions(vectors), self.deep(vectors.flatten(1))], dim=1)
