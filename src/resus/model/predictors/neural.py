"""A neural predictor: an encoder with one linear output."""

import torch
from torch import Tensor, nn

from resus.episodes.batch import Features
from resus.model.encoders.base import Encoder
from resus.model.predictors.base import Predictor


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
