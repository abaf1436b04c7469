"""Episodes for meta-training: a support size for each user, anew in each epoch (algorithm 1 of the paper)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.tensors import Rows
from resus.errors import ConfigError, TrainingError
from resus.randomness import Purpose, generator

SizeDistribution = Literal["uniform", "observed"]


@dataclass(frozen=True)
class EpisodeSampler:
    """Packs whole users into batches of about `batch_size` rows.

    Supports are the oldest rows where the log is ordered in time, else random ones; sizes are uniform on 1..`max_size`,
    or follow the observed number of events of cold users (those with at most `max_size`).
    """

    log: InteractionLog
    users: npt.NDArray[np.int64]
    max_size: int
    batch_size: int
    sizes: SizeDistribution
    seed: int

    def __post_init__(self) -> None:
        if not (self.log.lengths[self.users] > 1).any():
            raise TrainingError("no user to learn from has two events or more, so there is no query")
        if self.sizes == "observed" and not self._observed_sizes().size:
            raise ConfigError(
                f"training.support_sizes is 'observed', but no user has at most {self.max_size} events: use 'uniform'"
            )

    @property
    def n_rows(self) -> int:
        """Of one epoch."""
        lengths = self.log.lengths[self.users]
        return int(lengths[lengths > 1].sum())

    def epoch(self, number: int) -> "Epoch":
        """All batches of one epoch; the same number gives the same batches."""
        random = generator(Purpose.EPISODES, self.seed, number)
        users = random.permutation(self.users[self.log.lengths[self.users] > 1])
        lengths = self.log.lengths[users]
        drawn = np.minimum(self._draw_sizes(random, len(users)), lengths - 1)
        rows = order_rows(self.log, users, random)
        batch_of_user = (np.cumsum(lengths) - lengths) // self.batch_size
        return Epoch(rows, lengths, drawn, np.append(np.flatnonzero(np.diff(batch_of_user, prepend=-1)), len(users)))

    def _draw_sizes(self, random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        if self.sizes == "uniform":
            return random.integers(1, self.max_size + 1, size=count)
        return random.choice(self._observed_sizes(), size=count)

    def _observed_sizes(self) -> npt.NDArray[np.int64]:
        lengths = self.log.lengths[self.users]
        return lengths[lengths <= self.max_size]


@dataclass(frozen=True, eq=False)
class Epoch:
    """The batches of an epoch, each made when asked for: users `edges[b]` to `edges[b + 1]` are batch b."""

    rows: Rows  # [N], user by user
    lengths: npt.NDArray[np.int64]  # [U]
    support_sizes: npt.NDArray[np.int64]  # [U]
    edges: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __iter__(self) -> Iterator[EpisodeBatch]:
        starts = np.append(0, np.cumsum(self.lengths))
        for first, last in pairwise(self.edges):
            yield EpisodeBatch(
                self.rows[starts[first] : starts[last]], self.lengths[first:last], self.support_sizes[first:last]
            )


def order_rows(log: InteractionLog, users: npt.NDArray[np.int64], random: np.random.Generator) -> Rows:
    """The users' rows, user by user: in time where there is time, else shuffled within each user."""
    rows = log.rows_of(users)
    if log.ordered:
        return rows
    owner = np.repeat(np.arange(len(users)), log.lengths[users])
    return rows[np.lexsort((random.random(len(rows)), owner))]
