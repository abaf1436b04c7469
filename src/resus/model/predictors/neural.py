"""A neural predictor is an encoder with one linear output; taken apart again, the encoder is a Φ."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from resus.data.log.log import InteractionLog
from resus.episodes.tensors import Features, features_of
from resus.progress import Progress, silent

SCORING_ROWS = 2048


class Predictor(Protocol):
    """Ψ: rows → logits, the same for every user."""

    def logits(self, features: Features) -> Tensor:
        """`[N]` logits, without gradients."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to score again, as tensors."""


class NeuralPredictor(nn.Module):
    """Ψ(x) = w·Φ(x) + b."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(int(encoder.width), 1)  # type: ignore[arg-type]

    def forward(self, features: Features) -> Tensor:
        """`[N]` logits."""
        return self.output(self.encoder(features)).squeeze(1)  # type: ignore[no-any-return]

    @torch.no_grad()
    def logits(self, features: Features) -> Tensor:
        return self(features)  # type: ignore[no-any-return]


def logits_of_rows(
    predictor: Predictor,
    log: InteractionLog,
    rows: npt.NDArray[np.int64] | None = None,
    *,
    progress: Progress = silent,
    task: str = "basis logits",
) -> npt.NDArray[np.float32]:
    """Ψ of some rows of a log (default: all), in tiles."""
    rows = np.arange(log.n_rows) if rows is None else rows
    logits = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), SCORING_ROWS):
        tile = rows[start : start + SCORING_ROWS]
        logits[start : start + len(tile)] = predictor.logits(features_of(log, tile)).numpy()
        progress(task, start + len(tile), len(rows), "rows")
    return logits
