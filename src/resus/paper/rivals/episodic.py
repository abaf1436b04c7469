"""What episode-trained methods share: the training stage, and scoring one support size after the other."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.baselines.method import Floats, Task
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.tensors import features_of, labels_of
from resus.history import History
from resus.training.loop import Schedule, run_stage

SCORING_ROWS = 4096


def learn_from_episodes(
    task: Task,
    module: nn.Module,
    *,
    loss: Callable[[EpisodeBatch], Tensor],
    score_prefixes: Callable[[OrderedUsers, Sequence[int]], Floats],
    learning_rate: float,
    start: float = float("-inf"),
    stage: str = "episodes",
) -> History:
    """Adam over the training users' episodes; the epoch with the best validation AUC is kept.

    Where `start`, the AUC before the first epoch, is given and never beaten, the module stays as it was.
    """
    training = task.config.training
    state = run_stage(
        module,
        torch.optim.Adam(module.parameters(), lr=learning_rate, fused=True),
        Schedule(
            stage,
            validate=lambda: task.validation_auc(score_prefixes),
            epochs=training.epochs,
            patience=training.patience,
            start=start,
            checkpoint=task.checkpoint(stage),
            progress=task.progress,
        ),
        batches=task.sampler.epoch,
        loss=loss,
    )
    return state.history


class Adapting:
    """A network that maps a batch, its features and labels to its queries' logits, anew for each support."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def fit(self, task: Task) -> History:
        def loss(batch: EpisodeBatch) -> Tensor:
            labels = labels_of(task.log, batch.rows[batch.query.numpy()])
            return functional.binary_cross_entropy_with_logits(self._logits(task.log, batch), labels)

        return learn_from_episodes(
            task,
            self.network,
            loss=loss,
            score_prefixes=partial(self.score_prefixes, task.log),
            learning_rate=task.config.training.learning_rate,
        )

    @torch.no_grad()
    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        logits: Floats = self._logits(log, batch).numpy()
        return logits

    @torch.no_grad()
    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        return score_size_by_size(partial(self._logits, log), ordered, sizes)

    def _logits(self, log: InteractionLog, batch: EpisodeBatch) -> Tensor:
        logits: Tensor = self.network(batch, features_of(log, batch.rows), labels_of(log, batch.rows))
        return logits


def score_size_by_size(score: Callable[[EpisodeBatch], Tensor], ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
    """`score_prefixes` for a method that must adapt anew at each size; not a number where a row is support."""
    logits = np.full((len(ordered.rows), len(sizes)), np.nan, dtype=np.float32)
    for column, size in enumerate(sizes):
        for places, batch in _batches(ordered, size):
            logits[places, column] = score(batch).numpy()
    return logits


def _batches(ordered: OrderedUsers, size: int) -> Iterator[tuple[npt.NDArray[np.int64], EpisodeBatch]]:
    """Users with a query left, from short to long, about `SCORING_ROWS` rows at a time, and where the queries stand."""
    starts = np.cumsum(ordered.lengths) - ordered.lengths
    chosen = np.flatnonzero(ordered.lengths > size)
    chosen = chosen[np.argsort(ordered.lengths[chosen], kind="stable")]
    lengths = ordered.lengths[chosen]
    part_of_user = (np.cumsum(lengths) - lengths) // SCORING_ROWS
    for members in np.split(chosen, np.flatnonzero(np.diff(part_of_user)) + 1):
        if not len(members):
            continue
        own = ordered.lengths[members]
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        places = within + np.repeat(starts[members], own)
        yield places[within >= size], EpisodeBatch(ordered.rows[places], own, np.full(len(members), size))
