"""Factorization machine (Rendle 2010)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder, FieldEmbedding, pairwise_interactions


class FM(Encoder):
    """First-order weights of each field, and their pairwise interactions."""

    def __init__(self, n_ids: int, column_counts: Sequence[int], *, embedding_dim: int, embedding_std: float) -> None:
        super().__init__()
        self.first_order = FieldEmbedding(n_ids, column_counts, 1, std=embedding_std)
        self.embedding = FieldEmbedding(n_ids, column_counts, embedding_dim, std=embedding_std)
        self.width = len(column_counts) + embedding_dim

    def forward(self, features: Features) -> Tensor:
        first = self.first_order(features).flatten(1)
        return torch.cat([first, pairwise_interactions(self.embedding(features))], dim=1)
