"""A user's own weights after a few gradient steps on the support, without building a weight matrix per user.

The gradient of a linear layer is a sum of outer products, so a user's layer is W_u = W − Σ_r δ_r a_rᵀ and
b_u = b − Σ_r δ_r over R support slots, and answers W_u x + b_u = (W x + b) − Σ_r δ_r (a_r·x + 1): the shared product at
full speed, plus a term of rank R.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from resus.episodes.batch import EpisodeBatch

TILE_ROWS = 32


class Change(NamedTuple):
    """What the steps so far change in one layer of every user."""

    inputs: Tensor  # [U, R, in], a
    errors: Tensor  # [U, R, out], δ times the step size


class FastWeights:
    """One pass through the layers. It gives each layer the change of its user, and keeps the inputs of each layer.

    A `probe` is added to a layer's output: the gradient of the loss at a zero probe is δ.
    """

    def __init__(self, changes: Sequence[Change] = (), probes: Sequence[Tensor] = ()) -> None:
        self.changes = changes
        self.probes = probes
        self.inputs: list[Tensor] = []

    def __call__(self, shared: Tensor, inputs: Tensor, *, bias: bool = True) -> Tensor:
        """Inputs `[U, P, in]` and the output of the shared weights → the output of the users' own `[U, P, out]`."""
        layer = len(self.inputs)
        self.inputs.append(inputs)
        if self.changes:
            change = self.changes[layer]
            strength = torch.bmm(inputs, change.inputs.mT)
            shared = torch.baddbmm(shared, strength + 1.0 if bias else strength, change.errors, alpha=-1.0)
        return shared + self.probes[layer] if self.probes else shared


Decide = Callable[[Tensor, FastWeights], Tensor]  # places of rows [U, P] → their logits [U, P]


def adapt(
    decide: Decide, batch: EpisodeBatch, labels: Tensor, *, widths: Sequence[int], rate: float, steps: int
) -> list[Change]:
    """Gradient steps on each user's mean binary cross-entropy over its support, for all users at once.

    `widths` are the output widths of the layers. The result can be differentiated again, so the loss of the queries
    learns through the steps. A user without support gets no change.
    """
    changes: list[Change] = []
    if not batch.mask.shape[1]:
        return changes
    targets, weights = labels[batch.support], shares(batch, labels.dtype)

    def support_loss(probes: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        fast = FastWeights(changes, probes)
        losses = functional.binary_cross_entropy_with_logits(decide(batch.support, fast), targets, reduction="none")
        return (weights * losses).sum(), fast.inputs

    probes = [targets.new_zeros(*targets.shape, width) for width in widths]
    for _ in range(steps):
        errors, inputs = torch.func.grad(support_loss, has_aux=True)(probes)
        step = [Change(before, rate * error) for before, error in zip(inputs, errors, strict=True)]
        changes = [_join(*pair) for pair in zip(changes, step, strict=True)] if changes else step
    return changes


def answer(decide: Decide, batch: EpisodeBatch, changes: Sequence[Change]) -> Tensor:
    """`[Q]` logits of the queries, each with its user's own weights.

    Queries are cut into tiles of one user each, so users of any length need little padding.
    """
    counts = batch.lengths - batch.support_sizes
    tiles = -(-counts // TILE_ROWS)
    user = np.repeat(np.arange(batch.n_users), tiles)
    number = np.arange(len(user)) - np.repeat(np.cumsum(tiles) - tiles, tiles)
    place = (number * TILE_ROWS)[:, None] + np.arange(TILE_ROWS)
    filled = torch.from_numpy(place < counts[user][:, None])
    ends = np.cumsum(batch.lengths)
    rows = np.minimum((ends - counts)[user][:, None] + place, (ends - 1)[user][:, None])
    users = torch.from_numpy(user)
    own = [Change(inputs.index_select(0, users), errors.index_select(0, users)) for inputs, errors in changes]
    return decide(torch.from_numpy(rows), FastWeights(own))[filled]


def shares(batch: EpisodeBatch, dtype: torch.dtype) -> Tensor:
    """`[U, S]`: the weight of each slot in its user's mean over the support."""
    return batch.mask.to(dtype) / batch.sizes.clamp(min=1).unsqueeze(1)


def take(values: Tensor, places: Tensor) -> Tensor:
    """Rows `[N, D]` at places `[U, P]` → `[U, P, D]`."""
    return values.index_select(0, places.flatten()).view(*places.shape, values.shape[1])


def _join(before: Change, step: Change) -> Change:
    return Change(torch.cat([before.inputs, step.inputs], dim=1), torch.cat([before.errors, step.errors], dim=1))
