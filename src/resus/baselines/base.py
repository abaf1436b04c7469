"""What a cold-start method is: it learns from training users, then scores new users from their first events."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from resus.arrays import Floats
from resus.checking import nearest_key
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.errors import ConfigError
from resus.evaluation.metrics import auc, logloss
from resus.extras import need
from resus.history import History
from resus.model.predictors.base import Predictor
from resus.progress import Progress, silent
from resus.training.checkpoint import Checkpoint

PrefixScores = Callable[[OrderedUsers, Sequence[int]], Floats]


class Method(Protocol):
    """A way to serve new users. Scores are logits. A user with no events is a normal case."""

    def fit(self, task: "Task") -> History:
        """Learn from the task's training users, choose epochs on its validation users; return one record per epoch."""

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        """`[Q]` logits of a batch's queries, each from the support of its own user. Must not read query labels."""

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        """`[N, len(sizes)]` logits. Column j of a row uses the first sizes[j] events of the row's user.

        Callers read column j only for rows after those events.
        """


@dataclass(frozen=True)
class MethodSpec:
    """One line of a registry of methods.

    `label` is the name in tables. `predictor` is the kind of Ψ that the method builds on, if any. `grid` holds the
    hyperparameters to search, each with the values to try. `tuned_on_validation` says that the method learns scales
    from validation users. `extra` is the extra of resus that it needs.
    """

    label: str
    build: Callable[..., Method]
    predictor: str | None = None
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tuned_on_validation: bool = False
    extra: str = ""


@dataclass(frozen=True, eq=False)
class Task:
    """The data and settings that a method learns from.

    `folder` keeps checkpoints. `shelf` keeps the predictors that several methods share. `predictor` is a Ψ that is
    already trained with these settings. `every` keeps only every n-th training user, for a quick search.
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

    def validation_auc(self, score_prefixes: PrefixScores) -> float:
        """The mean AUC at the middle size of each stage. More sizes are too slow for methods that adapt to each."""
        return self._mean_over_sizes(auc, score_prefixes)

    def validation_logloss(self, score_prefixes: PrefixScores) -> float:
        """The mean Logloss at the same sizes."""
        return self._mean_over_sizes(logloss, score_prefixes)

    def _mean_over_sizes(self, metric: Callable[[Floats, Floats], float], score_prefixes: PrefixScores) -> float:
        """NaN if a score is not finite."""
        sizes = [stage[len(stage) // 2] for stage in self.config.evaluation.stages.values()]
        logits = score_prefixes(self.validation, sizes)
        labels, positions = self.log.labels[self.validation.rows], self.validation.positions
        found = []
        for column, size in enumerate(sizes):
            queries = positions >= size
            if not np.isfinite(logits[queries, column]).all():
                return float("nan")
            found.append(metric(labels[queries], logits[queries, column]))
        return float(np.nanmean(found))

    def checkpoint(self, stage: str) -> Checkpoint | None:
        """Where a stage saves its state."""
        if self.folder is None:
            return None
        return Checkpoint(self.folder / f"{stage}.safetensors", self.config.fingerprint(self.log.content_hash))


@dataclass(frozen=True)
class LazyMethod:
    """A method that learns when it is asked for scores; `PrefixScores` for a warm-up curve."""

    spec: MethodSpec
    task: Task

    @property
    def tuned_on_validation(self) -> bool:
        return self.spec.tuned_on_validation

    def __call__(self, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        method = self.spec.build()
        method.fit(self.task)
        self.task.progress(f"{self.spec.label}: every support size", 0, None)
        return method.score_prefixes(self.task.log, ordered, sizes)


def find_methods(names: Iterable[str], methods: Mapping[str, MethodSpec]) -> dict[str, MethodSpec]:
    """The named methods, in the order of the names."""
    found: dict[str, MethodSpec] = {}
    for name in names:
        if name not in methods:
            nearest = nearest_key(name, list(methods))
            hint = f"did you mean '{nearest}'?" if nearest else f"choose from {', '.join(methods)}"
            raise ConfigError(f"no method '{name}': {hint}")
        if name in found:
            raise ConfigError(f"method '{name}' is named twice: name each method once")
        found[name] = methods[name]
        if extra := found[name].extra:
            need(extra, f"the method '{name}'")
    return found
