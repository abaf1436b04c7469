"""What the paper's learners take from an event: how far its label is from Ψ's probability."""

from torch import Tensor


def residuals_of(labels: Tensor, basis: Tensor) -> Tensor:
    """Δy = y − σ(Ψ(x))."""
    return labels - basis.sigmoid()
