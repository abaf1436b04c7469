"""Ψ from everyone's events (equation 19): plain supervised learning on the rows of the training users."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from resus.data.log import InteractionLog
from resus.episodes.tensors import features_of, labels_of
from resus.predictors.neural import NeuralPredictor
from resus.progress import Progress, silent
from resus.training.checkpoint import StageState
from resus.training.loop import Keeper, Report, run_stage

Rows = npt.NDArray[np.int64]


def pretrain(
    predictor: NeuralPredictor,
    log: InteractionLog,
    rows: Rows,
    *,
    validate: Callable[[], float],
    learning_rate: float,
    batch_size: int,
    epochs: int,
    patience: int,
    seed: int,
    keeper: Keeper | None = None,
    progress: Progress = silent,
    report: Report | None = None,
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
        batches=batches,
        loss=loss,
        validate=validate,
        epochs=epochs,
        patience=patience,
        keeper=keeper,
        progress=progress,
        report=report,
    )
