"""Wide & Deep (Cheng et al. 2016)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder, FieldEmbedding, perceptron


class WideDeep(Encoder):
    """First-order weights of each field, and a perceptron on the field vectors."""

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
        self.first_order = FieldEmbedding(n_ids, column_counts, 1, std=embedding_std)
        self.embedding = FieldEmbedding(n_ids, column_counts, embedding_dim, std=embedding_std)
        self.deep = perceptron(len(column_counts) * embedding_dim, hidden_units)
        self.width = len(column_counts) + hidden_units[-1]

    def forward(self, features: Features) -> Tensor:
        return torch.cat([self.first_order(features).flatten(1), self.deep(self.embedding(features).flatten(1))], dim=1)
