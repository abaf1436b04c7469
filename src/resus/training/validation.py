"""The AUC of the validation users: it chooses the epoch that a stage keeps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from resus.arrays import Floats, Integers
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.errors import DataError
from resus.evaluation.metrics import auc, logloss
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor
from resus.progress import Progress
from resus.training.workers import Workers


@dataclass(frozen=True, eq=False)
class Validation:
    """Scores models on the validation users of a run; each worker scores its own users."""

    log: InteractionLog
    users: OrderedUsers
    workers: Workers
    progress: Progress

    def auc_of_predictor(self, predictor: Predictor) -> float:
        """The AUC over all rows."""
        labels, logits = self._labels_and_logits(predictor)
        return auc(labels, logits) if np.isfinite(logits).all() else float("nan")

    def logloss_of_predictor(self, predictor: Predictor) -> float:
        """The Logloss over all rows."""
        return logloss(*self._labels_and_logits(predictor))

    def auc_of_model(self, model: Personalizer, basis: Floats | None, sizes: Sequence[int]) -> float:
        """The mean AUC over the support sizes; `basis` is the predictor's logits of every row, if they are known."""
        return self._mean_over_sizes(auc, model, basis, sizes)

    def logloss_of_model(self, model: Personalizer, basis: Floats | None, sizes: Sequence[int]) -> float:
        """The mean Logloss over the support sizes, likewise."""
        return self._mean_over_sizes(logloss, model, basis, sizes)

    def _mean_over_sizes(
        self, metric: Callable[[Floats, Floats], float], model: Personalizer, basis: Floats | None, sizes: Sequence[int]
    ) -> float:
        own = self.workers.owns(self.users.users)
        users = self.users.part(own)
        known = None if basis is None else basis[users.rows]
        logits = model.score_prefixes(self.log, users, sizes, basis=known, progress=self.progress, task="validation")
        if self.workers.size > 1:  # even if this worker owns all users: the others wait for it here
            everyone = np.zeros((len(self.users.rows), len(sizes)), dtype=np.float32)
            everyone[np.repeat(own, self.users.lengths)] = logits
            logits = self.workers.combine(everyone)
        if not np.isfinite(logits).all():
            return float("nan")
        return float(
            np.nanmean([metric(self._labels_after(k), logits[self._after(k), j]) for j, k in enumerate(sizes)])
        )

    def middle_sizes(self, stages: Iterable[Sequence[int]]) -> list[int]:
        """The middle of each stage's support sizes, of those at which the queries have both labels."""
        found = []
        for sizes in stages:
            usable = [size for size in sizes if self._both_labels_after(size)]
            found += usable[len(usable) // 2 : len(usable) // 2 + 1]
        return found

    def check(self, smallest: int) -> None:
        """Refuse users on whom no AUC can be computed; the smallest support size leaves the most queries."""
        if not self._both_labels_after(smallest):
            raise DataError(
                f"the {len(self.users.users)} validation users do not have both labels after their first "
                f"{smallest} rows: add users or events, or change 'split.ratios'"
            )

    def _labels_and_logits(self, predictor: Predictor) -> tuple[Floats, Floats]:
        rows = self.log.rows_of(self.users.users)
        own = self.workers.owns(self.log.owners_of(rows))
        logits = np.zeros(len(rows), dtype=np.float32)
        logits[own] = predictor.logits_of_rows(self.log, rows[own])
        return self.log.labels[rows], self.workers.combine(logits)

    def _after(self, size: int) -> Integers:
        return np.flatnonzero(self.users.positions >= size)

    def _labels_after(self, size: int) -> Floats:
        return self.log.labels[self.users.rows[self._after(size)]]

    def _both_labels_after(self, size: int) -> bool:
        return len(np.unique(self._labels_after(size))) == 2
