"""A user after the fit, and what each part of the model says about candidates."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from resus.arrays import Array, Booleans, Doubles, Floats, Integers
from resus.model.inference.parts import sigmoid
from resus.model.learners.plus.in_numpy.catalogue import PreparedCatalogue
from resus.model.learners.plus.in_numpy.codes import Codes
from resus.model.learners.plus.in_numpy.fit import Said
from resus.model.learners.plus.in_numpy.scales import Scales
from resus.model.learners.plus.in_numpy.sums import Sums
from resus.model.learners.plus.in_numpy.systems import Dense, Iterative
from resus.model.learners.plus.numbers import FEW_CHOICES, SURE

FEW_EVENTS = 64  # up to here, a user keeps a matrix of events and values


class Fitted:
    """A user after the fit: α, and the sums over events from which every part of the model answers."""

    def __init__(
        self,
        scales: Scales,
        codes: Codes,
        events: Said,
        system: Dense | Iterative,
        dual: Doubles,
    ) -> None:
        self._scales, self._codes, self._events, self._system, self.dual = scales, codes, events, system, dual
        labels = events.labels
        self._generosity = (scales.bias or 0.0) * float(dual.sum())
        shares = codes.shares * scales.scale_of_value
        self._matches = Sums(codes.values, shares * dual[:, None], shares != 0)
        self._wanted = ((scales.taste or 0.0) * (dual @ codes.taste)).astype(np.float32)
        self._chosen = codes.chosen.sum(axis=0, dtype=np.float64)
        self._items = np.unique(codes.items)
        like, dislike = scales.same_context or (0.0, 0.0)
        self._context_amounts = np.where(codes.contexts != 0, labels * like + (1 - labels) * dislike, 0.0)
        self._contexts = Sums(codes.contexts, self._context_amounts, codes.contexts != 0)

    @property
    def nbytes(self) -> int:
        """Besides the events and their covariance."""
        values = self.__dict__.get("_values")  # if a deviation was asked for
        kept = self._system.nbytes + (0 if values is None else values.nbytes)
        return 16 * len(self._matches) + 3 * self.dual.nbytes + kept

    def said(self, query: Codes) -> Iterator[Array | float]:
        """What the parts of the model add to the answers, `[N]` each."""
        scales = self._scales
        yield self._generosity
        if not len(self._codes):
            return
        if scales.matches is not None:
            yield self._matched(query, slice(None))
        if scales.taste is not None:
            yield query.taste @ self._wanted
        own = self._own_items(query)
        if scales.choices is not None:
            yield self._choices(query, own)
        if scales.same_context is not None:
            yield self._same_context(query, own)
        if scales.by_size is not None:
            yield self._drift(own, len(query))

    def said_of_all(self, catalogue: PreparedCatalogue, shared: Floats | None) -> Floats:
        """The sum of `said` for items that the user has not had; `shared` is to be added to every code."""
        scales, layout = self._scales, self._scales.layout
        scale = (scales.choices or 0.0) / np.sqrt(len(self.dual) + FEW_CHOICES)
        wanted = np.concatenate([self._wanted, (scale * self._chosen).astype(np.float32)])
        level = self._generosity + float(self._drift_after(np.array(len(self.dual))))
        if shared is not None:
            codes = layout.unpack(shared[None])
            level += float(shared[layout.taste_and_offered] @ wanted)
            level += float(self._contexts(codes.contexts)[0])
            level += float(self._matched(codes, slice(None))[0])
        said: Floats = catalogue.encoded[:, layout.taste_and_offered] @ wanted
        if scales.matches is not None:
            said += np.einsum("gv,gv->g", self._matches(catalogue.values), catalogue.shares)[catalogue.groups]
        said += np.float32(level)
        return said

    def causes(self, query: Codes) -> Iterator[tuple[str, Array]]:
        """The same by name; each field that can match is a cause of its own."""
        scales, layout = self._scales, self._scales.layout
        if scales.bias is not None:
            yield "generosity", np.full(len(query), self._generosity)
        if scales.matches is not None:
            for name, place in zip(layout.names, layout.fields, strict=True):
                yield "this very item" if name == layout.item else f"same {name}", self._matched(query, place)
        if scales.taste is not None:
            yield "taste", query.taste @ self._wanted
        own = self._own_items(query)
        if scales.choices is not None:
            yield "choice of items", self._choices(query, own)
        if scales.same_context is not None:
            yield "same context", self._same_context(query, own)
        if scales.by_size is not None:
            yield "number of events", self._drift(own, len(query))

    def across(self, query: Codes) -> Doubles:
        """The prior covariance of every event with every candidate, `[k, N]`."""
        scales = self._scales
        if len(self.dual) > FEW_EVENTS or scales.matches is None:
            return scales.covariance(self._codes, query)
        found = (scales.bias or 0.0) + self._values @ self._matches.spread(query.values, query.shares).T
        if scales.taste is not None:
            found += scales.taste * (self._codes.taste.astype(np.float64) @ query.taste.T)
        return found

    @cached_property
    def _values(self) -> Doubles:
        """The shares of each event in the values that the user has met, times their scales, `[k, distinct]`."""
        return self._matches.spread(self._codes.values, self._codes.shares * self._scales.scale_of_value)

    def deviation(self, query: Codes, across: Doubles | None) -> Floats:
        """Laplace's approximation: the prior after the events, with the labels' own curvature at the fit."""
        left = self._scales.variance(query)
        if across is not None and len(across):
            left = left - self._system.reduction(self.curvature, across)
        deviation: Floats = np.sqrt(np.maximum(left, 0)).astype(np.float32)
        return deviation

    @cached_property
    def curvature(self) -> Doubles:
        """Of the labels at the fit, `[k]`."""
        chance = sigmoid(self._events.basis + self._system.times(self.dual))
        weights: Doubles = np.maximum(chance * (1 - chance) * self._events.trust, SURE)
        return weights

    def _matched(self, query: Codes, place: slice) -> Array:
        shares = query.shares[:, place]
        found: Array = np.einsum("nv,nv->n", self._matches(query.values[:, place]), shares)
        return found

    def _own_items(self, query: Codes) -> "_OwnItems":
        return _OwnItems(self._codes.items, self._items, query.items)

    def _choices(self, query: Codes, own: "_OwnItems") -> Array:
        """z·⟨Σψ, χ(x)⟩ / √(k + κ), over events of other items than the candidate's own."""
        scale = self._scales.choices or 0.0
        wanted = (scale / np.sqrt(len(self.dual) + FEW_CHOICES) * self._chosen).astype(np.float32)
        said: Floats = query.offered @ wanted
        if len(own.rows):
            offered = query.offered[own.rows].astype(np.float64)
            others = offered @ self._chosen - ((offered @ self._codes.chosen.T) * own.same).sum(axis=1)
            count = len(self.dual) - own.same.sum(axis=1)
            said[own.rows] = scale * others / np.sqrt(count + FEW_CHOICES)
        return said

    def _same_context(self, query: Codes, own: "_OwnItems") -> Array:
        """A number per like and one per dislike of the same context, over events of other items."""
        said = self._contexts(query.contexts)
        if len(own.rows):
            same = self._codes.contexts == query.contexts[own.rows, None]
            said[own.rows] -= (own.same & same) @ self._context_amounts
        return said

    def _drift(self, own: "_OwnItems", candidates: int) -> Array:
        """What the number of events of other items adds."""
        others = np.full(candidates, len(self.dual))
        others[own.rows] -= own.same.sum(axis=1)
        return self._drift_after(others)

    def _drift_after(self, events: Integers) -> Doubles:
        soon, late = np.zeros(2) if self._scales.by_size is None else self._scales.by_size
        drift: Doubles = soon * events / (events + FEW_CHOICES) + late * np.log1p(events / FEW_CHOICES)
        return drift


class _OwnItems:
    """Candidates `rows` `[H]` of items that the user has had, and which events those are, `same` `[H, k]`.

    An event of an unknown item may be of the same item as a candidate of an unknown item, so it counts as such.
    """

    def __init__(self, items: Floats, distinct: Floats, asked: Floats) -> None:
        nearest = np.minimum(np.searchsorted(distinct, asked), len(distinct) - 1) if len(distinct) else 0
        self.rows = np.flatnonzero(distinct[nearest] == asked) if len(distinct) else np.empty(0, dtype=np.int64)
        self.same: Booleans = items == asked[self.rows, None]
