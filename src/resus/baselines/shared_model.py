"""The shared model alone: the same answer for every user. A personal method must beat it."""

from collections.abc import Sequence

import numpy as np

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.baselines.shelf import shared_predictor
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import History
from resus.model.predictors.base import Predictor


class SharedModel:
    """Ψ of one kind."""

    def __init__(self, *, predictor: str = "deepfm") -> None:
        self.kind = predictor
        self.predictor: Predictor

    def fit(self, task: Task) -> History:
        self.predictor, history = shared_predictor(task, self.kind)
        return history

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        return self.predictor.logits_of_rows(log, batch.rows[batch.query.numpy()])

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        logits = self.predictor.logits_of_rows(log, ordered.rows)
        return np.broadcast_to(logits[:, None], (len(logits), len(sizes)))
