"""MAMO (Dong et al. 2020, "MAMO: Memory-Augmented Meta-Optimization for Cold-start Recommendation").

MeLU with memories of what earlier users needed. The profile p_u of a user attends over K slots,
a_u = softmax(cos(p_u, M_P)), and the slots give each user their own start before the first gradient step:
b_u = a_u·M_U moves the user-related parameters, φ_u − τ b_u, and M_u = a_u·M_UI transforms what the decision layers
read.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.baselines.base import Task
from resus.data.log.user_fields import user_fields
from resus.episodes.batch import EpisodeBatch, Features
from resus.model.encoders.base import pairwise_interactions
from resus.model.encoders.deepfm import DeepFM
from resus.paper.rivals.episodic import EpisodicMethod, deepfm
from resus.paper.rivals.fast_weights import Change, FastWeights, adapt, answer, shares, take


class Memories(nn.Module):
    """M_P `[K, P]`, M_U `[K, H]` and M_UI `[K, D, D]`. Training writes them; no gradient changes them."""

    def __init__(self, slots: int, profile: int, bias: int, transform: int, *, write_rate: float) -> None:
        super().__init__()
        self.write_rate = write_rate
        self.register_buffer("profiles", torch.randn(slots, profile))
        self.register_buffer("biases", torch.zeros(slots, bias))
        self.register_buffer("transforms", torch.zeros(slots, transform, transform))
        self.profiles: Tensor
        self.biases: Tensor
        self.transforms: Tensor

    def attention(self, profiles: Tensor) -> Tensor:
        """`[N, P]` → `[N, K]`."""
        return functional.cosine_similarity(profiles.unsqueeze(1), self.profiles, dim=-1).softmax(dim=-1)

    def transform(self, attention: Tensor, inputs: Tensor) -> Tensor:
        """M_u x for `[U, P, K]` attention and `[U, P, D]` inputs."""
        slots, width, _ = self.transforms.shape
        by_slot = functional.linear(inputs, self.transforms.flatten(0, 1)).view(*inputs.shape[:2], slots, width)
        return (attention.unsqueeze(2) @ by_slot).squeeze(2)

    @torch.no_grad()
    def write(self, attention: Tensor, profiles: Tensor, biases: Tensor, transforms: Tensor) -> None:
        """Each slot moves to the users' values by their attention `[U, K]` to it."""
        self.profiles = self._moved(self.profiles, attention, profiles)
        self.biases = self._moved(self.biases, attention, biases)
        self.transforms = self._moved(self.transforms, attention, transforms)

    def _moved(self, memory: Tensor, attention: Tensor, values: Tensor) -> Tensor:
        """M_k + β·mean_u a_uk (v_u − M_k), as a new tensor: the graph of this batch still needs the old one."""
        share = self.write_rate / len(attention)
        written = (attention.mT @ values.flatten(1)).view_as(memory)
        kept = 1 - share * attention.sum(dim=0)
        return kept.view(-1, *[1] * (memory.dim() - 1)) * memory + share * written


class MAMONetwork(nn.Module):
    """ŷ = w_u·(FM(x) ⊕ MLP_u((I + M_u) x)) + b_u, where MLP_u's first layer starts from a bias lowered by τ b_u."""

    def __init__(
        self,
        encoder: DeepFM,
        profile_fields: Sequence[int],
        *,
        slots: int,
        inner_rate: float,
        inner_steps: int,
        bias_rate: float,
        write_rate: float,
    ) -> None:
        super().__init__()
        self.embedding = encoder.embedding
        linear = [layer for layer in encoder.deep if isinstance(layer, nn.Linear)]
        self.first, self.rest = linear[0], nn.ModuleList(linear[1:])
        self.output = nn.Linear(encoder.width, 1)
        self.widths = [self.first.in_features, *(layer.out_features for layer in linear), 1]
        self.profile_fields = list(profile_fields)
        self.inner_rate = inner_rate
        self.inner_steps = inner_steps
        self.bias_rate = bias_rate
        self.memories = Memories(
            slots,
            len(profile_fields) * self.embedding.table.shape[1] or 1,
            self.first.out_features,
            self.first.in_features,
            write_rate=write_rate,
        )

    def forward(self, batch: EpisodeBatch, features: Features, labels: Tensor) -> Tensor:
        """In training it also writes the memories."""
        vectors = self.embedding(features)
        flat, pairs = vectors.flatten(1), pairwise_interactions(vectors)
        profiles = self._profiles(batch, vectors)
        attention = self.memories.attention(profiles)

        def decide(places: Tensor, fast: FastWeights) -> Tensor:
            inputs, slots = take(flat, places), take(attention, places)
            read = fast(inputs + self.memories.transform(slots, inputs), inputs, bias=False)
            start = self.first(read) - self.bias_rate * (slots @ self.memories.biases)
            hidden = fast(start, read).relu()
            for layer in self.rest:
                hidden = fast(layer(hidden), hidden).relu()
            encoded = torch.cat([take(pairs, places), hidden], dim=-1)
            return fast(self.output(encoded), encoded).squeeze(-1)

        changes = adapt(decide, batch, labels, widths=self.widths, rate=self.inner_rate, steps=self.inner_steps)
        logits = answer(decide, batch, changes)
        if self.training and changes:
            own = batch.support[:, 0]
            self._remember(profiles[own], attention[own], changes)
        return logits

    def _profiles(self, batch: EpisodeBatch, vectors: Tensor) -> Tensor:
        """p_u of each row's user `[N, P]`: the mean user fields of the support, or the row's own without a support."""
        if not self.profile_fields:
            return vectors.new_ones(len(vectors), 1)
        own = vectors[:, self.profile_fields].flatten(1)
        if not batch.mask.shape[1]:
            return own
        means = torch.bmm(shares(batch, own.dtype).unsqueeze(1), take(own, batch.support)).squeeze(1)
        user = torch.repeat_interleave(torch.from_numpy(batch.lengths))
        known = (batch.sizes > 0)[user].unsqueeze(1)
        return torch.where(known, means.index_select(0, user), own)

    @torch.no_grad()
    def _remember(self, profiles: Tensor, attention: Tensor, changes: Sequence[Change]) -> None:
        """Write p_u, the support's gradient of the first layer's bias, and M_u after the adaptation into the slots."""
        transform, first = changes[:2]
        read = torch.einsum("uk,kij->uij", attention, self.memories.transforms)
        self.memories.write(
            attention,
            profiles,
            first.errors.sum(dim=1) / self.inner_rate,
            read - transform.errors.mT @ transform.inputs,
        )


@dataclass(eq=False, kw_only=True)
class MAMO(EpisodicMethod):
    """MAMO on DeepFM. `slots` is K, `inner_rate` ρ, `bias_rate` τ, `write_rate` the β of all three memories.

    It is simpler than the original:
    - The user-related parameters are DeepFM's weights on the user's fields. These fields hardly change within a user,
      so such a weight only adds a constant to the first layer. M_U keeps biases of that layer, not weight matrices.
    - M_u is a change of the identity, and acts on the field vectors that the perceptron reads.
    - A slot forgets as much as is written to it, so memories keep their scale. The original shrinks all slots at every
      write. The users of a batch write together.
    - The gradient of the queries' loss goes through the local steps, as in MeLU.
    A user without support has the profile of the row itself. Without user fields all users share one profile.
    """

    slots: int = 4
    inner_rate: float = 0.3
    inner_steps: int = 1
    bias_rate: float = 0.1
    write_rate: float = 0.1

    def build(self, task: Task) -> MAMONetwork:
        return MAMONetwork(
            deepfm(task.config.predictor, task.log.features),
            user_fields(task.log, task.split.train),
            **asdict(self),
        )
