"""What every encoder Φ can do, from rows to the vectors that a learner works on, and the parts that they share."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.episodes.batch import Features


class Encoder(nn.Module):
    """A module with `width`, the K of its output. With a linear output on top it is also a predictor Ψ."""

    width: int

    def forward(self, features: Features) -> Tensor:
        """N rows → `[N, K]`."""
        raise NotImplementedError


class FieldEmbedding(nn.Module):
    """`[N, C]` ids and weights → `[N, F, E]`: a field's vector is the weighted sum over its columns."""

    def __init__(self, n_ids: int, column_counts: Sequence[int], dim: int, *, std: float) -> None:
        super().__init__()
        self.column_counts = list(column_counts)
        self.n_fields = len(column_counts)
        self.table = nn.Parameter(torch.empty(n_ids, dim))
        nn.init.normal_(self.table, std=std)
        self.lookup: Callable[[Tensor], Tensor] | None = None  # of an optimizer that updates row by row

    def forward(self, features: Features) -> Tensor:
        if self.lookup is not None and torch.is_grad_enabled():
            vectors = self.lookup(features.ids)
        else:
            vectors = functional.embedding(features.ids, self.table)
        if features.weights is not None:
            vectors = vectors * features.weights.unsqueeze(-1)
        if len(self.column_counts) == vectors.shape[1]:
            return vectors
        blocks = torch.split(vectors, self.column_counts, dim=1)
        return torch.cat([block.sum(dim=1, keepdim=True) for block in blocks], dim=1)

    def summed(self, features: Features, kept: Tensor, starts: Tensor | None = None) -> Tensor:
        """Sums of the vectors of all fields that are `kept`: of each row `[N, E]`, or over groups of rows `[G, E]`.

        The groups begin at `starts`.
        """
        columns = kept.repeat_interleave(torch.tensor(self.column_counts))
        weights = columns.expand(features.ids.shape) if features.weights is None else features.weights * columns
        by_row = self.lookup if torch.is_grad_enabled() else None
        if by_row is None and not torch.compiler.is_exporting():
            used = weights != 0  # many values of a row are empty
            ends = functional.pad(used.sum(dim=1).cumsum(dim=0), (1, 0))
            first = (ends[:-1] if starts is None else ends[starts]).to(features.ids.dtype)
            return functional.embedding_bag(
                features.ids[used], self.table, first, mode="sum", per_sample_weights=weights[used]
            )
        vectors = by_row(features.ids) if by_row else functional.embedding(features.ids, self.table)
        rows = (vectors * weights.unsqueeze(-1)).sum(dim=1)
        if starts is None:
            return rows
        owners = torch.bucketize(torch.arange(features.rows), starts, right=True) - 1
        return rows.new_zeros(len(starts), rows.shape[1]).index_add(0, owners, rows)


def clear_unknown(encoder: Encoder, unknown: Sequence[int]) -> Encoder:
    """Set the vectors of values never seen to zero."""
    for part in encoder.modules():
        if isinstance(part, FieldEmbedding):
            with torch.no_grad():
                part.table[list(unknown)] = 0.0
    return encoder


def perceptron(inputs: int, hidden_units: Sequence[int]) -> nn.Sequential:
    """Linear and ReLU layers, one pair per hidden width."""
    layers: list[nn.Module] = []
    for width in hidden_units:
        layers += [nn.Linear(inputs, width), nn.ReLU(inplace=True)]
        inputs = width
    return nn.Sequential(*layers)


def pairwise_interactions(vectors: Tensor) -> Tensor:
    """Σ_{i<j} e_i ∘ e_j of `[N, F, E]` vectors, as half the square of the sum minus the sum of squares (equation 2)."""
    total = vectors.sum(dim=1)
    return 0.5 * (total * total - (vectors * vectors).sum(dim=1))
