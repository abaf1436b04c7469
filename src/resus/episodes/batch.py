"""EpisodeBatch: some users' rows, each user's support first, with the index arrays that a learner needs."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from resus.episodes.tensors import Rows

WASTE = 3.0  # padded over filled support slots, from which on it pays to go through a batch in groups
SMALL_SUPPORT = 8  # supports up to here are not told apart


@dataclass(frozen=True, eq=False)
class EpisodeBatch:
    """`rows` holds the users one after another; the first `support_sizes[u]` of a user's rows are its support."""

    rows: Rows  # [N]
    lengths: npt.NDArray[np.int64]  # [U]
    support_sizes: npt.NDArray[np.int64]  # [U]

    def __post_init__(self) -> None:
        assert len(self.rows) == self.lengths.sum()
        assert bool((self.support_sizes <= self.lengths).all())

    @property
    def n_users(self) -> int:
        return len(self.lengths)

    def part(self, chosen: npt.NDArray[np.bool_]) -> "EpisodeBatch":
        """Only some of the users."""
        rows = self.rows[np.repeat(chosen, self.lengths)]
        return EpisodeBatch(rows, self.lengths[chosen], self.support_sizes[chosen])

    def by_support_size(self) -> list[npt.NDArray[np.bool_]]:
        """Which users go together, so that padding to one number of slots wastes little: most often all of them."""
        if self.support_sizes.max(initial=0) * self.n_users <= WASTE * self.support_sizes.sum():
            return [np.ones(self.n_users, dtype=np.bool_)]
        doublings = np.ceil(np.log2(np.maximum(self.support_sizes, SMALL_SUPPORT)))
        return [doublings == doubling for doubling in np.unique(doublings)]

    @property
    def n_queries(self) -> int:
        return len(self.rows) - int(self.support_sizes.sum())

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Of each user, the place of its first row."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def _place(self) -> npt.NDArray[np.int64]:
        """Of each row, its place among its user's rows."""
        return np.arange(len(self.rows)) - np.repeat(self.starts, self.lengths)

    @cached_property
    def _is_query(self) -> npt.NDArray[np.bool_]:
        return self._place >= np.repeat(self.support_sizes, self.lengths)

    @cached_property
    def mask(self) -> Tensor:
        """`[U, S]`: which support slots hold an event."""
        slots = int(self.support_sizes.max(initial=0))
        return torch.from_numpy(np.arange(slots)[None, :] < self.support_sizes[:, None])

    @cached_property
    def support(self) -> Tensor:
        """`[U, S]`: places in `rows`; an empty slot points at its user's first row."""
        slots = np.arange(self.mask.shape[1])[None, :]
        return torch.from_numpy(self.starts[:, None] + np.where(self.mask.numpy(), slots, 0))

    @cached_property
    def query(self) -> Tensor:
        """`[Q]`: places in `rows`."""
        return torch.from_numpy(np.flatnonzero(self._is_query))

    @cached_property
    def query_user(self) -> Tensor:
        """`[Q]`: of each query, its user in this batch."""
        return torch.from_numpy(np.repeat(np.arange(self.n_users), self.lengths)[self._is_query])

    @cached_property
    def sizes(self) -> Tensor:
        """`[U]`: the support sizes."""
        return torch.from_numpy(self.support_sizes)
