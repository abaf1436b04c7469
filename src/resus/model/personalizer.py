"""RESUS: a shared predictor Ψ, an encoder Φ, a base-learner Λ and their fusion, composed."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from resus.episodes.batch import EpisodeBatch
from resus.episodes.tensors import Features
from resus.model.fusion import Fusion


class ResidualModel(nn.Module):
    """What meta-training learns on top of Ψ's logits. Without Ψ (logits 0) this is the paper's MUS."""

    def __init__(self, encoder: nn.Module, learner: nn.Module, fusion: Fusion) -> None:
        super().__init__()
        self.encoder = encoder
        self.learner = learner
        self.fusion = fusion

    def forward(self, batch: EpisodeBatch, features: Features, basis: Tensor, labels: Tensor) -> Tensor:
        """All rows of a batch, Ψ's logits and labels `[N]` → logits of its queries `[Q]`; each row is encoded once."""
        encoded = self.encoder(features)
        groups = batch.by_support_size()
        if len(groups) == 1:
            return self._logits(batch, encoded, basis, labels)
        logits, places = [], []
        for users in groups:
            rows = np.repeat(users, batch.lengths)
            chosen = torch.from_numpy(np.flatnonzero(rows))
            own = (values.index_select(0, chosen) for values in (encoded, basis, labels))
            logits.append(self._logits(batch.part(users), *own))
            places.append(np.flatnonzero(rows[batch.query.numpy()]))
        in_order = torch.from_numpy(np.argsort(np.concatenate(places)))
        return torch.cat(logits).index_select(0, in_order)

    def _logits(self, batch: EpisodeBatch, encoded: Tensor, basis: Tensor, labels: Tensor) -> Tensor:
        outcomes = self.learner.outcomes(labels, basis)  # type: ignore[operator]
        users, slots = batch.support.shape
        places = batch.support.flatten()
        answers = self.learner(
            encoded.index_select(0, places).view(users, slots, encoded.shape[1]),
            batch.mask,
            outcomes.index_select(0, places).view(users, slots, *outcomes.shape[1:]),
            encoded.index_select(0, batch.query),
            batch.query_user,
        )
        added: Tensor = self.fusion(answers, batch.sizes.index_select(0, batch.query_user))
        return basis.index_select(0, batch.query) + added

    @torch.no_grad()
    def added_by_prefixes(self, encoded: Tensor, outcomes: Tensor, lengths: Tensor, sizes: Sequence[int]) -> Tensor:
        """Encoded rows `[U, P, K]` in order → what every support size adds to their logits, `[U, P, len(sizes)]`.

        Entry (u, p, k) rests on the user's first k rows and is an honest answer only where p ≥ k.
        """
        slots = min(max(sizes), encoded.shape[1])
        mask = torch.arange(slots) < lengths.unsqueeze(1)
        if slots:
            within = [min(max(size, 1), slots) for size in sizes]
            answers = self.learner.prefixes(  # type: ignore[operator]
                encoded[:, :slots], mask, outcomes[:, :slots], encoded, within
            )
        else:
            answers = encoded.new_zeros(*encoded.shape[:2], len(sizes))
        return self.fusion(answers, torch.tensor(list(sizes)))  # type: ignore[no-any-return]
