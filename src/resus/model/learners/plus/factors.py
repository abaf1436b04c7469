"""φ of RESUS+: a plain sum of field vectors, learned together with free user vectors that are thrown away."""

from collections.abc import Sequence

import torch
from torch import Tensor

from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder, FieldEmbedding

UNKNOWN = -1.0  # two items never seen have one id, and are not the same item


class FactorEncoder(Encoder):
    """Rows → `[N, 1 + E]`: the item's id, then φ(x), scaled so that the users' tastes have unit covariance.

    `item` is the item's field, `unknown_item` its id of a value never seen. `kept` says which fields are the row's
    own: what describes the user is the same in all rows of a user.
    """

    def __init__(
        self,
        n_ids: int,
        column_counts: Sequence[int],
        *,
        item: int,
        unknown_item: int,
        embedding_dim: int,
        embedding_std: float,
    ) -> None:
        super().__init__()
        self.embedding = FieldEmbedding(n_ids, column_counts, embedding_dim, std=embedding_std)
        self.item_column = sum(column_counts[:item])
        self.unknown_item = unknown_item
        self.width = 1 + embedding_dim
        self.kept: Tensor
        self.spread: Tensor
        self.register_buffer("kept", torch.ones(len(column_counts)))
        self.register_buffer("spread", torch.eye(embedding_dim))

    @classmethod
    def of(cls, encoder: Encoder) -> "FactorEncoder":
        """The same encoder, for code that only ever trains RESUS+."""
        assert isinstance(encoder, cls)
        return encoder

    def forward(self, features: Features) -> Tensor:
        ids = features.ids[:, self.item_column]
        items = torch.where(ids == self.unknown_item, UNKNOWN, ids.to(self.spread.dtype))
        return torch.cat([items.unsqueeze(1), self.factors(features) @ self.spread], dim=1)

    def factors(self, features: Features) -> Tensor:
        """`[N, E]`, as they were learned."""
        factors: Tensor = (self.embedding(features) * self.kept.view(1, -1, 1)).sum(dim=1)
        return factors
