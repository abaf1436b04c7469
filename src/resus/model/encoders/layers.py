"""The parts that the architectures share."""

from collections.abc import Sequence

from torch import Tensor, nn


def perceptron(inputs: int, hidden_units: Sequence[int]) -> nn.Sequential:
    """Linear and ReLU layers, one pair per hidden width."""
    layers: list[nn.Module] = []
    for width in hidden_units:
        layers += [nn.Linear(inputs, width), nn.ReLU(inplace=True)]
        inputs = width
    return nn.Sequential(*layers)


def pairwise_interactions(vectors: Tensor) -> Tensor:
    """Σ_{i<j} e_i ∘ e_j of `[N, F, E]` vectors, as half the square of the sum minus the sum of squares (equation 2)."""
    total = vectors.sum(dim=1)
    return 0.5 * (total * total - (vectors * vectors).sum(dim=1))
