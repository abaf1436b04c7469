"""Ψ alone: the same answer for every user, whatever the user did. What all personal methods must beat."""

from collections.abc import Sequence

import numpy as np

from resus.baselines.method import Floats, Task
from resus.baselines.shared_predictor import shared_predictor
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import History
from resus.model.predictors.base import Predictor


class Crowd:
    """Ψ of one of the six architectures of table 5."""

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
