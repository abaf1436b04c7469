"""Φ of RESUS+ with trained weights."""

import numpy as np

from resus.arrays import Array, Booleans, Floats, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.model.inference.parts import AdditiveEncoder, Rows, Weights
from resus.model.learners.plus.in_numpy.codes import CodeColumns
from resus.model.learners.plus.numbers import KNOTS, SIGNATURE_BASES, SIGNATURE_BITS, SIGNATURE_PRIME, UNKNOWN

TILE = 4096  # rows at a time


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
