"""DeepFM (Guo et al. 2017), in the shape that the RESUS paper gives it (equations 1 and 2)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from resus.episodes.tensors import Features
from resus.model.encoders.base import Encoder
from resus.model.encoders.embedding import FieldEmbedding
from resus.model.encoders.layers import pairwise_interactions, perceptron


class DeepFM(Encoder):
    """Φ(x) = FM(x) ⊕ MLP(x), both on the same field vectors."""

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
        """Rows → `[N, K]`."""
        vectors = self.embedding(features)
        return torch.cat([pairwise_interactions(vectors), self.deep(vectors.flatten(1))], dim=1)
