"""No shared predictor: all logits are 0, and RESUS becomes the paper's MUS."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from resus.episodes.tensors import Features
from resus.model.predictors.base import Predictor


class NoPredictor(Predictor):
    """Ψ(x) = 0."""

    def logits(self, features: Features) -> Tensor:
        return torch.zeros(features.rows)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        assert not state_dict
