"""xDeepFM (Lian et al. 2018)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder, FieldEmbedding, perceptron


class CompressedInteractions(nn.Module):
    """CIN: x^k_h = ReLU(Σ_ij W^{k,h}_ij x^{k-1}_i ∘ x^0_j), each map summed over E (their equation 6)."""

    def __init__(self, n_fields: int, maps: Sequence[int]) -> None:
        super().__init__()
        before = [n_fields, *maps[:-1]]
        self.mixes = nn.ModuleList(
            nn.Linear(previous * n_fields, width) for previous, width in zip(before, maps, strict=True)
        )
        self.width = sum(maps)

    def forward(self, vectors: Tensor) -> Tensor:
        """`[N, F, E]` → `[N, K]`."""
        first = vectors.transpose(1, 2)  # [N, E, F]
        current, pooled = first, []
        for mix in self.mixes:
            products = (current.unsqueeze(3) * first.unsqueeze(2)).flatten(2)  # [N, E, H * F]
            current = mix(products).relu()
            pooled.append(current.sum(dim=1))
        return torch.cat(pooled, dim=1)


class XDeepFM(Encoder):
    """First-order weights, CIN and a perceptron side by side."""

    def __init__(
        self,
        n_ids: int,
        column_counts: Sequence[int],
        *,
        embedding_dim: int,
        embedding_std: float,
        hidden_units: Sequence[int],
        cin_maps: Sequence[int],
    ) -> None:
        super().__init__()
        self.first_order = FieldEmbedding(n_ids, column_counts, 1, std=embedding_std)
        self.embedding = FieldEmbedding(n_ids, column_counts, embedding_dim, std=embedding_std)
        self.interactions = CompressedInteractions(len(column_counts), cin_maps)
        self.deep = perceptron(len(column_counts) * embedding_dim, hidden_units)
        self.width = len(column_counts) + self.interactions.width + hidden_units[-1]

    def forward(self, features: Features) -> Tensor:
        vectors = self.embedding(features)
        parts = [self.first_order(features).flatten(1), self.interactions(vectors), self.deep(vectors.flatten(1))]
        return torch.cat(parts, dim=1)
