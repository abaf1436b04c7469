"""The logistic fit of one user: see `resus.model.learners.plus.fit`."""

from dataclasses import dataclass

import numpy as np

from resus.arrays import Doubles
from resus.model.inference.parts import sigmoid
from resus.model.learners.plus.in_numpy.systems import Dense, Iterative
from resus.model.learners.plus.numbers import ARRIVED, FLAT, PARABOLAS, ROUNDING


@dataclass(frozen=True, eq=False)
class Said:
    """The labels of the events, the crowd's logits, and as how many labels each label counts, `[k]` each."""

    labels: Doubles
    basis: Doubles
    trust: Doubles


def fit(events: Said, system: Dense | Iterative, start: Doubles, steps: int) -> Doubles:
    """α `[k]`: see `resus.model.learners.plus.fit`. `start` is the fit to almost the same events, or 0."""
    if not len(start):
        return start
    dual = start if steps > PARABOLAS else np.zeros_like(start)  # a single step would show where it began
    added = system.times(dual)
    parabolas = 0 if dual.any() else min(PARABOLAS, steps)  # a near fit needs none
    for _ in range(parabolas):
        dual, added = _under_parabola(events, system, added)
    height = _height(events, dual, added)
    for _ in range(parabolas, steps):
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


def first_guess(label: float, logit: float, variance: float, trust: float | Doubles) -> float:
    """α of a new event by a Newton step of its own: its logit before it, and the prior variance of what it moves."""
    chance = float(sigmoid(np.array(logit)))
    weight = max(chance * (1 - chance), FLAT) * float(trust)
    return float(trust) * (label - chance) / (1 + weight * variance)


def _under_parabola(events: Said, system: Dense | Iterative, added: Doubles) -> tuple[Doubles, Doubles]:
    size = np.maximum(np.abs(events.basis + added), 1e-4)
    weights = np.tanh(size / 2) / (2 * size)  # ¼ at 0
    dual = system.solve(weights * events.trust, (events.labels - 0.5) / weights - events.basis)
    return dual, system.times(dual)


def _height(events: Said, dual: Doubles, added: Doubles) -> float:
    signed = (2 * events.labels - 1) * (events.basis + added)
    return float((-np.logaddexp(0, -signed) * events.trust - 0.5 * dual * added).sum())
