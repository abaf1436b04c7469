"""Events ordered by user, so that the events of any user are found at once."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from resus.arrays import Floats, Ids, Integers


@dataclass(frozen=True, eq=False)
class SupportIndex:
    """Each user's events next to each other, in the order of the table. The arrays may be memory-mapped."""

    users: pl.Series  # [U] names, distinct and sorted
    offsets: Integers  # [U + 1]: the events of user u are offsets[u] : offsets[u + 1]
    ids: Ids
    weights: Floats | None
    labels: Floats

    @classmethod
    def of(cls, users: pl.Series, ids: Ids, weights: Floats | None, labels: Floats) -> Self:
        """Sort events that are in memory."""
        distinct = users.unique().sort()
        codes = distinct.search_sorted(users).to_numpy()
        order = np.argsort(codes, kind="stable")
        offsets = offsets_of(np.bincount(codes, minlength=len(distinct)))
        return cls(distinct, offsets, ids[order], None if weights is None else weights[order], labels[order])

    def find(self, users: pl.Series) -> tuple[Integers, Integers]:
        """Where the events of each user start, and how many there are; 0 for a user without events."""
        places = self.users.search_sorted(users).to_numpy().astype(np.int64)
        counts = np.zeros(len(users), dtype=np.int64)
        if len(self.users):
            nearest = np.minimum(places, len(self.users) - 1)
            known = (self.users.gather(nearest) == users).to_numpy()
            counts[known] = np.diff(self.offsets)[nearest[known]]
        return self.offsets[places], counts

    def events(self, places: Integers) -> tuple[Ids, Floats | None, Floats]:
        """Copies of the ids, weights and labels of some events."""
        weights = None if self.weights is None else self.weights[places]
        return self.ids[places], weights, self.labels[places]


def offsets_of(counts: Integers) -> Integers:
    """`[U]` sizes → `[U + 1]` offsets."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
