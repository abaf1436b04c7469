"""Draws of the whole function Δ of many users at a time. A user alone gets the same ones from `in_numpy.spread`."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Integers
from resus.model.learners.plus.codes import Codes
from resus.model.learners.plus.learner import PlusPosterior
from resus.model.learners.plus.noise import Part, normals
from resus.model.learners.plus.prior import Prior


@torch.no_grad()
def deviations_drawn(posterior: PlusPosterior, query: Tensor, seeds: Integers, draws: int) -> Tensor:
    """Draws of Δ minus its mean at the queries `[U, P, K]` of users with these seeds `[U]`, `[U, P, draws]`."""
    codes, events, mask = posterior.layout.unpack(query), posterior.known.codes, posterior.known.mask
    prior = _PriorFunctions(posterior.prior, [codes, events], seeds, draws)
    if not mask.shape[1]:
        return prior(codes)
    weights = posterior.curvature.unsqueeze(2)
    slots = np.arange(mask.shape[1])
    noise = torch.from_numpy(normals(seeds[:, None], Part.EVENT, slots, draws)).double() / weights.sqrt()
    dual = posterior.solved(-(prior(events) + noise) * mask.unsqueeze(2))
    return prior(codes) + posterior.across(codes).transpose(1, 2) @ dual


class _PriorFunctions:
    """Functions drawn under the prior, for rows whose values are among those of `all_codes`."""

    def __init__(self, prior: Prior, all_codes: Sequence[Codes], seeds: Integers, draws: int) -> None:
        def drawn(part: Part, keys: Integers, scale: Tensor) -> Tensor:
            return torch.from_numpy(normals(seeds[:, None], part, keys, draws)).double() * scale.double().sqrt()

        self._scale_of_value = prior.matches.double().sqrt()
        self._values = torch.unique(torch.cat([codes.values.flatten() for codes in all_codes]))
        self._level = drawn(Part.BIAS, np.zeros(1, dtype=np.int64), prior.bias)
        self._taste = drawn(Part.TASTE, np.arange(all_codes[0].taste.shape[-1]), prior.taste)
        self._table = drawn(Part.VALUE, self._values.long().clamp(min=0).numpy(), torch.ones(()))  # [U, D, draws]

    def __call__(self, codes: Codes) -> Tensor:
        """`[U, P, V]` and so on → `[U, P, draws]`."""
        found = self._level + codes.taste.double() @ self._taste
        users = torch.arange(len(found)).unsqueeze(1)
        places = torch.searchsorted(self._values, codes.values.contiguous())
        amounts = codes.shares.double() * self._scale_of_value
        for column in range(places.shape[2]):
            if bool(amounts[:, :, column].any()):
                found = found + self._table[users, places[:, :, column]] * amounts[:, :, column].unsqueeze(2)
        return found
