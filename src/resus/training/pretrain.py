"""Ψ from everyone's events (equation 19): plain supervised learning on the rows of the training users."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from resus.data.log import InteractionLog
from resus.episodes.tensors import features_of, labels_of
from resus.predictors.neural import NeuralPredictor
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage

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
) -> StageState:
    """Minimise the mean cross-entropy of Ψ; keep the epoch with the best validation AUC."""

    def batches(epoch: int) -> Sequence[Rows]:
        shuffled = np.random.default_rng([seed, 4, epoch]).permutation(rows)
        return np.split(shuffled, range(batch_size, len(shuffled), batch_size))

    def loss(batch: Rows) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(predictor(features_of(log, batch)), labels_of(log, batch))

    return run_stage(
        "predictor",
        predictor,
        torch.optim.Adam(predictor.parameters(), lr=learning_rate, fused=True),
        schedule,
        batches=batches,
        loss=loss,
    )
