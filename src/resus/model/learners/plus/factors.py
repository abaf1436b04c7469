"""From the fields of a row to its code: the values that can match those of other rows, and learned factors."""

import torch
from torch import Tensor

from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder, FieldEmbedding
from resus.model.learners.plus.codes import Layout
from resus.model.learners.plus.numbers import KNOTS, SIGNATURE_BASES, SIGNATURE_BITS, SIGNATURE_PRIME, UNKNOWN


class FactorEncoder(Encoder):
    """Rows → `[N, K]`: codes as `layout` packs them. φ is scaled so that the users' tastes have unit covariance.

    Which fields describe the user (they are the same in all rows of a user, and so not `kept`), which make up the
    `context`, and the `knots` of numbers are learned from a log (`training/factors.py`). A choice `speaks` of traits of
    its own and, if validation users gain from it, of tastes.
    """

    def __init__(self, features: FeatureMap, *, embedding_dim: int, choice_dim: int, embedding_std: float) -> None:
        super().__init__()
        counts = features.column_counts
        self.blocks = features.blocks
        self.layout = Layout(
            names=tuple(field.name for field in features.fields),
            columns=tuple(2 if field.kind == "numeric" else field.columns for field in features.fields),
            item=features.item,
            taste=embedding_dim,
            choice=embedding_dim + choice_dim,
        )
        self.width = self.layout.width
        self.n_ids = features.n_ids
        self.item = self.layout.names.index(features.item)
        self.embedding = FieldEmbedding(features.n_ids, counts, embedding_dim + choice_dim + 1, std=embedding_std)
        self.chosen = FieldEmbedding(features.n_ids, counts, self.layout.choice, std=embedding_std)
        with torch.no_grad():
            self.embedding.table[:, -1] = 0.0
        self.kept: Tensor
        self.context: Tensor
        self.knots: Tensor
        self.spread: Tensor
        self.speaks: Tensor
        self.register_buffer("kept", torch.ones(len(counts)))
        self.register_buffer("context", torch.zeros(len(counts)))
        self.register_buffer("knots", torch.linspace(0, 1, KNOTS).repeat(len(counts), 1))
        self.register_buffer("spread", torch.eye(embedding_dim))
        self.register_buffer("speaks", torch.ones(self.layout.choice))

    @classmethod
    def of(cls, encoder: Encoder) -> "FactorEncoder":
        """The same encoder, for code that only ever trains RESUS+."""
        assert isinstance(encoder, cls)
        return encoder

    def forward(self, features: Features) -> Tensor:
        taste, traits, common = self.factors(features)
        values, shares = self._values(features)
        item = features.ids[:, self.blocks[self.item].columns.start]
        items = torch.where(item == self.blocks[self.item].first, UNKNOWN, item.to(taste.dtype))
        chosen = self.chosen.summed(features, self.kept) * self.speaks
        codes = (items, values, shares, taste @ self.spread, torch.cat([taste, traits], dim=1), chosen, common)
        return self.layout.pack(codes, self._signatures(features))

    def factors(self, features: Features) -> tuple[Tensor, Tensor, Tensor]:
        """φ as it was learned, the traits that only choices speak of, and what is common to all users `[N]`.

        χ is φ and these traits.
        """
        summed = self.embedding.summed(features, self.kept)
        taste, traits, common = summed.split([self.layout.taste, self.layout.choice - self.layout.taste, 1], dim=1)
        return taste, traits, common.squeeze(1)

    def let_choices_speak_of_tastes(self, allowed: bool) -> None:
        self.speaks[: self.layout.taste] = float(allowed)

    def choices(self, features: Features, starts: Tensor) -> Tensor:
        """Σψ `[G, D]` over groups of rows that begin at `starts`."""
        return self.chosen.summed(features, self.kept, starts) * self.speaks

    def _values(self, features: Features) -> tuple[Tensor, Tensor]:
        """The values of all fields and their shares, both `[N, V]`; an unknown value has no share."""
        values, shares = [], []
        for number, block in enumerate(self.blocks):
            ids = features.ids[:, block.columns]
            known = (ids != block.first).to(self.kept.dtype)
            weights = known if features.weights is None else features.weights[:, block.columns]
            if block.field.kind == "numeric":
                place, parts = self._between_knots(weights[:, 0], self.knots[number])
                values.append(self.n_ids + KNOTS * number + place)
                found = parts * known[:, :1]
            else:
                values.append(ids)
                found = known * (weights != 0)
                if block.field.columns > 1:  # a value that comes twice counts once
                    found = found * ~(ids.unsqueeze(2) == ids.unsqueeze(1)).tril(-1).any(dim=2)
            norm = found.square().sum(dim=1, keepdim=True).clamp(min=1e-12).sqrt()
            shares.append(self.kept[number] * found / norm)
        return torch.cat(values, dim=1), torch.cat(shares, dim=1)

    @staticmethod
    def _between_knots(numbers: Tensor, knots: Tensor) -> tuple[Tensor, Tensor]:
        """The two knots around each number, and how near it is to each, both `[N, 2]`; a missing knot is infinite."""
        lower = (numbers.unsqueeze(1) >= knots[1:]).sum(dim=1).clamp(max=KNOTS - 2)
        low, high = knots[lower], knots[lower + 1]
        above = ((numbers - low) / (high - low)).clamp(0, 1)
        return torch.stack([lower, lower + 1], dim=1), torch.stack([1 - above, above], dim=1)

    def _signatures(self, features: Features) -> Tensor:
        """`[N, 2]`: two halves of a number that rows share if all their context fields are equal; 0 without context."""
        columns = [number for number, block in enumerate(self.blocks) for _ in range(block.field.columns)]
        chosen = self.context[columns]
        ids = (features.ids.long() + 1) * chosen.long()
        halves = []
        for base in SIGNATURE_BASES:
            powers = torch.tensor([pow(base, place, SIGNATURE_PRIME) for place in range(1, len(columns) + 1)])
            mixed = (ids * powers % SIGNATURE_PRIME).sum(dim=1) % SIGNATURE_PRIME
            halves.append(mixed % ((1 << SIGNATURE_BITS) - 1))
        return torch.stack(halves, dim=1) + (chosen.sum() > 0).long()
