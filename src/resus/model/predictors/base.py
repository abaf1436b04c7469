"""What every shared predictor Ψ can do, one logit for a row, the same for every user; and the two simplest."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from resus.arrays import Floats, Integers
from resus.data.log.log import InteractionLog
from resus.episodes.batch import Features, features_of
from resus.model.encoders.base import Encoder
from resus.model.growing import Growth
from resus.progress import Progress, silent

SCORING_ROWS = 2048


class Predictor(ABC):
    """Ψ. Its weights are its own: training the rest of a model leaves them alone."""

    @abstractmethod
    def logits(self, features: Features) -> Tensor:
        """N rows → `[N]`, without gradients."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to score again, as tensors."""

    @abstractmethod
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Take what `state_dict` gave."""

    @property
    def network(self) -> nn.Module | None:
        """Rows → logits with gradients, to train and to export as ONNX; None if there is no such network."""
        return None

    def fit(self, log: InteractionLog, train: Integers, validation: Integers, *, seed: int, threads: int) -> float:
        """Learn from rows of a log, and return the AUC on the validation rows; only if it is trained and no network."""
        raise NotImplementedError(f"{type(self).__name__} is not trained on rows")

    @property
    def lead(self) -> "Predictor":
        """The one that learned from all training users, if it is made of several."""
        return self

    def start_from(self, other: "Predictor", growth: Growth) -> str | None:
        """Take the weights of a trained predictor of the same kind as a start; say why if that is impossible."""
        self.load_state_dict(growth.state(other.state_dict(), self.state_dict(), "predictor"))
        return None

    def files(self) -> dict[str, bytes]:
        """Files, by name, from which programs in other languages can read a predictor that is not a network."""
        return {}

    def check(self, features: Features) -> None:  # noqa: B027  # most predictors score every row
        """Raise RowError for the first row that has no logit."""

    def logits_of_rows(
        self,
        log: InteractionLog,
        rows: Integers | None = None,
        *,
        progress: Progress = silent,
        task: str = "basis logits",
    ) -> Floats:
        """Of some rows of a log (default: all), a tile at a time."""
        rows = np.arange(log.n_rows) if rows is None else rows
        logits = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), SCORING_ROWS):
            tile = rows[start : start + SCORING_ROWS]
            logits[start : start + len(tile)] = self.logits(features_of(log, tile)).numpy()
            progress(task, start + len(tile), len(rows), "rows")
        return logits


class NoPredictor(Predictor):
    """Ψ(x) = 0."""

    def logits(self, features: Features) -> Tensor:
        return torch.zeros(features.rows)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        assert not state_dict


class NeuralPredictor(nn.Module, Predictor):
    """Ψ(x) = w·Φ(x) + b."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(encoder.width, 1)

    @property
    def network(self) -> nn.Module:
        return self

    def forward(self, features: Features) -> Tensor:
        """`[N]` logits."""
        logits: Tensor = self.output(self.encoder(features)).squeeze(1)
        return logits

    @torch.no_grad()
    def logits(self, features: Features) -> Tensor:
        logits: Tensor = self(features)
        return logits
