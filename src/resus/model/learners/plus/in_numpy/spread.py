"""Draws of a user's whole function Δ, and how sure the model is of it: the posterior of all candidates together.

Under the prior, Δ is linear in independent normal numbers: one for the bias, one for each value of each field, and one
for each direction of taste. Such a function f costs a gather per value and one product. Given the user's events, with
the curvatures w of their labels at the fit (Laplace), a draw of Δ minus its mean is (Matheron's rule)

    f(x) − k(x, X) (K + 1/w)⁻¹ (f(X) + ε)        ε_i normal with variance 1 / w_i

whose covariance is k(x, x') − k(x, X) (K + 1/w)⁻¹ k(X, x'), for all candidates together. The second term is once more
a number per bias, value and direction of taste, so a whole catalogue needs no matrix of pairs of items.
"""

from typing import NamedTuple

import numpy as np

from resus.arrays import Array, Doubles, Floats, Integers
from resus.model.inference.parts import Sample, Spread, inverse_of_lower
from resus.model.learners.plus.in_numpy.codes import Codes
from resus.model.learners.plus.in_numpy.scales import Scales
from resus.model.learners.plus.noise import Part, normals


class PlusSpread(Spread):
    """`weights` `[k]` are the curvatures of the labels of the events `codes`, as many as fit into a matrix of pairs."""

    def __init__(self, scales: Scales, codes: Codes, weights: Doubles) -> None:
        self._scales, self._codes, self._weights = scales, codes, weights
        gram = scales.covariance(codes, codes)
        gram.flat[:: len(gram) + 1] += 1 / weights
        self._inverse = inverse_of_lower(np.linalg.cholesky(gram).astype(np.float64, copy=False))  # L⁻¹

    def deviation(self, encoded: Floats) -> Floats:
        """√(k(x, x) − ‖L⁻¹ k(X, x)‖²)."""
        codes = self._scales.layout.unpack(encoded)
        taken = _OfEvents.of(self._scales, self._codes, self._inverse.T)(codes)
        left = self._scales.variance(codes) - np.einsum("nk,nk->n", taken, taken, dtype=np.float64)
        deviation: Floats = np.sqrt(np.maximum(left, 0)).astype(np.float32)
        return deviation

    def sample(self, seed: int, draws: int) -> Sample:
        scales, codes = self._scales, self._codes
        prior = _Prior(scales, seed, draws)
        noise = normals(seed, Part.EVENT, np.arange(len(codes)), draws) / np.sqrt(self._weights)[:, None]
        dual = self._inverse.T @ (self._inverse @ -(prior(codes) + noise))
        told = _OfEvents.of(scales, codes, dual)

        def drawn(encoded: Floats) -> Floats:
            candidates = scales.layout.unpack(encoded)
            found: Floats = prior(candidates)
            found += told(candidates)
            return found

        return drawn


class _Prior:
    """Functions drawn under the prior."""

    def __init__(self, scales: Scales, seed: int, draws: int) -> None:
        self._scales, self._seed, self._draws = scales, seed, draws
        self._level = np.float32((scales.bias or 0.0) ** 0.5) * normals(seed, Part.BIAS, np.zeros(1), draws)
        directions = np.arange(scales.layout.taste)
        self._taste = np.float32((scales.taste or 0.0) ** 0.5) * normals(seed, Part.TASTE, directions, draws)

    def __call__(self, codes: Codes) -> Floats:
        """`[N, draws]`."""
        found: Floats = codes.taste @ self._taste
        found += self._level
        for column, scale in enumerate(self._scales.scale_of_value.tolist()):
            asked = _Asked.of(codes, column) if scale else None
            if asked is not None:
                drawn = np.float32(scale**0.5) * normals(self._seed, Part.VALUE, asked.values, self._draws)
                asked.add(drawn, found)
        return found


class _OfEvents:
    """x ↦ Σ_i k(x, x_i) c_i for coefficients `[k, r]` of the events, `[N, r]`."""

    def __init__(self, scales: Scales, level: Doubles, keys: Floats, amounts: Floats, taste: Doubles) -> None:
        self._scale_of_value, self._keys, self._amounts = scales.scale_of_value, keys, amounts
        self._level, self._taste = level.astype(np.float32), taste.astype(np.float32)

    @classmethod
    def of(cls, scales: Scales, codes: Codes, coefficients: Doubles) -> "_OfEvents":
        used = (codes.shares != 0) & (scales.scale_of_value > 0)
        keys, places = np.unique(codes.values[used], return_inverse=True)
        events, columns = np.nonzero(used)
        parts = coefficients[events] * (codes.shares * scales.scale_of_value)[events, columns][:, None]
        amounts = np.zeros((len(keys), coefficients.shape[1]))
        np.add.at(amounts, places, parts)
        level = (scales.bias or 0.0) * coefficients.sum(axis=0)
        taste = (scales.taste or 0.0) * (codes.taste.T.astype(np.float64) @ coefficients)
        return cls(scales, level, keys, amounts.astype(np.float32), taste)

    def __call__(self, codes: Codes) -> Floats:
        found: Floats = codes.taste @ self._taste
        found += self._level
        if not len(self._keys):
            return found
        for column, scale in enumerate(self._scale_of_value.tolist()):
            asked = _Asked.of(codes, column, among=self._keys) if scale else None
            if asked is not None:
                asked.add(self._amounts[np.searchsorted(self._keys, asked.values)], found)
        return found


class _Asked(NamedTuple):
    """The candidates `rows` that have a value in one column: which distinct one, and its shares."""

    rows: Integers
    values: Floats  # distinct
    which: Integers  # [rows]
    shares: Floats  # [rows]

    @classmethod
    def of(cls, codes: Codes, column: int, *, among: Floats | None = None) -> "_Asked | None":
        """None if there is no such candidate; `among` are the only values that count."""
        has = codes.shares[:, column] != 0
        if among is not None:
            nearest = np.minimum(np.searchsorted(among, codes.values[:, column]), len(among) - 1)
            has &= among[nearest] == codes.values[:, column]
        rows = np.flatnonzero(has)
        if not len(rows):
            return None
        values, which = np.unique(codes.values[rows, column], return_inverse=True)
        return cls(rows, values, which, codes.shares[rows, column])

    def add(self, table: Floats, found: Array) -> None:
        """To each candidate, what the table `[distinct, r]` says of its value."""
        said = table[self.which]
        said *= self.shares[:, None]
        if len(self.rows) == len(found):
            found += said
        else:
            found[self.rows] += said
