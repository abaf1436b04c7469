"""Weighted ridges of one user's events: two ways to the same numbers."""

import numpy as np

from resus.arrays import Doubles
from resus.model.inference.parts import inverse_of_lower
from resus.model.learners.plus.in_numpy.codes import Codes
from resus.model.learners.plus.in_numpy.scales import Scales
from resus.model.learners.plus.numbers import CLOSE


class Dense:
    """Solves (K + 1/w) x = targets by a k × k matrix."""

    def __init__(self, gram: Doubles) -> None:
        self._gram = gram
        self._factor: Doubles | None = None  # L⁻¹ of K + 1/w = LLᵀ after the fit, if a deviation was asked for

    @property
    def nbytes(self) -> int:
        return 0 if self._factor is None else self._factor.nbytes

    def times(self, dual: Doubles) -> Doubles:
        product: Doubles = self._gram @ dual
        return product

    def solve(self, weights: Doubles, targets: Doubles) -> Doubles:
        return np.linalg.solve(self._matrix(weights), targets).astype(np.float64, copy=False)

    def reduction(self, weights: Doubles, across: Doubles) -> Doubles:
        """How much events that covary by `across` `[k, N]` take from the variances of N candidates, after the fit."""
        if self._factor is None:
            self._factor = inverse_of_lower(np.linalg.cholesky(self._matrix(weights)).astype(np.float64, copy=False))
        spread = self._factor @ across
        found: Doubles = np.einsum("kn,kn->n", spread, spread)
        return found

    def _matrix(self, weights: Doubles) -> Doubles:
        matrix = self._gram.copy()
        matrix.flat[:: len(matrix) + 1] += 1 / weights
        return matrix


class Iterative:
    """The same by conjugate gradients, for users with so many events that a matrix of all pairs would be too large."""

    def __init__(self, scales: Scales, codes: Codes) -> None:
        self._scales, self._taste = scales, codes.taste.astype(np.float64)
        self._shares = codes.shares.astype(np.float64)
        self._distinct, places = np.unique(codes.values, return_inverse=True)
        self._places = places.reshape(codes.values.shape)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self._taste, self._shares, self._distinct, self._places))

    def times(self, dual: Doubles) -> Doubles:
        scales = self._scales
        product = np.full(len(dual), (scales.bias or 0.0) * dual.sum())
        amounts = self._shares * scales.scale_of_value * dual[:, None]
        sums = np.bincount(self._places.ravel(), amounts.ravel(), len(self._distinct))
        product += (sums[self._places] * self._shares).sum(axis=1)
        return product + (scales.taste or 0.0) * (self._taste @ (dual @ self._taste))

    def solve(self, weights: Doubles, targets: Doubles) -> Doubles:
        rest, solved = targets, np.zeros_like(targets)
        goal = CLOSE * np.sqrt(rest @ rest)
        step = rest * weights
        size = float(rest @ step)
        for _ in range(2 * len(rest)):
            if np.sqrt(rest @ rest) <= goal:
                break
            moved = self.times(step) + step / weights
            length = size / max(float(step @ moved), 1e-300)
            solved, rest = solved + length * step, rest - length * moved
            eased = rest * weights
            before, size = size, float(rest @ eased)
            step = eased + size / max(before, 1e-300) * step
        return solved

    def reduction(self, weights: Doubles, across: Doubles) -> Doubles:
        return np.array([column @ self.solve(weights, column) for column in across.T])
