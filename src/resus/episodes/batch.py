"""Rows of a log as tensors, and batches of users with the index arrays that a learner needs."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Booleans, Floats, Ids, Integers
from resus.data.log.log import InteractionLog

WASTE = 3.0  # a batch with more padded slots per filled slot than this is worth splitting
SMALL_SUPPORT = 8  # supports up to this size stay in one group


class Features(NamedTuple):
    """What a model sees of N rows: `[N, C]` ids into one embedding table, and their weights (None: all 1)."""

    ids: Tensor
    weights: Tensor | None

    @classmethod
    def of(cls, ids: Ids, weights: Floats | None) -> "Features":
        return cls(torch.from_numpy(ids), None if weights is None else torch.from_numpy(weights))

    def to(self, device: torch.device) -> "Features":
        """The same on a device; there already, they are not copied."""
        return Features(self.ids.to(device), None if self.weights is None else self.weights.to(device))

    @property
    def rows(self) -> int:
        return self.ids.shape[0]

    def take(self, rows: Integers) -> "Features":
        """Some of the rows."""
        chosen = torch.from_numpy(rows).to(self.ids.device)
        return Features(self.ids[chosen], None if self.weights is None else self.weights[chosen])


def features_of(log: InteractionLog, rows: Integers) -> Features:
    """A copy of the features of some rows."""
    return Features.of(log.ids[rows], None if log.weights is None else log.weights[rows])


def labels_of(log: InteractionLog, rows: Integers) -> Tensor:
    return torch.from_numpy(log.labels[rows])


def padded(values: Tensor, filled: Tensor) -> Tensor:
    """`[n, …]` values of the filled places, user by user → `[U, P, …]`, with zeros in empty places."""
    places = values.new_zeros(*filled.shape, *values.shape[1:])
    places[filled.to(values.device)] = values
    return places


@dataclass(frozen=True, eq=False)
class EpisodeBatch:
    """`rows` holds one user after another. The first `support_sizes[u]` rows of user u are the support."""

    rows: Integers  # [N]
    lengths: Integers  # [U]
    support_sizes: Integers  # [U]

    def __post_init__(self) -> None:
        assert len(self.rows) == self.lengths.sum()
        assert bool((self.support_sizes <= self.lengths).all())

    @property
    def n_users(self) -> int:
        return len(self.lengths)

    def part(self, chosen: Booleans) -> "EpisodeBatch":
        """Only some of the users."""
        rows = self.rows[np.repeat(chosen, self.lengths)]
        return EpisodeBatch(rows, self.lengths[chosen], self.support_sizes[chosen])

    def by_support_size(self) -> list[Booleans]:
        """Groups of users to process together, so that padding wastes little. Usually one group of all users."""
        if self.support_sizes.max(initial=0) * self.n_users <= WASTE * self.support_sizes.sum():
            return [np.ones(self.n_users, dtype=np.bool_)]
        doublings = np.ceil(np.log2(np.maximum(self.support_sizes, SMALL_SUPPORT)))
        return [doublings == doubling for doubling in np.unique(doublings)]

    @property
    def n_queries(self) -> int:
        return len(self.rows) - int(self.support_sizes.sum())

    @cached_property
    def starts(self) -> Integers:
        """The position of each user's first row."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def _place(self) -> Integers:
        """The position of each row among its user's rows."""
        return np.arange(len(self.rows)) - np.repeat(self.starts, self.lengths)

    @cached_property
    def _is_query(self) -> Booleans:
        return self._place >= np.repeat(self.support_sizes, self.lengths)

    @cached_property
    def mask(self) -> Tensor:
        """`[U, S]`: whether a support slot holds an event."""
        slots = int(self.support_sizes.max(initial=0))
        return torch.from_numpy(np.arange(slots)[None, :] < self.support_sizes[:, None])

    @cached_property
    def support(self) -> Tensor:
        """`[U, S]`: positions in `rows`. An empty slot points at its user's first row."""
        slots = np.arange(self.mask.shape[1])[None, :]
        return torch.from_numpy(self.starts[:, None] + np.where(self.mask.numpy(), slots, 0))

    @cached_property
    def query(self) -> Tensor:
        """`[Q]`: positions in `rows`."""
        return torch.from_numpy(np.flatnonzero(self._is_query))

    @cached_property
    def query_user(self) -> Tensor:
        """`[Q]`: the user of each query, within this batch."""
        return torch.from_numpy(np.repeat(np.arange(self.n_users), self.lengths)[self._is_query])

    @cached_property
    def sizes(self) -> Tensor:
        """`[U]`: the support sizes."""
        return torch.from_numpy(self.support_sizes)
