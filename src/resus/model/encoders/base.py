"""What every encoder Φ can do: from rows to the vectors that a learner works on."""

from torch import Tensor, nn

from resus.episodes.tensors import Features


class Encoder(nn.Module):
    """A module with `width`, the K of its output. With a linear output on top it is also a predictor Ψ."""

    width: int

    def forward(self, features: Features) -> Tensor:
        """N rows → `[N, K]`."""
        raise NotImplementedError
