"""No shared predictor: the crowd says nothing, and RESUS becomes the paper's MUS."""

import torch
from torch import Tensor

from resus.episodes.tensors import Features


class NoPredictor:
    """Ψ(x) = 0."""

    def logits(self, features: Features) -> Tensor:
        return torch.zeros(features.rows)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        assert not state
