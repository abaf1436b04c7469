"""RESUS-RR for live users, without torch: ridge regression that grows and shrinks with each event."""

import numpy as np

from resus.arrays import Doubles, Floats
from resus.model.inference.parts import (
    Answer,
    EventRows,
    Explanation,
    LiveLearner,
    LiveState,
    Weights,
    inverse_of,
    with_entry,
    with_pair,
    without_entry,
    without_pair,
)

TINY = 1e-12  # the least that an event leaves of a prediction of itself
CHANGES = 256  # rank-one updates after which an inverse is computed anew, so that rounding stays small


class RidgeInNumpy(LiveLearner):
    """λ and the constant that is added to every inner product (1 with a bias for each user, else 0)."""

    def __init__(self, weights: Weights, *, bias: bool, width: int) -> None:
        self.ridge = float(np.logaddexp(0, np.float64(weights["raw_ridge"])))
        self.constant = 1.0 if bias else 0.0
        self.width = width

    def state(self) -> "LiveRidge":
        return LiveRidge(self)


class LiveRidge(LiveState):
    """The dual form up to K + 1 events, then the primal one. Both give the same numbers; an event costs O(k² + kK) in
    the dual form and O(K²) in the primal one.

    An event's part is what the answer would lose without it. Shares of the answer would say little: two events that are
    alike, one liked and one not, have large shares of opposite signs, which cancel.
    """

    def __init__(self, learner: RidgeInNumpy) -> None:
        self._learner = learner
        self._events = EventRows(learner.width)
        self._form: _Dual | _Primal = _Dual(learner, self._events)
        self._is_fresh = False  # the weights are those of the present events

    def __len__(self) -> int:
        return len(self._events)

    @property
    def nbytes(self) -> int:
        return self._events.nbytes + self._form.nbytes

    def fill(self, encoded: Floats, labels: Doubles, basis: Doubles) -> None:
        self._events.fill(encoded, labels, basis)
        form = _Primal if len(labels) > self._learner.width + 1 else _Dual
        self._form = form(self._learner, self._events)
        self._is_fresh = False

    def insert(self, place: int, encoded: Floats, label: float, basis: float) -> None:
        grows = isinstance(self._form, _Dual) and len(self) == self._learner.width + 1
        if not grows:
            self._form.insert(place, encoded)
        self._events.insert(place, encoded, label, basis)
        if grows:
            self._form = _Primal(self._learner, self._events)
        self._is_fresh = False

    def correct(self, place: int, label: float) -> None:
        self._events.correct(place, label)
        self._is_fresh = False

    def remove(self, place: int) -> None:
        self._form.remove(place)
        self._events.remove(place)
        self._is_fresh = False

    def settle(self) -> None:
        if len(self) and not self._is_fresh:
            self._form.refresh()
            self._is_fresh = True

    def answer(self, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Answer:
        if not len(self):
            return Answer.without_events(len(encoded), explain=explain)
        self.settle()
        return self._form.answer(encoded, deviation=deviation, explain=explain)


class _Dual:
    """B = (ΦΦᵀ + λI)⁻¹ in float64, which gains or loses a row and a column with each event."""

    def __init__(self, learner: RidgeInNumpy, events: EventRows) -> None:
        self._learner, self._events = learner, events
        self._changes = 0
        self._inverse: Doubles | None = None  # None: to be computed from all events
        self._weights: Floats = np.zeros(learner.width, dtype=np.float32)
        self._level = np.float32(0)

    @property
    def nbytes(self) -> int:
        return self._weights.nbytes + (0 if self._inverse is None else self._inverse.nbytes)

    def insert(self, place: int, encoded: Floats) -> None:
        """Take in the inner products of a new event, before it is among the events."""
        self._changes += 1
        if self._inverse is None or self._changes > CHANGES:
            self._inverse = None
            return
        ridge, constant = self._learner.ridge, self._learner.constant
        inner = (self._events.encoded @ encoded).astype(np.float64) + constant
        spread = self._inverse @ inner
        left = float(encoded @ encoded) + constant + ridge - float(inner @ spread)
        if left < ridge:  # rounding
            self._inverse = None
            return
        row = with_entry(spread, place, -1.0)
        larger = with_pair(self._inverse, place, np.zeros_like(row))
        larger += np.outer(row, row / left)
        self._inverse = larger

    def remove(self, place: int) -> None:
        """Drop an event that is still among the events."""
        self._changes += 1
        if self._inverse is None or self._changes > CHANGES:
            self._inverse = None
            return
        row, smaller = without_entry(self._inverse[place], place), without_pair(self._inverse, place)
        smaller -= np.outer(row, row / self._inverse[place, place])
        self._inverse = smaller

    def refresh(self) -> None:
        """The weights that follow from the present events and labels."""
        encoded = self._events.encoded
        if self._inverse is None:
            self._changes = 0
            gram = (encoded @ encoded.T).astype(np.float64) + self._learner.constant
            gram.flat[:: len(gram) + 1] += self._learner.ridge
            self._inverse = inverse_of(gram)
        dual = self._inverse @ self._events.residuals
        self._weights = (dual @ encoded).astype(np.float32)
        self._level = np.float32(self._learner.constant * dual.sum())

    def answer(self, encoded: Floats, *, deviation: bool, explain: bool) -> Answer:
        residual = encoded @ self._weights + self._level
        if not deviation and not explain:
            return Answer(residual)
        assert self._inverse is not None
        constant = self._learner.constant
        inner = (self._events.encoded @ encoded.T).astype(np.float64) + constant  # [k, N]
        spread = self._inverse @ inner
        left = np.einsum("nk,nk->n", encoded, encoded) + constant - np.einsum("kn,kn->n", inner, spread)
        explanation = None
        if explain:
            lost = self._inverse @ self._events.residuals / self._inverse.diagonal()
            explanation = Explanation((spread.T * lost).astype(np.float32), leave_one_out=True)
        return Answer(residual, np.sqrt(np.maximum(left, 0)).astype(np.float32), explanation)


class _Primal:
    """P = (ΦᵀΦ + λI)⁻¹ and w = PΦᵀΔy, in float64, however many events there are."""

    def __init__(self, learner: RidgeInNumpy, events: EventRows) -> None:
        self._learner, self._events = learner, events
        self._changes = 0
        self._inverse: Doubles | None = None
        self._weights: Doubles = np.zeros(learner.width + 1)

    @property
    def nbytes(self) -> int:
        return self._weights.nbytes + (0 if self._inverse is None else self._inverse.nbytes)

    def insert(self, place: int, encoded: Floats) -> None:  # noqa: ARG002  # the order of events does not matter
        self._change(encoded, sign=1.0)

    def remove(self, place: int) -> None:
        self._change(self._events.encoded[place], sign=-1.0)

    def refresh(self) -> None:
        rows = self._with_constant(self._events.encoded)
        if self._inverse is None:
            self._changes = 0
            self._inverse = inverse_of(rows.T @ rows + self._learner.ridge * np.eye(rows.shape[1]))
        self._weights = self._inverse @ (self._events.residuals @ rows)

    def answer(self, encoded: Floats, *, deviation: bool, explain: bool) -> Answer:
        assert self._inverse is not None
        width, level = self._learner.width, self._learner.constant**0.5
        residual = encoded @ self._weights[:width].astype(np.float32) + np.float32(level * self._weights[width])
        if not deviation and not explain:
            return Answer(residual)
        rows = self._with_constant(encoded)
        spread = rows @ self._inverse
        variance = self._learner.ridge * np.einsum("nk,nk->n", spread, rows)
        explanation = None
        if explain:
            explanation = Explanation(self._parts(spread).astype(np.float32), leave_one_out=True)
        return Answer(residual, np.sqrt(np.maximum(variance, 0)).astype(np.float32), explanation)

    def _parts(self, spread: Doubles) -> Doubles:
        """Leaving out event i takes (Φ(x)PΦ(x_i)) (Δy_i − Φ(x_i)w) / (1 − Φ(x_i)PΦ(x_i)) from the answer."""
        assert self._inverse is not None
        rows = self._with_constant(self._events.encoded)
        missed = self._events.residuals - rows @ self._weights
        left = 1 - np.einsum("nk,nk->n", rows @ self._inverse, rows)
        parts: Doubles = (spread @ rows.T) * (missed / np.maximum(left, TINY))
        return parts

    def _change(self, encoded: Floats, *, sign: float) -> None:
        """Add or remove one event, by Sherman and Morrison."""
        self._changes += 1
        if self._inverse is None or self._changes > CHANGES:
            self._inverse = None
            return
        row = self._with_constant(encoded[None])[0]
        moved = self._inverse @ row
        pivot = 1 + sign * float(row @ moved)
        self._inverse = None if pivot < 1e-6 else self._inverse - np.outer(moved, sign * moved / pivot)

    def _with_constant(self, encoded: Floats) -> Doubles:
        constant = np.full((len(encoded), 1), self._learner.constant**0.5)
        return np.concatenate([encoded, constant], axis=1, dtype=np.float64)
