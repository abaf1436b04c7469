"""The published architectures with trained weights, in numpy: the same numbers as the modules beside this file."""

import threading
from collections.abc import Iterator, Sequence

import numpy as np

from resus.arrays import Array, Floats
from resus.data.fields.feature_map import FeatureMap
from resus.model.inference.parts import RowEncoder, Rows, Weights

TILE = 1024  # rows at a time, so that a layer stays in the cache


class _Vectors:
    """`[N, C]` ids and weights → `[N, F, E]`, as `FieldEmbedding`."""

    def __init__(self, features: FeatureMap, table: Array) -> None:
        counts = np.array(features.column_counts)
        starts = np.cumsum(counts) - counts
        self._table = np.ascontiguousarray(table, dtype=np.float32)
        self._firsts = None if counts.max() == 1 else starts
        self._several = [
            (field, slice(starts[field], starts[field] + counts[field])) for field in np.flatnonzero(counts > 1)
        ]

    def __call__(self, rows: Rows) -> Floats:
        vectors = self._table.take(rows.ids, axis=0)
        if rows.weights is not None:
            vectors *= rows.weights[..., None]
        if self._firsts is None:
            return vectors
        summed: Floats = vectors[:, self._firsts]
        for field, columns in self._several:
            vectors[:, columns].sum(axis=1, out=summed[:, field])
        return summed


class _Perceptron:
    """Linear and ReLU layers. The bias is one more row of the matrix, so that the product adds it."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        layers = sorted({int(name.removeprefix(prefix).split(".")[0]) for name in weights if name.startswith(prefix)})
        pairs = [linear(weights, f"{prefix}{layer}.") for layer in layers]
        self._matrices = [np.concatenate([weight, bias[None]]) for weight, bias in pairs]

    def __call__(self, values: Floats, out: Floats) -> None:
        """`[N, inputs]` → the last layer, `[N, width]`, in `out`."""
        layer = _rooms.inputs(0, *values.shape)
        layer[:, :-1] = values
        for place, matrix in enumerate(self._matrices[:-1], start=1):
            before, layer = layer, _rooms.inputs(place % 2, len(values), matrix.shape[1])
            np.matmul(before, matrix, out=layer[:, :-1])
            np.maximum(layer, 0, out=layer)
        np.matmul(layer, self._matrices[-1], out=out)
        np.maximum(out, 0, out=out)


class TiledEncoder(RowEncoder):
    """Encodes any number of rows, a tile at a time."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, rows: Rows) -> Floats:
        encoded = np.empty((rows.length, self.width), dtype=np.float32)
        for place in tiles(rows.length):
            self.tile(rows.take(place), encoded[place])
        return encoded

    def tile(self, rows: Rows, out: Floats) -> None:
        """`[N, K]` in `out`."""
        raise NotImplementedError


class LRInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights) -> None:
        super().__init__(len(features.fields) * weights["embedding.table"].shape[1])
        self._embedding = _Vectors(features, weights["embedding.table"])

    def tile(self, rows: Rows, out: Floats) -> None:
        out[:] = self._embedding(rows).reshape(rows.length, -1)


class FMInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights) -> None:
        super().__init__(len(features.fields) + weights["embedding.table"].shape[1])
        self._first = _Vectors(features, weights["first_order.table"])
        self._embedding = _Vectors(features, weights["embedding.table"])

    def tile(self, rows: Rows, out: Floats) -> None:
        first = self._first(rows)[..., 0]
        out[:, : first.shape[1]] = first
        _interactions(self._embedding(rows), out[:, first.shape[1] :])


class WideDeepInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights, hidden: Sequence[int]) -> None:
        super().__init__(len(features.fields) + hidden[-1])
        self._first = _Vectors(features, weights["first_order.table"])
        self._embedding = _Vectors(features, weights["embedding.table"])
        self._deep = _Perceptron(weights, "deep.")

    def tile(self, rows: Rows, out: Floats) -> None:
        first = self._first(rows)[..., 0]
        out[:, : first.shape[1]] = first
        self._deep(self._embedding(rows).reshape(rows.length, -1), out[:, first.shape[1] :])


class DeepFMInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights, hidden: Sequence[int]) -> None:
        super().__init__(weights["embedding.table"].shape[1] + hidden[-1])
        self._embedding = _Vectors(features, weights["embedding.table"])
        self._deep = _Perceptron(weights, "deep.")

    def tile(self, rows: Rows, out: Floats) -> None:
        vectors = self._embedding(rows)
        wide = vectors.shape[2]
        _interactions(vectors, out[:, :wide])
        self._deep(vectors.reshape(rows.length, -1), out[:, wide:])


class XDeepFMInNumpy(TiledEncoder):
    def __init__(self, features: FeatureMap, weights: Weights, hidden: Sequence[int], maps: Sequence[int]) -> None:
        super().__init__(len(features.fields) + sum(maps) + hidden[-1])
        self._first = _Vectors(features, weights["first_order.table"])
        self._embedding = _Vectors(features, weights["embedding.table"])
        self._mixes = [linear(weights, f"interactions.mixes.{layer}.") for layer in range(len(maps))]
        self._deep = _Perceptron(weights, "deep.")

    def tile(self, rows: Rows, out: Floats) -> None:
        vectors = self._embedding(rows)
        before = 0
        for part in (self._first(rows)[..., 0], *self._interactions(vectors)):
            out[:, before : before + part.shape[1]] = part
            before += part.shape[1]
        self._deep(vectors.reshape(rows.length, -1), out[:, before:])

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


class _Rooms(threading.local):
    """Memory for layers, which all networks of a thread use again, since fresh memory takes time."""

    def __init__(self) -> None:
        self._kept = [np.empty(0, dtype=np.float32) for _ in range(2)]

    def inputs(self, place: int, rows: int, width: int) -> Floats:
        """Room for the inputs of a layer, with the ones that its bias is multiplied with."""
        size = rows * (width + 1)
        if len(self._kept[place]) < size:
            self._kept[place] = np.empty(size, dtype=np.float32)
        inputs: Floats = self._kept[place][:size].reshape(rows, width + 1)
        inputs[:, -1] = 1
        return inputs


_rooms = _Rooms()


def _interactions(vectors: Floats, out: Floats) -> None:
    """Half of the square of the sum minus the sum of the squares, `[N, E]` in `out`."""
    total = vectors.sum(axis=1)
    squares = np.einsum("nfe,nfe->ne", vectors, vectors)
    np.multiply(total * total - squares, np.float32(0.5), out=out)
