"""Users in padded tiles of similar length, to score all support sizes in one dense pass."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Booleans, Integers
from resus.data.log.log import InteractionLog
from resus.episodes.batch import padded
from resus.episodes.sampling import order_rows
from resus.randomness import Purpose, generator

TILE_ROWS = 2048  # more rows of wide encodings do not fit the cache
WIDE = 400


@dataclass(frozen=True, eq=False)
class OrderedUsers:
    """Users with their rows in the order of their events."""

    users: Integers  # [U]
    lengths: Integers  # [U]
    rows: Integers  # [N], user by user

    @classmethod
    def of(cls, log: InteractionLog, users: Integers, seed: int) -> "OrderedUsers":
        rows = order_rows(log, users, generator(Purpose.SUPPORT_ORDER, seed))
        return cls(users, log.lengths[users], rows)

    def part(self, chosen: Booleans) -> "OrderedUsers":
        """Only some of the users."""
        rows = self.rows[np.repeat(chosen, self.lengths)]
        return OrderedUsers(self.users[chosen], self.lengths[chosen], rows)

    @property
    def positions(self) -> Integers:
        """For each row, the number of earlier events of its user: the largest support it can be a query of."""
        starts = np.cumsum(self.lengths) - self.lengths
        return np.arange(len(self.rows)) - np.repeat(starts, self.lengths)

    def tiles(self, slots: int, width: int = WIDE, *, whole: bool = False) -> Iterator["Tile"]:
        """Tiles of about `TILE_ROWS` padded rows (more if `width` is small), from short users to long ones.

        A user who does not fit into one tile is split: each of their tiles holds the first `slots` rows and some of the
        others. With `whole`, such a user gets one large tile.
        """
        starts = np.cumsum(self.lengths) - self.lengths
        rows = max(TILE_ROWS, TILE_ROWS * WIDE // width)
        room = int(self.lengths.max(initial=0)) if whole else max(rows, 2 * slots)
        by_length = np.argsort(self.lengths, kind="stable")
        by_length, long = np.split(by_length, [np.searchsorted(self.lengths[by_length], room, side="right")])
        first = 0
        while first < len(by_length):
            last = first + 1
            while last < len(by_length) and (last + 1 - first) * max(self.lengths[by_length[last]], slots) <= rows:
                last += 1
            members = by_length[first:last]
            yield Tile(starts[members], self.lengths[members])
            first = last
        for user in long:
            for skip in range(0, int(self.lengths[user]) - slots, room - slots):
                length = min(room, self.lengths[user] - skip)
                yield Tile(starts[[user]], np.array([length]), head=slots, skip=skip)


@dataclass(frozen=True, eq=False)
class Tile:
    """Rows of some users, as positions in `OrderedUsers.rows`. After `head` rows, `skip` rows are left out."""

    starts: Integers
    lengths: Integers
    head: int = 0
    skip: int = 0

    @property
    def places(self) -> Integers:
        """`[n]`: the rows of these users, user by user."""
        within = np.cumsum(self.lengths) - self.lengths
        places: Integers = np.arange(self.lengths.sum()) + np.repeat(self.starts - within, self.lengths)
        if self.skip:
            places[self.head :] += self.skip
        return places

    @property
    def filled(self) -> Tensor:
        """`[U, P]`: whether a padded place holds a row."""
        return torch.from_numpy(np.arange(self.lengths.max())[None, :] < self.lengths[:, None])

    def pad(self, values: Tensor) -> Tensor:
        """`[n, ...]` → `[U, P, ...]`, with zeros in empty places."""
        return padded(values, self.filled)
