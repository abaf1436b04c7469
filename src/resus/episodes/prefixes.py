"""Users in padded tiles of similar length, so that every support size is scored in one dense pass."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from resus.data.log.log import InteractionLog
from resus.episodes.sampling import order_rows
from resus.episodes.tensors import Rows
from resus.randomness import Purpose, generator

TILE_ROWS = 2048  # of wide encodings; more of them would leave the cache
WIDE = 400


@dataclass(frozen=True, eq=False)
class OrderedUsers:
    """Users with their rows in the order in which events become known."""

    users: npt.NDArray[np.int64]  # [U]
    lengths: npt.NDArray[np.int64]  # [U]
    rows: Rows  # [N], user by user

    @classmethod
    def of(cls, log: InteractionLog, users: npt.NDArray[np.int64], seed: int) -> "OrderedUsers":
        rows = order_rows(log, users, generator(Purpose.SUPPORT_ORDER, seed))
        return cls(users, log.lengths[users], rows)

    def part(self, chosen: npt.NDArray[np.bool_]) -> "OrderedUsers":
        """Only some of the users."""
        rows = self.rows[np.repeat(chosen, self.lengths)]
        return OrderedUsers(self.users[chosen], self.lengths[chosen], rows)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """Of each row, how many events its user had before it: the largest support it can be a query of."""
        starts = np.cumsum(self.lengths) - self.lengths
        return np.arange(len(self.rows)) - np.repeat(starts, self.lengths)

    def tiles(self, slots: int, width: int = WIDE, *, whole: bool = False) -> Iterator["Tile"]:
        """Users from short to long; a tile holds about `TILE_ROWS` padded rows, and more of a `width` that is narrow.

        A user who does not fit into one comes in several, each with the first `slots` rows and some of the others;
        where users are to stay `whole`, in one of its own.
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
    """Some users' rows, as places in `OrderedUsers.rows`; after `head` of them, `skip` are left out."""

    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    head: int = 0
    skip: int = 0

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """`[n]`: the rows of these users, user by user."""
        within = np.cumsum(self.lengths) - self.lengths
        places: npt.NDArray[np.int64] = np.arange(self.lengths.sum()) + np.repeat(self.starts - within, self.lengths)
        if self.skip:
            places[self.head :] += self.skip
        return places

    @property
    def filled(self) -> Tensor:
        """`[U, P]`: which padded places hold a row."""
        return torch.from_numpy(np.arange(self.lengths.max())[None, :] < self.lengths[:, None])

    def pad(self, values: Tensor) -> Tensor:
        """`[n, ...]` → `[U, P, ...]`, zeros where there is no row."""
        filled = self.filled
        padded = values.new_zeros(*filled.shape, *values.shape[1:])
        padded[filled] = values
        return padded
