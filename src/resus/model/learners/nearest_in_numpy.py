"""RESUS-NN for live users, without torch: a softmax over similarities weighs the residuals of the events."""

import numpy as np

from resus.arrays import Doubles, Floats
from resus.model.inference.parts import Answer, EventRows, Explanation, LiveLearner, LiveState, Weights

TILE = 1 << 19  # elements of a [rows, k, K] difference: small enough to stay in the cache


class NearestInNumpy(LiveLearner):
    """The similarity is wᵀ|v₁ − v₂| with learned weights, or the cosine."""

    def __init__(self, weights: Weights, *, width: int) -> None:
        self.weight = weights.get("similarity.weight")
        self.width = width

    def state(self) -> "LiveNearest":
        return LiveNearest(self)

    def similarities(self, encoded: Floats, events: Floats) -> Floats:
        """`[N, K]`, `[k, K]` → `[N, k]`."""
        if self.weight is None:
            return _normalized(encoded) @ _normalized(events).T
        found = np.empty((len(encoded), len(events)), dtype=np.float32)
        step = max(1, TILE // max(1, events.size))
        for start in range(0, len(encoded), step):
            tile = slice(start, start + step)
            found[tile] = np.abs(events - encoded[tile, None]) @ self.weight
        return found


class LiveNearest(LiveState):
    """An event's part is its residual times its share of the softmax, computed for each candidate."""

    def __init__(self, learner: NearestInNumpy) -> None:
        self._learner = learner
        self._events = EventRows(learner.width)
        self._residuals = self._events.residuals

    def __len__(self) -> int:
        return len(self._events)

    @property
    def nbytes(self) -> int:
        return self._events.nbytes + self._residuals.nbytes

    def fill(self, encoded: Floats, labels: Doubles, basis: Doubles) -> None:
        self._events.fill(encoded, labels, basis)
        self._residuals = self._events.residuals

    def insert(self, place: int, encoded: Floats, label: float, basis: float) -> None:
        self._events.insert(place, encoded, label, basis)
        self._residuals = self._events.residuals

    def correct(self, place: int, label: float) -> None:
        self._events.correct(place, label)
        self._residuals = self._events.residuals

    def remove(self, place: int) -> None:
        self._events.remove(place)
        self._residuals = self._events.residuals

    def answer(self, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Answer:  # noqa: ARG002  # it has none
        if not len(self):
            return Answer.without_events(len(encoded), explain=explain)
        scores = self._learner.similarities(encoded, self._events.encoded)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        parts = shares * self._residuals.astype(np.float32)
        return Answer(parts.sum(axis=1), None, Explanation(parts) if explain else None)


def _normalized(vectors: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("nk,nk->n", vectors, vectors))
    unit: Floats = vectors / np.maximum(lengths, 1e-12)[:, None]
    return unit
