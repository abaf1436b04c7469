"""Episodes for meta-training: a support size for each user, anew in each epoch (algorithm 1 of the paper)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from resus.data.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.tensors import Rows
from resus.errors import ConfigError, TrainingError

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
        enough = self.log.lengths[self.users] > 1
        if not enough.any():
            raise TrainingError("no training user has two events or more, so there is no query to learn from")
        object.__setattr__(self, "users", self.users[enough])
        if self.sizes == "observed" and not self._observed_sizes().size:
            raise ConfigError(
                f"training.support_sizes is 'observed', but no user has at most {self.max_size} events: use 'uniform'"
            )

    def epoch(self, number: int) -> list[EpisodeBatch]:
        """All batches of one epoch; the same number gives the same batches."""
        return list(self._batches(np.random.default_rng([self.seed, 2, number])))

    def _batches(self, random: np.random.Generator) -> Iterator[EpisodeBatch]:
        users = random.permutation(self.users)
        lengths = self.log.lengths[users]
        drawn = np.minimum(self._draw_sizes(random, len(users)), lengths - 1)
        rows = order_rows(self.log, users, random)
        ends = np.cumsum(lengths)
        batch_of_user = (ends - lengths) // self.batch_size
        for members in np.split(np.arange(len(users)), np.flatnonzero(np.diff(batch_of_user)) + 1):
            start, stop = ends[members[0]] - lengths[members[0]], ends[members[-1]]
            yield EpisodeBatch(rows[start:stop], lengths[members], drawn[members])

    def _draw_sizes(self, random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        if self.sizes == "uniform":
            return random.integers(1, self.max_size + 1, size=count)
        return random.choice(self._observed_sizes(), size=count)

    def _observed_sizes(self) -> npt.NDArray[np.int64]:
        lengths = self.log.lengths
        return lengths[lengths <= self.max_size]


def order_rows(log: InteractionLog, users: npt.NDArray[np.int64], random: np.random.Generator) -> Rows:
    """The users' rows, user by user: in time where there is time, else shuffled within each user."""
    rows = log.rows_of(users)
    if log.ordered:
        return rows
    owner = np.repeat(np.arange(len(users)), log.lengths[users])
    return rows[np.lexsort((random.random(len(rows)), owner))]
