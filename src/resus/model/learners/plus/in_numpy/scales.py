"""The learned scales of RESUS+, and the prior covariance that follows from them."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from resus.arrays import Array, Doubles, Floats, Integers
from resus.model.inference.parts import Weights
from resus.model.learners.plus.in_numpy.codes import CodeColumns, Codes
from resus.model.learners.plus.numbers import FEW_VALUES


class Scales:
    """A part of the model that is turned off has no scale."""

    def __init__(self, layout: CodeColumns, weights: Weights) -> None:
        self.layout = layout
        self.bias, self.taste, self.choices, self.common, self.scale = (
            float(np.exp(np.float64(weights[name]))) if name in weights else None
            for name in ("log_bias", "log_taste", "log_choices", "log_common", "log_scale")
        )
        matches = weights.get("log_matches")
        self.matches = None if matches is None else np.exp(matches.astype(np.float64))  # [F]
        context = weights.get("same_context")
        self.same_context = None if context is None else (float(context[0]), float(context[1]))
        trust, sizes = weights.get("log_trust"), weights.get("by_size")
        self.trust = np.ones(2) if trust is None else np.exp(trust).astype(np.float64)  # of a like and of a dislike
        self.by_size = None if sizes is None else sizes.astype(np.float64)

    def trust_in(self, labels: Doubles | float) -> Doubles:
        """As how many labels each label counts."""
        trust: Doubles = np.where(np.asarray(labels) > 0, self.trust[0], self.trust[1])
        return trust

    def covariance(self, rows: Codes, others: Codes) -> Doubles:
        """The prior covariance k of every row with every other row."""
        found = np.full((len(rows), len(others)), self.bias or 0.0)
        if self.taste is not None:
            found += self.taste * (rows.taste.astype(np.float64) @ others.taste.T.astype(np.float64))
        for scale, place in self._match_fields():
            shares, other_shares = rows.shares[:, place], others.shares[:, place]
            if shares.any() and other_shares.any():
                found += scale * _overlap((rows.values[:, place], shares), (others.values[:, place], other_shares))
        return found

    def covariance_of_one(self, row: Codes, others: Codes) -> Doubles:
        """The same for a single row, `[N]`: values of different fields are never equal."""
        found = np.full(len(others), self.bias or 0.0)
        if self.taste is not None:
            found += self.taste * (others.taste.astype(np.float64) @ row.taste[0].astype(np.float64))
        if self.matches is not None:
            shares = row.shares[0].astype(np.float64) * self.scale_of_value
            own = ((others.values[:, :, None] == row.values[0]) @ shares) * others.shares
            found += own.sum(axis=1)
        return found

    def variance(self, rows: Codes) -> Doubles:
        """k of every row with itself."""
        found = (self.bias or 0.0) + np.square(rows.shares, dtype=np.float64) @ self.scale_of_value
        if self.taste is not None:
            found += self.taste * np.square(rows.taste, dtype=np.float64).sum(axis=1)
        return found

    @cached_property
    def scale_of_value(self) -> Doubles:
        """`[V]`: how much a match of each value counts."""
        return np.zeros(len(self.layout.field_of_value)) if self.matches is None else self._spread(self.matches)

    def _spread(self, of_fields: Doubles) -> Doubles:
        spread: Doubles = of_fields[self.layout.field_of_value]
        return spread

    def _match_fields(self) -> Iterator[tuple[float, slice]]:
        if self.matches is not None:
            yield from zip(self.matches.tolist(), self.layout.fields, strict=True)


def _overlap(rows: tuple[Floats, Floats], others: tuple[Floats, Floats]) -> Doubles:
    """Σ of the products of the shares of equal values of one field, for every row with every other row."""
    (values, shares), (other_values, other_shares) = rows, others
    columns = values.shape[1]
    if columns > FEW_VALUES:
        distinct = np.unique(np.concatenate([values.ravel(), other_values.ravel()]))
        if len(distinct) <= 3 * columns**2:  # few values, many of them in each row
            dense = [_dense(np.searchsorted(distinct, ids), part, len(distinct)) for ids, part in (rows, others)]
            product: Doubles = dense[0] @ dense[1].T
            return product
    overlap = np.zeros((len(values), len(other_values)))
    for one in range(columns):
        for two in range(columns):
            same = values[:, one, None] == other_values[None, :, two]
            overlap += same * (shares[:, one, None].astype(np.float64) * other_shares[None, :, two])
    return overlap


def _dense(places: Integers, shares: Floats, distinct: int) -> Doubles:
    rows = np.arange(len(places))[:, None] * distinct
    counts: Array = np.bincount((rows + places).ravel(), shares.ravel().astype(np.float64), len(places) * distinct)
    return counts.reshape(-1, distinct)
