"""RESUS+ for live users, without torch: codes of rows, the fit of one user, and what each part of the model says.

It gives the numbers of the modules beside this file. A new term of the model is a new entry in `_Fitted.said`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from resus.arrays import Array, Booleans, Doubles, Floats, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.model.inference.parts import (
    AdditiveEncoder,
    Answer,
    EventRows,
    Explanation,
    LiveLearner,
    LiveState,
    Rows,
    Weights,
    inverse_of,
    sigmoid,
)
from resus.model.learners.plus.numbers import (
    ARRIVED,
    CLOSE,
    FEW_CHOICES,
    FEW_VALUES,
    FLAT,
    KNOTS,
    LONG,
    PARABOLAS,
    ROUNDING,
    SIGNATURE_BASES,
    SIGNATURE_BITS,
    SIGNATURE_PRIME,
    SURE,
    UNKNOWN,
)

TILE = 4096  # rows at a time
FEW_EVENTS = 64  # up to here, a user keeps a matrix of events and values


@dataclass(frozen=True)
class CodeColumns:
    """Where the parts of a code are in an encoded row, as in `Layout` of the learner in torch."""

    names: tuple[str, ...]
    counts: tuple[int, ...]  # values of each field
    item: str
    taste: int
    choice: int

    @classmethod
    def of(cls, features: FeatureMap, *, taste: int, choice: int) -> "CodeColumns":
        counts = tuple(2 if field.kind == "numeric" else field.columns for field in features.fields)
        return cls(tuple(field.name for field in features.fields), counts, features.item, taste, choice)

    @cached_property
    def _slices(self) -> list[slice]:
        values = sum(self.counts)
        ends = np.cumsum([1, 2, values, values, self.taste, self.choice, self.choice, 1]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def width(self) -> int:
        return int(self._slices[-1].stop)

    @cached_property
    def field_of_value(self) -> Integers:
        """`[V]`: the number of the field of each value."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def fields(self) -> list[slice]:
        """The values of each field."""
        ends = np.cumsum(self.counts).tolist()
        return [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]

    @cached_property
    def taste_and_offered(self) -> slice:
        """φ and χ, side by side."""
        return slice(self._slices[4].start, self._slices[5].stop)

    def unpack(self, encoded: Floats) -> "Codes":
        items, halves, values, shares, taste, offered, chosen, common = (encoded[:, part] for part in self._slices)
        low, high = halves.astype(np.int64).T
        signatures = low + (high << SIGNATURE_BITS)
        return Codes(items[:, 0], signatures, values, shares, taste, offered, chosen, common[:, 0])

    def pack(self, items: Array, contexts: Array, values: Array, shares: Array, vectors: Array) -> Floats:
        parts = [items[:, None], contexts, values, shares, vectors]
        return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")


@dataclass(frozen=True, eq=False)
class Codes:
    """The codes of N rows, as `Codes` of the learner in torch."""

    items: Floats  # [N]
    contexts: Integers  # [N]
    values: Floats  # [N, V]
    shares: Floats  # [N, V]
    taste: Floats  # [N, E]
    offered: Floats  # [N, D]
    chosen: Floats  # [N, D]
    common: Floats  # [N]

    def __len__(self) -> int:
        return len(self.items)


class FactorCodes(AdditiveEncoder):
    """Φ of RESUS+: rows → codes. Fields of the item and of the context add to a code separately."""

    def __init__(self, features: FeatureMap, weights: Weights, *, taste: int, choice: int) -> None:
        self.layout = CodeColumns.of(features, taste=taste, choice=taste + choice)
        self.width = self.layout.width
        self._blocks, self._n_ids = features.blocks, features.n_ids
        self._item = features.block(features.item)
        counts = features.column_counts
        factors, spread = weights["embedding.table"], weights["spread"]
        chosen = weights["chosen.table"] * weights["speaks"]
        vectors = [factors[:, :taste] @ spread, factors[:, :-1], chosen, factors[:, -1:]]
        self._vectors = np.concatenate(vectors, axis=1, dtype=np.float32)
        self._kept, self._knots = weights["kept"], weights["knots"]
        self._kept_columns = np.repeat(self._kept, counts).astype(np.float32)
        self._signs = np.repeat(weights["context"], counts) > 0
        places = range(1, sum(counts) + 1)
        self._powers = [
            np.array([pow(base, place, SIGNATURE_PRIME) for place in places]) * self._signs for base in SIGNATURE_BASES
        ]

    def __call__(self, rows: Rows) -> Floats:
        return self.part(rows, np.ones(len(self._signs), dtype=np.bool_))

    def adds_up(self, columns: Array) -> bool:
        """A signature is of all fields of the context together, so these must be on one side."""
        return not self._signs[columns].any() or bool(self._signs[~columns].sum() == 0)

    def part(self, rows: Rows, columns: Array) -> Floats:
        if rows.length <= TILE:
            return self._part(rows, columns)
        encoded = np.empty((rows.length, self.width), dtype=np.float32)
        for start in range(0, rows.length, TILE):
            tile = slice(start, start + TILE)
            encoded[tile] = self._part(rows.take(tile), columns)
        return encoded

    def _part(self, rows: Rows, columns: Booleans) -> Floats:
        amounts = self._kept_columns * columns
        weights = np.broadcast_to(amounts, rows.ids.shape) if rows.weights is None else rows.weights * amounts
        vectors = np.einsum("nc,nce->ne", weights, self._vectors[rows.ids])
        values, shares = self._values(rows, columns)
        items = np.zeros(rows.length, dtype=np.float32)
        if columns[self._item.columns.start]:
            ids = rows.ids[:, self._item.columns.start]
            items = np.where(ids == self._item.first, UNKNOWN, ids)
        contexts = np.zeros((rows.length, 2), dtype=np.int64)
        if (self._signs & columns).any():
            contexts = self._signatures(rows)
        return self.layout.pack(items, contexts, values, shares, vectors)

    def _values(self, rows: Rows, columns: Booleans) -> tuple[Array, Array]:
        """The values of all fields and their shares, both `[N, V]`; an unknown value has no share."""
        values = np.zeros((rows.length, sum(self.layout.counts)))
        shares = np.zeros_like(values)
        for number, (block, place) in enumerate(zip(self._blocks, self.layout.fields, strict=True)):
            if not columns[block.columns.start]:
                continue
            ids = rows.ids[:, block.columns]
            known = (ids != block.first).astype(np.float32)
            weights = known if rows.weights is None else rows.weights[:, block.columns]
            if block.field.kind == "numeric":
                between, parts = _between_knots(weights[:, 0], self._knots[number])
                values[:, place] = self._n_ids + KNOTS * number + between
                found = parts * known[:, :1]
            else:
                values[:, place] = ids
                found = known * (weights != 0)
                if block.field.columns > 1:  # a value that comes twice counts once
                    equal = ids[:, :, None] == ids[:, None, :]
                    found *= ~np.tril(equal, -1).any(axis=2)
            norm = np.sqrt(np.maximum(np.square(found).sum(axis=1, keepdims=True), np.float32(1e-12)))
            shares[:, place] = self._kept[number] * found / norm
        return values, shares

    def _signatures(self, rows: Rows) -> Integers:
        ids = rows.ids.astype(np.int64) + 1
        mixed = [(ids * powers % SIGNATURE_PRIME).sum(axis=1) % SIGNATURE_PRIME for powers in self._powers]
        return np.stack(mixed, axis=1) % ((1 << SIGNATURE_BITS) - 1) + 1


def _between_knots(numbers: Floats, knots: Floats) -> tuple[Array, Array]:
    lower = np.minimum((numbers[:, None] >= knots[1:]).sum(axis=1), KNOTS - 2)
    low, high = knots[lower], knots[lower + 1]
    above = np.clip((numbers - low) / (high - low), 0, 1)
    return np.stack([lower, lower + 1], axis=1), np.stack([1 - above, above], axis=1)


class PlusInNumpy(LiveLearner):
    """The learned scales of RESUS+; a part that is turned off has none."""

    has_posterior: ClassVar[bool] = True

    def __init__(self, layout: CodeColumns, weights: Weights, *, steps: int) -> None:
        self.layout, self.steps = layout, steps
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

    def trust_in(self, labels: Doubles) -> Doubles:
        """As how many labels each label counts."""
        trust: Doubles = np.where(labels > 0, self.trust[0], self.trust[1])
        return trust

    def crowd(self, basis: Floats, encoded: Floats) -> Floats:
        scaled = basis if self.scale is None else basis * np.float32(self.scale)
        if self.common is None:
            return scaled
        crowd: Floats = scaled + np.float32(self.common) * encoded[:, -1]
        return crowd

    def state(self) -> "LivePlus":
        return LivePlus(self)

    def prepare(self, encoded: Floats) -> "PreparedCatalogue":
        return PreparedCatalogue(self.layout, encoded)

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


class LivePlus(LiveState):
    """Keeps the events, the prior covariance of each pair of them and the latest fit, from which the next one starts.

    A fit is O(k³); all candidates share it until the next event.
    """

    def __init__(self, learner: PlusInNumpy) -> None:
        self._learner = learner
        self._events = EventRows(learner.layout.width)
        self._gram: Doubles | None = None  # None: to be computed, or too large to keep
        self._start = np.empty(0)
        self._fitted: _Fitted | None = None

    def __len__(self) -> int:
        return len(self._events)

    @property
    def nbytes(self) -> int:
        gram = 0 if self._gram is None else self._gram.nbytes
        return self._events.nbytes + gram + (0 if self._fitted is None else self._fitted.nbytes)

    def fill(self, encoded: Floats, labels: Doubles, basis: Doubles) -> None:
        self._events.fill(encoded, labels, basis)
        self._gram, self._start, self._fitted = None, np.zeros(len(labels)), None

    def insert(self, place: int, encoded: Floats, label: float, basis: float) -> None:
        if self._gram is not None and len(self) < LONG:
            new, known = (self._learner.layout.unpack(rows) for rows in (encoded[None], self._events.encoded))
            across = self._learner.covariance(new, known)[0]
            row = np.insert(across, place, self._learner.variance(new)[0])
            self._gram = np.insert(np.insert(self._gram, place, across, axis=0), place, row, axis=1)
        else:
            self._gram = None
        self._events.insert(place, encoded, label, basis)
        self._start, self._fitted = np.insert(self._start, place, 0.0), None

    def correct(self, place: int, label: float) -> None:
        self._events.correct(place, label)
        self._fitted = None

    def remove(self, place: int) -> None:
        if self._gram is not None:
            self._gram = np.delete(np.delete(self._gram, place, axis=0), place, axis=1)
        self._events.remove(place)
        self._start, self._fitted = np.delete(self._start, place), None

    def answer(self, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Answer:
        codes = self._learner.layout.unpack(encoded)
        fitted = self._fit()
        residual = np.zeros(len(codes), dtype=np.float32)
        for said in fitted.said(codes):
            residual += said
        across = fitted.across(codes) if explain or (deviation and len(self)) else None
        explanation = None
        if explain:
            assert across is not None
            causes = {cause: part.astype(np.float32) for cause, part in fitted.causes(codes)}
            explanation = Explanation((across * fitted.dual[:, None]).T.astype(np.float32), causes)
        return Answer(residual, fitted.deviation(codes, across) if deviation else None, explanation)

    def answer_all(self, prepared: "PreparedCatalogue", shared: Floats | None) -> Floats:
        fitted = self._fit()
        said = fitted.said_of_all(prepared, shared)
        own = prepared.rows_of(self._events.encoded[:, 0])
        if len(own):
            encoded = prepared.encoded[own] if shared is None else prepared.encoded[own] + shared
            said[own] = self.answer(encoded, deviation=False).residual
        return said

    def _fit(self) -> "_Fitted":
        if self._fitted is None:
            learner, events = self._learner, self._events
            codes = learner.layout.unpack(events.encoded)
            system: _Dense | _Iterative
            if len(self) > LONG:
                system = _Iterative(learner, codes)
            else:
                self._gram = learner.covariance(codes, codes) if self._gram is None else self._gram
                system = _Dense(self._gram)
            said = _Said(events.labels, events.basis, learner.trust_in(events.labels))
            dual = _fit(said, system, self._start, learner.steps)
            self._start = dual
            self._fitted = _Fitted(learner, codes, said, system, dual)
        return self._fitted


class _Fitted:
    """A user after the fit: α, and the sums over events from which every part of the model answers."""

    def __init__(
        self,
        learner: PlusInNumpy,
        codes: Codes,
        events: "_Said",
        system: "_Dense | _Iterative",
        dual: Doubles,
    ) -> None:
        self._learner, self._codes, self._events, self._system, self.dual = learner, codes, events, system, dual
        labels = events.labels
        self._generosity = (learner.bias or 0.0) * float(dual.sum())
        shares = codes.shares * learner.scale_of_value
        self._matches = _Sums(codes.values, shares * dual[:, None], shares != 0)
        self._wanted = ((learner.taste or 0.0) * (dual @ codes.taste)).astype(np.float32)
        self._chosen = codes.chosen.sum(axis=0, dtype=np.float64)
        self._items = np.unique(codes.items)
        like, dislike = learner.same_context or (0.0, 0.0)
        self._context_amounts = np.where(codes.contexts != 0, labels * like + (1 - labels) * dislike, 0.0)
        self._contexts = _Sums(codes.contexts, self._context_amounts, codes.contexts != 0)

    @property
    def nbytes(self) -> int:
        """Besides the events and their covariance."""
        values = self.__dict__.get("_values")  # if a deviation was asked for
        kept = self._system.nbytes + (0 if values is None else values.nbytes)
        return 16 * len(self._matches) + 3 * self.dual.nbytes + kept

    def said(self, query: Codes) -> Iterator[Array | float]:
        """What the parts of the model add to the answers, `[N]` each."""
        learner = self._learner
        yield self._generosity
        if not len(self._codes):
            return
        if learner.matches is not None:
            yield self._matched(query, slice(None))
        if learner.taste is not None:
            yield query.taste @ self._wanted
        own = self._own_items(query)
        if learner.choices is not None:
            yield self._choices(query, own)
        if learner.same_context is not None:
            yield self._same_context(query, own)
        if learner.by_size is not None:
            yield self._drift(own, len(query))

    def said_of_all(self, catalogue: "PreparedCatalogue", shared: Floats | None) -> Floats:
        """The sum of `said` for items that the user has not had; `shared` is to be added to every code."""
        learner, layout = self._learner, self._learner.layout
        scale = (learner.choices or 0.0) / np.sqrt(len(self.dual) + FEW_CHOICES)
        wanted = np.concatenate([self._wanted, (scale * self._chosen).astype(np.float32)])
        level = self._generosity + float(self._drift_after(np.array(len(self.dual))))
        if shared is not None:
            codes = layout.unpack(shared[None])
            level += float(shared[layout.taste_and_offered] @ wanted)
            level += float(self._contexts(codes.contexts)[0])
            level += float(self._matched(codes, slice(None))[0])
        said: Floats = catalogue.encoded[:, layout.taste_and_offered] @ wanted
        if learner.matches is not None:
            said += np.einsum("gv,gv->g", self._matches(catalogue.values), catalogue.shares)[catalogue.groups]
        said += np.float32(level)
        return said

    def causes(self, query: Codes) -> Iterator[tuple[str, Array]]:
        """The same by name; each field that can match is a cause of its own."""
        learner, layout = self._learner, self._learner.layout
        if learner.bias is not None:
            yield "generosity", np.full(len(query), self._generosity)
        if learner.matches is not None:
            for name, place in zip(layout.names, layout.fields, strict=True):
                yield "this very item" if name == layout.item else f"same {name}", self._matched(query, place)
        if learner.taste is not None:
            yield "taste", query.taste @ self._wanted
        own = self._own_items(query)
        if learner.choices is not None:
            yield "choice of items", self._choices(query, own)
        if learner.same_context is not None:
            yield "same context", self._same_context(query, own)
        if learner.by_size is not None:
            yield "number of events", self._drift(own, len(query))

    def across(self, query: Codes) -> Doubles:
        """The prior covariance of every event with every candidate, `[k, N]`."""
        learner = self._learner
        if len(self.dual) > FEW_EVENTS or learner.matches is None:
            return learner.covariance(self._codes, query)
        found = (learner.bias or 0.0) + self._values @ self._matches.spread(query.values, query.shares).T
        if learner.taste is not None:
            found += learner.taste * (self._codes.taste.astype(np.float64) @ query.taste.T)
        return found

    @cached_property
    def _values(self) -> Doubles:
        """The shares of each event in the values that the user has met, times their scales, `[k, distinct]`."""
        return self._matches.spread(self._codes.values, self._codes.shares * self._learner.scale_of_value)

    def deviation(self, query: Codes, across: Doubles | None) -> Floats:
        """Laplace's approximation: the prior after the events, with the labels' own curvature at the fit."""
        left = self._learner.variance(query)
        if across is not None and len(across):
            left = left - self._system.reduction(self._curvature, across)
        deviation: Floats = np.sqrt(np.maximum(left, 0)).astype(np.float32)
        return deviation

    @cached_property
    def _curvature(self) -> Doubles:
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
        scale = self._learner.choices or 0.0
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
        soon, late = np.zeros(2) if self._learner.by_size is None else self._learner.by_size
        drift: Doubles = soon * events / (events + FEW_CHOICES) + late * np.log1p(events / FEW_CHOICES)
        return drift


class PreparedCatalogue:
    """Codes of a whole catalogue. Items with the same values in all fields but the item's own form a group."""

    def __init__(self, layout: CodeColumns, encoded: Floats) -> None:
        self.encoded = encoded
        codes = layout.unpack(encoded)
        others = layout.field_of_value != layout.names.index(layout.item)
        both = np.concatenate([codes.values[:, others], codes.shares[:, others]], axis=1)
        rows = np.ascontiguousarray(both).view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()
        _, first, self.groups = np.unique(rows, return_index=True, return_inverse=True)
        self.values, self.shares = (part[first][:, others] for part in (codes.values, codes.shares))
        self._order = np.argsort(codes.items, kind="stable")
        self._sorted = codes.items[self._order]

    def rows_of(self, items: Floats) -> Integers:
        """The rows of some items; an unknown item may be any of the unknown ones."""
        wanted = np.unique(items)
        starts = np.searchsorted(self._sorted, wanted, side="left").tolist()
        ends = np.searchsorted(self._sorted, wanted, side="right").tolist()
        found = [self._order[start:end] for start, end in zip(starts, ends, strict=True)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


class _OwnItems:
    """Candidates `rows` `[H]` of items that the user has had, and which events those are, `same` `[H, k]`.

    An event of an unknown item may be of the same item as a candidate of an unknown item, so it counts as such.
    """

    def __init__(self, items: Floats, distinct: Floats, asked: Floats) -> None:
        nearest = np.minimum(np.searchsorted(distinct, asked), len(distinct) - 1) if len(distinct) else 0
        self.rows = np.flatnonzero(distinct[nearest] == asked) if len(distinct) else np.empty(0, dtype=np.int64)
        self.same: Booleans = items == asked[self.rows, None]


class _Sums:
    """Sums of amounts by key: one look-up for any number of candidates."""

    def __init__(self, keys: Array, amounts: Array, used: Booleans) -> None:
        self._keys, places = np.unique(keys[used], return_inverse=True)
        self._sums = np.bincount(places, amounts[used], len(self._keys)).astype(np.float32)

    def __len__(self) -> int:
        return len(self._keys)

    def __call__(self, keys: Array) -> Floats:
        """0 for a key without a sum."""
        if not len(self._keys):
            return np.zeros(keys.shape, dtype=np.float32)
        places, known = self._places(keys)
        found: Floats = np.where(known, self._sums[places], np.float32(0))
        return found

    def spread(self, keys: Array, amounts: Array) -> Doubles:
        """Amounts of rows `[N, V]` by key, `[N, distinct]`; other keys are left out."""
        if not len(self._keys):
            return np.zeros((len(keys), 0))
        places, known = self._places(keys)
        places += np.arange(len(keys))[:, None] * len(self._keys)
        sums = np.bincount(places[known], amounts[known], len(keys) * len(self._keys))
        return sums.reshape(len(keys), -1).astype(np.float64, copy=False)

    def _places(self, keys: Array) -> tuple[Integers, Booleans]:
        places = np.searchsorted(self._keys, keys)
        np.minimum(places, len(self._keys) - 1, out=places)
        return places, self._keys[places] == keys


@dataclass(frozen=True, eq=False)
class _Said:
    """The labels of the events, the crowd's logits, and as how many labels each label counts, `[k]` each."""

    labels: Doubles
    basis: Doubles
    trust: Doubles


def _fit(events: _Said, system: "_Dense | _Iterative", start: Doubles, steps: int) -> Doubles:
    """α `[k]`: see `resus.model.learners.plus.fit`."""
    if not len(start):
        return start
    dual, added = start, system.times(start)
    for _ in range(min(PARABOLAS, steps)):
        dual, added = _under_parabola(events, system, added)
    height = _height(events, dual, added)
    for _ in range(PARABOLAS, steps):
        before = added
        chance = sigmoid(events.basis + before)
        weights = np.maximum(chance * (1 - chance), FLAT)
        dual = system.solve(weights * events.trust, before + (events.labels - chance) / weights)
        added = system.times(dual)
        reached = _height(events, dual, added)
        if reached < height - ROUNDING:
            dual, added = _under_parabola(events, system, before)
            reached = _height(events, dual, added)
        elif np.abs(added - before).max() < ARRIVED:
            break
        height = reached
    return dual


def _under_parabola(events: _Said, system: "_Dense | _Iterative", added: Doubles) -> tuple[Doubles, Doubles]:
    size = np.maximum(np.abs(events.basis + added), 1e-4)
    weights = np.tanh(size / 2) / (2 * size)  # ¼ at 0
    dual = system.solve(weights * events.trust, (events.labels - 0.5) / weights - events.basis)
    return dual, system.times(dual)


def _height(events: _Said, dual: Doubles, added: Doubles) -> float:
    signed = (2 * events.labels - 1) * (events.basis + added)
    return float((-np.logaddexp(0, -signed) * events.trust - 0.5 * dual * added).sum())


class _Dense:
    """Solves (K + 1/w) x = targets by a k × k matrix."""

    def __init__(self, gram: Doubles) -> None:
        self._gram = gram
        self._inverse: Doubles | None = None  # after the fit, if a deviation was asked for

    @property
    def nbytes(self) -> int:
        return 0 if self._inverse is None else self._inverse.nbytes

    def times(self, dual: Doubles) -> Doubles:
        product: Doubles = self._gram @ dual
        return product

    def solve(self, weights: Doubles, targets: Doubles) -> Doubles:
        return np.linalg.solve(self._matrix(weights), targets).astype(np.float64, copy=False)

    def reduction(self, weights: Doubles, across: Doubles) -> Doubles:
        """How much events that covary by `across` `[k, N]` take from the variances of N candidates, after the fit."""
        if self._inverse is None:
            self._inverse = inverse_of(self._matrix(weights))
        found: Doubles = np.einsum("kn,kn->n", across, self._inverse @ across)
        return found

    def _matrix(self, weights: Doubles) -> Doubles:
        matrix = self._gram.copy()
        matrix[np.diag_indices_from(matrix)] += 1 / weights
        return matrix


class _Iterative:
    """The same by conjugate gradients, for users with so many events that a matrix of all pairs would be too large."""

    def __init__(self, learner: PlusInNumpy, codes: Codes) -> None:
        self._learner, self._taste = learner, codes.taste.astype(np.float64)
        self._shares = codes.shares.astype(np.float64)
        self._distinct, places = np.unique(codes.values, return_inverse=True)
        self._places = places.reshape(codes.values.shape)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self._taste, self._shares, self._distinct, self._places))

    def times(self, dual: Doubles) -> Doubles:
        learner = self._learner
        product = np.full(len(dual), (learner.bias or 0.0) * dual.sum())
        amounts = self._shares * learner.scale_of_value * dual[:, None]
        sums = np.bincount(self._places.ravel(), amounts.ravel(), len(self._distinct))
        product += (sums[self._places] * self._shares).sum(axis=1)
        return product + (learner.taste or 0.0) * (self._taste @ (dual @ self._taste))

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
