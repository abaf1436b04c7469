"""Rows of a log as tensors."""

from typing import NamedTuple

import torch
from torch import Tensor

from resus.arrays import Floats, Ids, Integers
from resus.data.log.log import InteractionLog


class Features(NamedTuple):
    """What a model sees of N rows: `[N, C]` ids into one embedding table, and their weights (None: all 1)."""

    ids: Tensor
    weights: Tensor | None

    @classmethod
    def of(cls, ids: Ids, weights: Floats | None) -> "Features":
        return cls(torch.from_numpy(ids), None if weights is None else torch.from_numpy(weights))

    @property
    def rows(self) -> int:
        return self.ids.shape[0]

    def take(self, rows: Integers) -> "Features":
        """Some of the rows."""
        chosen = torch.from_numpy(rows)
        return Features(self.ids[chosen], None if self.weights is None else self.weights[chosen])


def features_of(log: InteractionLog, rows: Integers) -> Features:
    """A copy of the features of some rows."""
    return Features.of(log.ids[rows], None if log.weights is None else log.weights[rows])


def labels_of(log: InteractionLog, rows: Integers) -> Tensor:
    return torch.from_numpy(log.labels[rows])
