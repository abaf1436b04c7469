"""The published architectures with trained weights, in numpy: the same numbers as the modules beside this file."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from resus.arrays import Array, Floats
from resus.data.fields.feature_map import FeatureMap
from resus.model.inference.parts import RowEncoder, Rows, Weights

TILE = 2048  # rows at a time, so that a layer stays in the cache


class _Vectors:
    """`[N, C]` ids and weights → `[N, F, E]`, as `FieldEmbedding`."""

    def __init__(self, features: FeatureMap, table: Array) -> None:
        counts = features.column_counts
        self._table = np.ascontiguousarray(table, dtype=np.float32)
        self._starts = None if max(counts) == 1 else np.cumsum((0, *counts[:-1]))

    def __call__(self, rows: Rows) -> Floats:
        vectors = self._table[rows.ids]
        if rows.weights is not None:
            vectors *= rows.weights[..., None]
        summed: Floats = vectors if self._starts is None else np.add.reduceat(vectors, self._starts, axis=1)
        return summed


class _Perceptron:
    """Linear and ReLU layers."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        layers = sorted({int(name.removeprefix(prefix).split(".")[0]) for name in weights if name.startswith(prefix)})
        self._layers = [linear(weights, f"{prefix}{layer}.") for layer in layers]

    def __call__(self, values: Floats) -> Floats:
        for weight, bias in self._layers:
            values = values @ weight
            values += bias
            np.maximum(values, 0, out=values)
        return values


class TiledEncoder(RowEncoder):
    """Encodes any number of rows, a tile at a time."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, rows: Rows) -> Floats:
        if rows.length <= TILE:
            return self.tile(rows)
        encoded = np.empty((rows.length, self.width), dtype=np.float32)
        for place in tiles(rows.length):
            encoded[place] = self.tile(rows.take(place))
        return encoded

    def tile(self, rows: Rows) -> Floats:
        raise NotImplementedError


class LRInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights) -> None:
        super().__init__(len(features.fields) * weights["embedding.table"].shape[1])
        self._embedding = _Vectors(features, weights["embedding.table"])

    def tile(self, rows: Rows) -> Floats:
        return self._embedding(rows).reshape(rows.length, -1)


class FMInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights) -> None:
        super().__init__(len(features.fields) + weights["embedding.table"].shape[1])
        self._first = _Vectors(features, weights["first_order.table"])
        self._embedding = _Vectors(features, weights["embedding.table"])

    def tile(self, rows: Rows) -> Floats:
        return _beside(self._first(rows)[..., 0], _interactions(self._embedding(rows)))


class WideDeepInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights, hidden: Sequence[int]) -> None:
        super().__init__(len(features.fields) + hidden[-1])
        self._first = _Vectors(features, weights["first_order.table"])
        self._embedding = _Vectors(features, weights["embedding.table"])
        self._deep = _Perceptron(weights, "deep.")

    def tile(self, rows: Rows) -> Floats:
        deep = self._deep(self._embedding(rows).reshape(rows.length, -1))
        return _beside(self._first(rows)[..., 0], deep)


class DeepFMInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights, hidden: Sequence[int]) -> None:
        super().__init__(weights["embedding.table"].shape[1] + hidden[-1])
        self._embedding = _Vectors(features, weights["embedding.table"])
        self._deep = _Perceptron(weights, "deep.")

    def tile(self, rows: Rows) -> Floats:
        vectors = self._embedding(rows)
        return _beside(_interactions(vectors), self._deep(vectors.reshape(rows.length, -1)))


class XDeepFMInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights, hidden: Sequence[int], maps: Sequence[int]) -> None:
        super().__init__(len(features.fields) + sum(maps) + hidden[-1])
        self._first = _Vectors(features, weights["first_order.table"])
        self._embedding = _Vectors(features, weights["embedding.table"])
        self._mixes = [linear(weights, f"interactions.mixes.{layer}.") for layer in range(len(maps))]
        self._deep = _Perceptron(weights, "deep.")

    def tile(self, rows: Rows) -> Floats:
        vectors = self._embedding(rows)
        deep = self._deep(vectors.reshape(rows.length, -1))
        return _beside(self._first(rows)[..., 0], *self._interactions(vectors), deep)

    def _interactions(self, vectors: Floats) -> Iterator[Floats]:
        first = vectors.transpose(0, 2, 1)  # [N, E, F]
        current = first
        for weight, bias in self._mixes:
            products = (current[..., None] * first[:, :, None]).reshape(*first.shape[:2], -1)
            current = np.maximum(products @ weight + bias, 0)
            yield current.sum(axis=1)


def linear(weights: Weights, prefix: str) -> tuple[Floats, Floats]:
    """The matrix of a linear layer, to multiply from the right, and its bias."""
    return np.ascontiguousarray(weights[f"{prefix}weight"].T), weights[f"{prefix}bias"]


def tiles(count: int) -> Iterator[slice]:
    for start in range(0, count, TILE):
        yield slice(start, min(start + TILE, count))


def _interactions(vectors: Floats) -> Floats:
    total = vectors.sum(axis=1)
    squares = np.einsum("nfe,nfe->ne", vectors, vectors)
    halved: Floats = (total * total - squares) * np.float32(0.5)
    return halved


def _beside(*parts: Any) -> Floats:
    return np.concatenate(parts, axis=1)
