"""Ψ from everyone's events (equation 19): plain supervised learning on the rows of the training users."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from resus.data.log.log import InteractionLog
from resus.episodes.tensors import features_of, labels_of
from resus.model.predictors.neural import NeuralPredictor
from resus.randomness import Purpose, generator
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.shares import no_loss, own_rows

Rows = npt.NDArray[np.int64]


def pretrain(
    predictor: NeuralPredictor,
    log: InteractionLog,
    rows: Rows,
    schedule: Schedule,
    *,
    learning_rate: float,
    batch_size: int,
    seed: int,
    name: str = "predictor",
) -> StageState:
    """Minimise the mean cross-entropy of Ψ; keep the epoch with the best validation AUC."""

    def batches(epoch: int) -> Sequence[Rows]:
        shuffled = generator(Purpose.PREDICTOR_BATCHES, seed, epoch).permutation(rows)
        return np.split(shuffled, range(batch_size, len(shuffled), batch_size))

    def loss(batch: Rows) -> torch.Tensor:
        own = own_rows(schedule.crew, log, batch)
        if not len(own):
            return no_loss()
        logits, labels = predictor(features_of(log, own)), labels_of(log, own)
        mean = functional.binary_cross_entropy_with_logits(logits, labels)
        return mean if len(own) == len(batch) else mean * (len(own) / len(batch))

    return run_stage(
        name,
        predictor,
        adam_of(predictor, [{"params": list(predictor.parameters()), "lr": learning_rate}], table_rate=learning_rate),
        schedule,
        batches=batches,
        loss=loss,
        rows=len(rows),
    )
