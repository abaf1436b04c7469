"""A baseline: the user's click rate so far, whatever the candidate is."""

from collections.abc import Sequence

import numpy as np

from resus.arrays import Floats, Integers
from resus.baselines.base import MethodSpec, Task
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import History


class ClickRate:
    def fit(self, task: Task) -> History:
        self.rate = float(task.log.labels[task.log.rows_of(task.split.train)].mean())
        return []

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        clicks = (log.labels[batch.rows[batch.support.numpy()]] * batch.mask.numpy()).sum(axis=1)
        logits = self._logits(clicks, batch.support_sizes)
        return logits.take(batch.query_user.numpy())

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        starts = np.repeat(np.cumsum(ordered.lengths) - ordered.lengths, ordered.lengths)
        clicks = np.concatenate([[0], np.cumsum(log.labels[ordered.rows])])
        ends = np.minimum(starts[:, None] + np.array(sizes), len(clicks) - 1)
        return self._logits(clicks[ends] - clicks[starts][:, None], np.array(sizes))

    def _logits(self, clicks: Floats, events: Integers) -> Floats:
        """Ten more events with the click rate of all users keep a first click from counting too much."""
        rates = (clicks + 10 * self.rate) / (events + 10)
        logits: Floats = np.log(rates / (1 - rates)).astype(np.float32)
        return logits


CLICK_RATE = MethodSpec("click rate", ClickRate)
