"""A trained model for live users: Ψ, Φ, Λ and β put together, without torch wherever each part can do without."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from resus.arrays import Array, Doubles, Floats
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.data.negatives.support import NegativeItems
from resus.model.inference.drawn import DrawnSupport
from resus.model.inference.fusion import Stretched, TrainedFusion
from resus.model.inference.parts import (
    Answer,
    Crowd,
    Explanation,
    LiveLearner,
    RowEncoder,
    RowPredictor,
    Rows,
    Spread,
    Weights,
    sigmoid,
)
from resus.model.predictors.in_numpy import MEMBER, MeanInNumpy


@dataclass(frozen=True, eq=False)
class Scores:
    """For N candidates: P(click) = σ(basis + residual)."""

    basis: Floats  # [N]
    residual: Floats  # [N]
    deviation: Floats | None  # [N], of the residual
    explanation: Explanation | None  # of the residual, if it was asked for

    @property
    def probability(self) -> Floats:
        probability: Floats = sigmoid(self.basis + self.residual)
        return probability


@dataclass(frozen=True, eq=False)
class Inference:
    """ŷ = σ(Ψ(x) + β·Δŷ). It never changes, so threads may share it."""

    predictor: RowPredictor
    encoder: RowEncoder
    learner: LiveLearner
    fusion: TrainedFusion
    negatives: NegativeItems | None = None  # to draw for users whose events are all positive

    @classmethod
    def of(cls, config: Config, features: FeatureMap, weights: Weights) -> "Inference | None":
        """From the settings and weights of an artifact; None if one of the parts runs only in torch."""
        model = part_of(weights, "model")
        predictor = _predictor(config, features, part_of(weights, "predictor"))
        encoder = config.encoder.in_numpy(features, part_of(model, "encoder"))
        if predictor is None or encoder is None:
            return None
        learner = config.learner.live_learner(encoder, part_of(model, "learner"))
        return None if learner is None else cls(predictor, encoder, learner, TrainedFusion.of(part_of(model, "fusion")))

    def encode(self, rows: Rows) -> Crowd:
        """What the crowd says about N rows `[N]`, and the rows as the learner sees them `[N, K]`."""
        encoded = self.encoder(rows)
        return self.learner.crowd(self.predictor(rows), encoded), encoded

    def live_support(self) -> "LiveSupport":
        """A live user without events."""
        return LiveSupport(self)


class LiveSupport:
    """The events of one live user, the oldest first.

    After any sequence of changes the scores are those that the model gives offline for the same support. Its length
    counts the drawn negatives, too.
    """

    def __init__(self, model: Inference) -> None:
        self._model = model
        self._state = model.learner.state()
        self._drawn = None if model.negatives is None else DrawnSupport.empty(model.negatives)

    def __len__(self) -> int:
        return len(self._state)

    @property
    def nbytes(self) -> int:
        return self._state.nbytes + (0 if self._drawn is None else self._drawn.nbytes)

    def fill(self, events: Rows, labels: Doubles) -> None:
        """Replace all events."""
        if self._drawn is not None:
            self._follow(self._drawn, self._drawn.filled(events, labels))
            return
        crowd, encoded = self._model.encode(events)
        self._state.fill(encoded, labels, crowd.astype(np.float64))

    def insert(
        self, place: int, event: Rows, label: float, *, drop_oldest: bool = False, encoded: Crowd | None = None
    ) -> None:
        """Add an event, one row, at a place among the events; an event without a logit is refused and changes nothing.

        With `drop_oldest` the first event goes first. `encoded` is what `encode` gives for the row, if it is known.
        """
        if self._drawn is not None:
            self._follow(self._drawn, self._drawn.inserted(place, event, label, drop_oldest=drop_oldest))
            return
        crowd, code = self._model.encode(event) if encoded is None else encoded
        if drop_oldest:
            self.remove(0)
            place -= 1
        self._state.insert(place, code[0], label, float(crowd[0]))

    def correct(self, place: int, label: float) -> None:
        """Replace the label of an event."""
        if self._drawn is not None:
            self._follow(self._drawn, self._drawn.corrected(place, label))
            return
        self._state.correct(place, label)

    def remove(self, place: int) -> None:
        if self._drawn is not None:
            self._follow(self._drawn, self._drawn.removed(place))
            return
        self._state.remove(place)

    def settle(self) -> None:
        """Compute now what all answers share until the next change."""
        self._state.settle()

    def _follow(self, old: DrawnSupport, new: DrawnSupport) -> None:
        """Change the rows of the support to those of other events."""
        change = old.change_to(new)
        if not change.is_small:
            basis, rows = self._model.encode(change.rows)
            self._state.fill(rows, change.labels, basis.astype(np.float64))
        else:
            added = self._model.encode(change.rows.take(change.inserted)) if len(change.inserted) else None
            for place in change.removed.tolist():
                self._state.remove(place)
            for place, crowd, encoded in zip(change.inserted.tolist(), *(added or ((), ())), strict=True):
                self._state.insert(place, encoded, float(change.labels[place]), float(crowd))
            for place in change.relabelled.tolist():
                self._state.correct(place, float(change.labels[place]))
        self._drawn = new

    def score(self, candidates: Rows, *, deviation: bool = True, explain: bool = False) -> Scores:
        return self.score_encoded(*self._model.encode(candidates), deviation=deviation, explain=explain)

    def score_encoded(self, crowd: Floats, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Scores:
        """Without events the answer is the crowd's; a learner with a posterior says how much users deviate from it."""
        model = self._model
        answer = Answer.without_events(len(crowd), explain=explain)
        if len(self) or (model.learner.has_posterior and (deviation or explain)):
            found = self._state.answer(encoded, deviation=deviation, explain=explain)
            answer = model.fusion.of_answer(found, len(self))
        explanation = answer.explanation
        if explanation is not None and self._drawn is not None:
            explanation = replace(explanation, parts=self._drawn.by_event(explanation.parts))
        return Scores(crowd, answer.residual, answer.deviation, explanation)

    def spread(self) -> Spread | None:
        """How far the truth may be from the residuals of `score`; None if the learner cannot draw from a posterior."""
        found = self._state.spread()
        slope = self._model.fusion.line(len(self))[0] if len(self) else 1.0
        return found if found is None or slope == 1 else Stretched(found, slope)

    def score_all(self, crowd: Floats, prepared: Any, shared: Floats | None) -> Floats:
        """The residuals of a whole catalogue, as `LiveLearner.prepare` made it."""
        if not len(self):
            return np.zeros_like(crowd)
        slope, constant = (np.float32(number) for number in self._model.fusion.line(len(self)))
        residual: Floats = self._state.answer_all(prepared, shared) * slope + constant
        return residual


def part_of(weights: Weights, name: str) -> dict[str, Array]:
    """The weights of one part, by the names within it."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}


def _predictor(config: Config, features: FeatureMap, weights: Mapping[str, Array]) -> RowPredictor | None:
    """A single predictor, or the mean of several."""
    numbers = sorted({name.partition(".")[0] for name in weights if name.startswith(MEMBER)})
    if not numbers:
        return config.predictor.predictor_in_numpy(features, weights)
    members = [config.predictor.predictor_in_numpy(features, part_of(weights, number)) for number in numbers]
    found = [member for member in members if member is not None]
    return MeanInNumpy(found) if len(found) == len(members) else None
