"""Logistic regression."""

from collections.abc import Sequence

from torch import Tensor

from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder, FieldEmbedding


class LR(Encoder):
    """The field vectors side by side, so that a linear output is linear in the one-hot inputs."""

    def __init__(self, n_ids: int, column_counts: Sequence[int], *, embedding_dim: int, embedding_std: float) -> None:
        super().__init__()
        self.embedding = FieldEmbedding(n_ids, column_counts, embedding_dim, std=embedding_std)
        self.width = len(column_counts) * embedding_dim

    def forward(self, features: Features) -> Tensor:
        return self.embedding(features).flatten(1)  # type: ignore[no-any-return]
