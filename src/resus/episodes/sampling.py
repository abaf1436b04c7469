"""Episodes for meta-training: each epoch draws a new support size for each user (algorithm 1 of the paper)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from resus.arrays import Integers
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.errors import ConfigError, TrainingError
from resus.randomness import Purpose, generator

SizeDistribution = Literal["uniform", "observed"]


@dataclass(frozen=True)
class EpisodeSampler:
    """Packs whole users into batches of about `batch_size` rows.

    Supports are the oldest rows if the log is ordered by time, otherwise random rows. Their sizes are uniform on
    1..`max_size`, or are drawn from the numbers of events of cold users (those with at most `max_size` events).
    """

    log: InteractionLog
    users: Integers
    max_size: int
    batch_size: int
    sizes: SizeDistribution
    seed: int

    def __post_init__(self) -> None:
        if not (self.log.lengths[self.users] > 1).any():
            raise TrainingError("no training user has two events or more, so there is no query")
        if self.sizes == "observed" and not self._observed_sizes().size:
            raise ConfigError(
                f"training.support_sizes is 'observed', but no user has at most {self.max_size} events: use 'uniform'"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows in one epoch."""
        lengths = self.log.lengths[self.users]
        return int(lengths[lengths > 1].sum())

    def epoch(self, number: int) -> "Epoch":
        """All batches of one epoch. The same number gives the same batches."""
        random = generator(Purpose.EPISODES, self.seed, number)
        users = random.permutation(self.users[self.log.lengths[self.users] > 1])
        lengths = self.log.lengths[users]
        drawn = np.minimum(self._draw_sizes(random, len(users)), lengths - 1)
        rows = order_rows(self.log, users, random)
        batch_of_user = (np.cumsum(lengths) - lengths) // self.batch_size
        return Epoch(rows, lengths, drawn, np.append(np.flatnonzero(np.diff(batch_of_user, prepend=-1)), len(users)))

    def _draw_sizes(self, random: np.random.Generator, count: int) -> Integers:
        if self.sizes == "uniform":
            return random.integers(1, self.max_size + 1, size=count)
        return random.choice(self._observed_sizes(), size=count)

    def _observed_sizes(self) -> Integers:
        lengths = self.log.lengths[self.users]
        return lengths[lengths <= self.max_size]


@dataclass(frozen=True, eq=False)
class Epoch:
    """The batches of an epoch, built one at a time. Users `edges[b]` to `edges[b + 1]` are batch b."""

    rows: Integers  # [N], user by user
    lengths: Integers  # [U]
    support_sizes: Integers  # [U]
    edges: Integers

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __iter__(self) -> Iterator[EpisodeBatch]:
        starts = np.append(0, np.cumsum(self.lengths))
        for first, last in pairwise(self.edges):
            yield EpisodeBatch(
                self.rows[starts[first] : starts[last]], self.lengths[first:last], self.support_sizes[first:last]
            )


def order_rows(log: InteractionLog, users: Integers, random: np.random.Generator) -> Integers:
    """The rows of the users, user by user: ordered by time, or shuffled within each user if there is no time."""
    rows = log.rows_of(users)
    if log.ordered:
        return rows
    owner = np.repeat(np.arange(len(users)), log.lengths[users])
    return rows[np.lexsort((random.random(len(rows)), owner))]
