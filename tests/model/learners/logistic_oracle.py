"""RESUS+ written out as a logistic regression: features, a numeric optimiser and inverses, one user at a time."""

import numpy as np

from resus.arrays import Doubles

ITEMS = 4


def design_of(rows: Doubles, prior: dict[str, float]) -> Doubles:
    """Columns whose inner products are the prior covariance: a constant, φ, and one column per item."""
    items = rows[:, :1] == np.arange(ITEMS)
    blocks = ((np.ones((len(rows), 1)), "bias"), (rows[:, 1:], "taste"), (items, "repeat"))
    return np.column_stack([np.sqrt(prior[name]) * block for block, name in blocks])


def newton(design: Doubles, labels: Doubles, basis: Doubles) -> tuple[Doubles, Doubles]:
    """The mode of a logistic regression under a unit prior, and its Hessian there."""
    weights = np.zeros(design.shape[1])

    def loss(point: Doubles) -> float:
        logits = basis + design @ point
        return float(np.logaddexp(0, logits).sum() - labels @ logits + point @ point / 2)

    for _ in range(60):
        chance = 1 / (1 + np.exp(-(basis + design @ weights)))
        hessian = design.T @ (design * (chance * (1 - chance))[:, None]) + np.eye(len(weights))
        step = np.linalg.solve(hessian, design.T @ (labels - chance) - weights)
        while loss(weights + step) > loss(weights) + 1e-12:
            step = step / 2
        weights = weights + step
        if np.abs(step).max() < 1e-10:
            break
    return weights, hessian
