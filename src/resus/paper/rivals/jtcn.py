"""JTCN (Liang et al. 2020, "Joint Training Capsule Network for Cold Start Recommendation"), as RESUS compares it.

Interest capsules of the support, attended into one preference vector and fused with the user's fields, are one more
field vector of a DeepFM. JTCN's loss for users without any history, which mimics a preference, is left out.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn

from resus.baselines.base import Task
from resus.data.log.user_fields import user_fields
from resus.episodes.batch import EpisodeBatch, Features
from resus.episodes.prefixes import Tile
from resus.model.encoders import DeepFMSettings
from resus.model.encoders.base import FieldEmbedding, pairwise_interactions, perceptron
from resus.paper.rivals.episodic import PrefixMethod, PrefixNetwork, field_embedding
from resus.paper.rivals.fast_weights import take

SCORING_ROWS = 2048


def squash(vectors: Tensor) -> Tensor:
    """|s|²/(1 + |s|²)·s/|s|: the direction stays, the length goes below 1."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors * length / (1 + length * length)


class InterestCapsules(nn.Module):
    """Routing by agreement: v_j = squash(Σ_i c_ij û_ij). Event i gives more to the capsules that its vote fits.

    û_ij = S_j e_i + s_j, c_i = softmax(b_i), and b_ij grows by v_j·û_ij in each iteration. The JTCN paper has one S for
    all capsules, so its b must start at random. Here each capsule has its own map, and b starts at 0. Histories of the
    JTCN paper hold positives only. Here the label chooses between two sets of maps.
    """

    def __init__(self, inputs: int, width: int, *, capsules: int, iterations: int) -> None:
        super().__init__()
        self.maps = nn.Linear(inputs, 2 * capsules * width)
        self.shape = (2, capsules, width)
        self.iterations = iterations

    def forward(self, events: Tensor, labels: Tensor, masks: Tensor) -> Tensor:
        """`[U, S, F·E]`, `[U, S]` and T histories as masks `[U, T, S]` → capsules `[U, T, C, E]`, 0 without events."""
        negative, positive = self.maps(events).view(*labels.shape, *self.shape).unbind(dim=2)
        votes = torch.where(labels[..., None, None] > 0, positive, negative)  # [U, S, C, E]
        agreement = votes.new_zeros(*masks.shape, votes.shape[2])  # b, [U, T, S, C]
        for last in [False] * (self.iterations - 1) + [True]:
            shares = agreement.softmax(dim=-1) * masks.unsqueeze(-1)
            capsules = squash(torch.einsum("utsc,usce->utce", shares, votes))
            if not last:
                agreement = agreement + torch.einsum("utce,usce->utsc", capsules, votes)
        return capsules


class CapsuleDeepFM(PrefixNetwork):
    """logit = DeepFM(e₁ … e_F, r) with r = relu(W[user's fields ⊕ p]), p = Σ_j a_j v_j, a = softmax(h·relu(A v_j))."""

    def __init__(
        self,
        embedding: FieldEmbedding,
        fields_of_user: Sequence[int],
        *,
        hidden_units: Sequence[int],
        capsules: int,
        iterations: int,
    ) -> None:
        super().__init__()
        dim = embedding.table.shape[1]
        self.embedding = embedding
        self.fields_of_user = list(fields_of_user)
        inputs = embedding.n_fields * dim
        self.capsules = InterestCapsules(inputs, dim, capsules=capsules, iterations=iterations)
        self.attention = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1, bias=False))
        self.fuse = nn.Linear((len(self.fields_of_user) + 1) * dim, dim)
        # The first layer in two parts: what the fields give to it is the same for every support.
        self.first_of_fields = nn.Linear(inputs, hidden_units[0])
        self.first_of_user = nn.Linear(dim, hidden_units[0], bias=False)
        self.rest = perceptron(hidden_units[0], hidden_units[1:])
        self.output = nn.Linear(dim + hidden_units[-1], 1)

    def forward(self, batch: EpisodeBatch, features: Features, labels: Tensor) -> Tensor:
        vectors = self.embedding(features)
        events = take(vectors.flatten(1), batch.support)
        preferences = self.preferences(events, labels[batch.support], batch.mask.unsqueeze(1))
        queries = vectors.index_select(0, batch.query)
        return self.logits(queries, preferences.index_select(0, batch.query_user)).squeeze(1)

    def prefixes(self, tile: Tile, features: Features, labels: Tensor, masks: Tensor) -> Tensor:
        vectors = self.embedding(features)
        events = tile.pad(vectors.flatten(1))[:, : labels.shape[1]]
        preferences = self.preferences(events, labels, masks)
        owner = torch.from_numpy(np.repeat(np.arange(len(labels)), tile.lengths))
        step = max(1, SCORING_ROWS // masks.shape[1])
        answers = [
            self.logits(some, preferences.index_select(0, own))
            for some, own in zip(torch.split(vectors, step), torch.split(owner, step), strict=True)
        ]
        return torch.cat(answers)

    def preferences(self, events: Tensor, labels: Tensor, masks: Tensor) -> Tensor:
        """`[U, S, F·E]`, `[U, S]`, `[U, T, S]` → p `[U, T, E]`, 0 without events."""
        capsules: Tensor = self.capsules(events, labels, masks)
        attention: Tensor = self.attention(capsules)
        return (attention.softmax(dim=2) * capsules).sum(dim=2)

    def logits(self, vectors: Tensor, preferences: Tensor) -> Tensor:
        """Field vectors `[Q, F, E]` and T preferences for each `[Q, T, E]` → `[Q, T]`."""
        own = vectors[:, self.fields_of_user].flatten(1).unsqueeze(1).expand(-1, preferences.shape[1], -1)
        user = self.fuse(torch.cat([own, preferences], dim=2)).relu()
        # One more vector adds to the pairs of equation 2 its product with the sum of the others.
        pairs = pairwise_interactions(vectors).unsqueeze(1) + vectors.sum(dim=1, keepdim=True) * user
        first = self.first_of_fields(vectors.flatten(1)).unsqueeze(1) + self.first_of_user(user)
        return self.output(torch.cat([pairs, self.rest(first.relu())], dim=2)).squeeze(2)  # type: ignore[no-any-return]


@dataclass(eq=False, kw_only=True)
class JTCN(PrefixMethod):
    """Three capsules and three iterations, as in the code of JTCN's authors."""

    capsules: int = 3
    iterations: int = 3

    def build(self, task: Task) -> CapsuleDeepFM:
        shape = DeepFMSettings.sharing(task.config.predictor)
        return CapsuleDeepFM(
            field_embedding(shape, task.log.features),
            user_fields(task.log, task.split.train),
            hidden_units=shape.hidden_units,
            **asdict(self),
        )
