"""What users did, ordered by user, so that the events of those who are asked about are found at once."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from resus.arrays import Floats, Ids
from resus.episodes.tensors import Features

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SupportIndex:
    """Each user's events side by side, in the order of the table; the arrays of the events may lie on disk."""

    users: pl.Series  # [U] names, distinct and in order
    offsets: Places  # [U + 1]: the events of user u are offsets[u] : offsets[u + 1]
    ids: Ids
    weights: Floats | None
    labels: npt.NDArray[np.float32]

    @classmethod
    def of(cls, users: pl.Series, ids: Ids, weights: Floats | None, labels: npt.NDArray[np.float32]) -> Self:
        """From events in any order, all in memory."""
        distinct = users.unique().sort()
        codes = distinct.search_sorted(users).to_numpy()
        order = np.argsort(codes, kind="stable")
        offsets = offsets_of(np.bincount(codes, minlength=len(distinct)))
        return cls(distinct, offsets, ids[order], None if weights is None else weights[order], labels[order])

    def find(self, users: pl.Series) -> tuple[Places, Places]:
        """Where the events of each of these users start, and how many there are: 0 of a user without any."""
        places = self.users.search_sorted(users).to_numpy().astype(np.int64)
        counts = np.zeros(len(users), dtype=np.int64)
        if len(self.users):
            nearest = np.minimum(places, len(self.users) - 1)
            known = (self.users.gather(nearest) == users).to_numpy()
            counts[known] = np.diff(self.offsets)[nearest[known]]
        return self.offsets[places], counts

    def events(self, places: Places) -> tuple[Features, torch.Tensor]:
        """Features and labels of some events; the copy leaves a memory map alone."""
        weights = None if self.weights is None else self.weights[places]
        return Features.of(self.ids[places], weights), torch.from_numpy(self.labels[places])


def offsets_of(counts: npt.NDArray[np.int64]) -> Places:
    """`[U]` sizes → `[U + 1]` offsets."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
