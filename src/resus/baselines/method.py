"""What every cold-start method of a comparison can do: learn from the training users, then answer for strangers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.evaluation.metrics import auc
from resus.history import History
from resus.model.predictors.base import Predictor
from resus.progress import Progress, silent
from resus.training.checkpoint import Checkpoint

Floats = npt.NDArray[np.float32]


class Method(Protocol):
    """A way to serve new users. Scores are logits; a support of size 0 is a normal case."""

    def fit(self, task: "Task") -> History:
        """Learn from the task's training users, choose epochs on its validation users; return a line per epoch."""

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        """`[Q]` logits of a batch's queries, each from its own user's support; query labels are never read."""

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        """`[N, len(sizes)]` logits; column j of a row rests on its user's first sizes[j] events.

        It is to be read only for rows after those.
        """


@dataclass(frozen=True, eq=False)
class Task:
    """What a method may learn from, and how long. The folder keeps checkpoints, the shelf the Ψs that methods share.

    `predictor` is a Ψ trained with these settings already. `every` takes only each so-manieth training user, for a
    quick look at a hyperparameter.
    """

    log: InteractionLog
    config: Config
    folder: Path | None = None
    shelf: Path | None = None
    predictor: Predictor | None = None
    progress: Progress = silent
    every: int = 1

    @cached_property
    def split(self) -> UserSplit:
        split = self.config.user_split(self.log.n_users)
        return replace(split, train=split.train[:: self.every])

    @cached_property
    def validation(self) -> OrderedUsers:
        return OrderedUsers.of(self.log, self.split.validation, self.config.seed)

    @cached_property
    def sampler(self) -> EpisodeSampler:
        """Episodes of the training users."""
        training = self.config.training
        return EpisodeSampler(
            self.log,
            self.split.train,
            max_size=self.config.max_support,
            batch_size=training.batch_size,
            sizes=training.support_sizes,
            seed=self.config.seed,
        )

    def validation_auc(self, score_prefixes: Callable[[OrderedUsers, Sequence[int]], Floats]) -> float:
        """The mean AUC at the middle size of each stage: methods that adapt anew for each size afford no more."""
        sizes = [stage[len(stage) // 2] for stage in self.config.evaluation.stages.values()]
        logits = score_prefixes(self.validation, sizes)
        labels, positions = self.log.labels[self.validation.rows], self.validation.positions
        aucs = []
        for column, size in enumerate(sizes):
            queries = positions >= size
            if not np.isfinite(logits[queries, column]).all():
                return float("nan")
            aucs.append(auc(labels[queries], logits[queries, column]))
        return float(np.nanmean(aucs))

    def checkpoint(self, stage: str) -> Checkpoint | None:
        """Where a stage saves its state."""
        if self.folder is None:
            return None
        return Checkpoint(self.folder / f"{stage}.safetensors", self.config.fingerprint(self.log.content_hash))
