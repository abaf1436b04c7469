"""Gradient boosting on the supports (section 5.4 of the RESUS paper): one more predictor, shared by all users."""

import copy
from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from torch.nn import functional

from resus.arrays import Floats, Integers
from resus.baselines.base import Task
from resus.baselines.shelf import shared_predictor
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ConfigError
from resus.history import EpochRecord, History
from resus.model.predictors import PREDICTORS, NeuralPredictorSettings
from resus.model.predictors.base import NeuralPredictor, Predictor
from resus.randomness import Purpose, generator


class BoostedSupports:
    """ŷ = σ(Ψ(x) + Ψ₂(x)), where Ψ₂ has Ψ's kind and fits Ψ's errors on the supports of all evaluated users.

    Ψ₂ is trained for each support size, on the users with a query left. So a user's answer depends on the supports
    of other users by design, but not on the order of users or events. `fit` trains Ψ, and chooses Ψ₂'s epochs and
    learning rate on the validation users.
    """

    def __init__(
        self,
        *,
        predictor: str = "deepfm",
        epochs: Sequence[int] = (1, 3),
        learning_rates: Sequence[float] = (1e-3, 1e-2),
    ) -> None:
        if not PREDICTORS.is_architecture(predictor):
            networks = ", ".join(filter(PREDICTORS.is_architecture, PREDICTORS))
            raise ConfigError(f"predictor '{predictor}' cannot be boosted: choose one of {networks}")
        self.kind = predictor
        self.grid = list(product(epochs, learning_rates))
        self.predictor: Predictor
        self.start: NeuralPredictor
        self.batch_size: int
        self.seed: int
        self.epochs: int
        self.learning_rate: float

    def fit(self, task: Task) -> History:
        self.predictor, history = shared_predictor(task, self.kind)
        settings = NeuralPredictorSettings.of(task.config.changed({"predictor.kind": self.kind}).predictor)
        self.batch_size, self.seed = settings.batch_size, task.config.seed
        torch.manual_seed(self.seed)
        self.start = NeuralPredictor(settings.build_encoder(task.log.features))
        basis = self.predictor.logits_of_rows(task.log, task.validation.rows)
        tried: History = []
        for epochs, rate in self.grid:
            self.epochs, self.learning_rate = epochs, rate
            reached = task.validation_auc(lambda ordered, sizes: self._prefixes(task.log, ordered, sizes, basis))
            tried.append(EpochRecord("boosting", epochs, reached))
        best = int(np.argmax(np.nan_to_num([record.validation_auc for record in tried])))
        self.epochs, self.learning_rate = self.grid[best]
        return [*history, *tried]

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        known = batch.mask.numpy() & (batch.support_sizes < batch.lengths)[:, None]
        asked = batch.rows[batch.query.numpy()]
        return self.predictor.logits_of_rows(log, asked) + self._added(
            log, batch.rows[batch.support.numpy()[known]], asked
        )

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        return self._prefixes(log, ordered, sizes, self.predictor.logits_of_rows(log, ordered.rows))

    def _prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int], basis: Floats) -> Floats:
        """NaN where a row is support."""
        positions, lengths = ordered.positions, np.repeat(ordered.lengths, ordered.lengths)
        logits = np.full((len(ordered.rows), len(sizes)), np.nan, dtype=np.float32)
        for column, size in enumerate(sizes):
            asked, known = positions >= size, (positions < size) & (lengths > size)
            logits[asked, column] = basis[asked] + self._added(log, ordered.rows[known], ordered.rows[asked])
        return logits

    def _added(self, log: InteractionLog, support: Integers, asked: Integers) -> Floats:
        """Ψ₂'s logits of the asked rows, trained on the support rows; 0 without support."""
        if not len(support):
            return np.zeros(len(asked), dtype=np.float32)
        return self._learn_second(log, support).logits_of_rows(log, asked)

    def _learn_second(self, log: InteractionLog, rows: Integers) -> NeuralPredictor:
        """Minimise the cross-entropy of σ(Ψ + Ψ₂) with Ψ frozen, always from the same start."""
        rows = rows[_order_by_content(log, rows)]
        features, labels = features_of(log, rows), labels_of(log, rows)
        basis = torch.from_numpy(self.predictor.logits_of_rows(log, rows))
        second = copy.deepcopy(self.start)
        optimizer = torch.optim.Adam(second.parameters(), lr=self.learning_rate, fused=True)
        random = generator(Purpose.BOOSTED_SUPPORTS, self.seed)
        for _ in range(self.epochs):
            shuffled = random.permutation(len(rows))
            for part in np.split(shuffled, range(self.batch_size, len(rows), self.batch_size)):
                chosen = torch.from_numpy(part)
                optimizer.zero_grad(set_to_none=True)
                loss = functional.binary_cross_entropy_with_logits(
                    basis[chosen] + second(features.take(part)), labels[chosen]
                )
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return second


def _order_by_content(log: InteractionLog, rows: Integers) -> Integers:
    """The same events give the same batches, whatever order they come in. Equal rows are interchangeable."""
    keys = (log.labels[rows], *log.ids[rows].T)
    if log.weights is not None:
        keys += (*log.weights[rows].T,)
    return np.lexsort(keys)
