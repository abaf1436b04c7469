"""RESUS+ for live users."""

from typing import ClassVar

import numpy as np

from resus.arrays import Doubles, Floats
from resus.model.inference.parts import (
    Answer,
    EventRows,
    Explanation,
    LiveLearner,
    LiveState,
    Weights,
    with_entry,
    with_pair,
    without_entry,
    without_pair,
)
from resus.model.learners.plus.in_numpy.catalogue import PreparedCatalogue
from resus.model.learners.plus.in_numpy.codes import CodeColumns
from resus.model.learners.plus.in_numpy.fit import Said, first_guess, fit
from resus.model.learners.plus.in_numpy.fitted import Fitted
from resus.model.learners.plus.in_numpy.scales import Scales
from resus.model.learners.plus.in_numpy.spread import PlusSpread
from resus.model.learners.plus.in_numpy.systems import Dense, Iterative
from resus.model.learners.plus.numbers import LONG


class PlusInNumpy(LiveLearner):
    """Λ of RESUS+, trained."""

    has_posterior: ClassVar[bool] = True

    def __init__(self, layout: CodeColumns, weights: Weights, *, steps: int) -> None:
        self._scales, self._steps = Scales(layout, weights), steps

    def crowd(self, basis: Floats, encoded: Floats) -> Floats:
        scale, common = self._scales.scale, self._scales.common
        scaled = basis if scale is None else basis * np.float32(scale)
        if common is None:
            return scaled
        crowd: Floats = scaled + np.float32(common) * encoded[:, -1]
        return crowd

    def state(self) -> "LivePlus":
        return LivePlus(self._scales, self._steps)

    def prepare(self, encoded: Floats) -> PreparedCatalogue:
        return PreparedCatalogue(self._scales.layout, encoded)


class LivePlus(LiveState):
    """Keeps the events, the prior covariance of each pair of them and the latest fit, from which the next one starts.

    A fit is O(k³); all candidates share it until the next event.
    """

    def __init__(self, scales: Scales, steps: int) -> None:
        self._scales, self._steps = scales, steps
        self._events = EventRows(scales.layout.width)
        self._gram: Doubles | None = None  # None: to be computed, or too large to keep
        self._start = np.empty(0)
        self._fitted: Fitted | None = None

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
            new, known = (self._scales.layout.unpack(rows) for rows in (encoded[None], self._events.encoded))
            across, own = self._scales.covariance_of_one(new, known), float(self._scales.variance(new)[0])
            start = first_guess(label, basis + float(across @ self._start), own, self._scales.trust_in(label))
            self._gram = with_pair(self._gram, place, with_entry(across, place, own))
        else:
            self._gram, start = None, 0.0
        self._events.insert(place, encoded, label, basis)
        self._start, self._fitted = with_entry(self._start, place, start), None

    def correct(self, place: int, label: float) -> None:
        self._events.correct(place, label)
        self._fitted = None

    def remove(self, place: int) -> None:
        if self._gram is not None:
            self._gram = without_pair(self._gram, place)
        self._events.remove(place)
        self._start, self._fitted = without_entry(self._start, place), None

    def settle(self) -> None:
        self._fit()

    def answer(self, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Answer:
        codes = self._scales.layout.unpack(encoded)
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

    def answer_all(self, prepared: PreparedCatalogue, shared: Floats | None) -> Floats:
        fitted = self._fit()
        said = fitted.said_of_all(prepared, shared)
        own = prepared.rows_of(self._events.encoded[:, 0])
        if len(own):
            encoded = prepared.encoded[own] if shared is None else prepared.encoded[own] + shared
            said[own] = self.answer(encoded, deviation=False).residual
        return said

    def spread(self) -> PlusSpread:
        """Of a user with many events, it knows the latest `LONG`: more would need a larger matrix of pairs."""
        latest = slice(-LONG, None)
        codes = self._scales.layout.unpack(self._events.encoded[latest])
        return PlusSpread(self._scales, codes, self._fit().curvature[latest])

    def _fit(self) -> Fitted:
        if self._fitted is None:
            scales, events = self._scales, self._events
            codes = scales.layout.unpack(events.encoded)
            system: Dense | Iterative
            if len(self) > LONG:
                system = Iterative(scales, codes)
            else:
                self._gram = scales.covariance(codes, codes) if self._gram is None else self._gram
                system = Dense(self._gram)
            said = Said(events.labels, events.basis, scales.trust_in(events.labels))
            dual = fit(said, system, self._start, self._steps)
            self._start = dual
            self._fitted = Fitted(scales, codes, said, system, dual)
        return self._fitted
