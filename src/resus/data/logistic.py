"""The logistic function, and its mean over a Gaussian."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def sigmoid(logits: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-logits))


def mean_sigmoid(mean: Floats, variance: Floats) -> Floats:
    """E[σ(z)] for z ~ N(mean, variance), by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    total = np.zeros_like(mean)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        total += weight * sigmoid(mean + node * np.sqrt(variance))
    return total
