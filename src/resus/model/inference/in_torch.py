"""A model with a part that only torch can run, such as an encoder or a learner of the user's own, for live users."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Doubles, Floats
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.model.inference.fusion import TrainedFusion
from resus.model.inference.model import Inference
from resus.model.inference.parts import (
    Answer,
    EventRows,
    Explanation,
    LiveLearner,
    LiveState,
    RowEncoder,
    RowPredictor,
    Rows,
)
from resus.model.learners.base import Learner
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor


def inference_in_torch(model: Personalizer) -> Inference:
    """The whole model in torch, behind the interface of the service."""
    torch.set_num_threads(1)  # spinning threads on busy cores make the slowest requests much slower
    return Inference(
        _Predictor(model.predictor),
        _Encoder(model.encoder, model.encoder.width),
        _Learner(model.learner, model.encoder.width),
        TrainedFusion.of({name: value.numpy() for name, value in model.fusion.state_dict().items()}),
    )


def inference_of(config: Config, features: FeatureMap, model: Personalizer) -> Inference:
    """The same as a model in memory: in numpy if each of its parts can do without torch."""
    weights = {f"predictor.{name}": value.numpy() for name, value in model.predictor.state_dict().items()}
    weights |= {f"model.{name}": value.numpy() for name, value in model.state_dict().items()}
    return Inference.of(config, features, weights) or inference_in_torch(model)


class _Predictor(RowPredictor):
    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def __call__(self, rows: Rows) -> Floats:
        logits: Floats = _array(self._predictor.logits(Features.of(*rows)))
        return logits

    def check(self, rows: Rows) -> None:
        self._predictor.check(Features.of(*rows))


class _Encoder(RowEncoder):
    def __init__(self, encoder: Callable[[Features], Tensor], width: int) -> None:
        self._encoder, self.width = encoder, width

    @torch.no_grad()
    def __call__(self, rows: Rows) -> Floats:
        encoded: Floats = _array(self._encoder(Features.of(*rows)))
        return encoded


class _Learner(LiveLearner):
    def __init__(self, learner: Learner, width: int) -> None:
        self.learner, self.width = learner, width
        self.has_posterior = learner.has_posterior  # type: ignore[misc]  # of the learner that it wraps

    @torch.no_grad()
    def crowd(self, basis: Floats, encoded: Floats) -> Floats:
        crowd: Floats = _array(self.learner.crowd(torch.from_numpy(basis), torch.from_numpy(encoded)))
        return crowd

    def state(self) -> "_State":
        return _State(self)


class _State(LiveState):
    """Keeps the events, and hands them to the learner's own live state when it must answer."""

    def __init__(self, learner: _Learner) -> None:
        self._learner = learner.learner
        self._width = learner.width
        self._events = EventRows(learner.width)
        self._answering: Any = None

    def __len__(self) -> int:
        return len(self._events)

    @property
    def nbytes(self) -> int:
        return 2 * self._events.nbytes

    def fill(self, encoded: Floats, labels: Doubles, basis: Doubles) -> None:
        self._events.fill(encoded, labels, basis)
        self._answering = None

    def insert(self, place: int, encoded: Floats, label: float, basis: float) -> None:
        self._events.insert(place, encoded, label, basis)
        self._answering = None

    def correct(self, place: int, label: float) -> None:
        self._events.correct(place, label)
        self._answering = None

    def remove(self, place: int) -> None:
        self._events.remove(place)
        self._answering = None

    @torch.no_grad()
    def answer(self, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Answer:  # noqa: ARG002
        if self._answering is None:
            self._answering = self._learner.live_state(self._width)
            labels, basis = (torch.from_numpy(part).float() for part in (self._events.labels, self._events.basis))
            self._answering.fill(torch.from_numpy(self._events.encoded), self._learner.outcomes(labels, basis))
        found = self._answering.answer(torch.from_numpy(encoded), explain=explain)
        explanation = None
        if found.explanation is not None:
            causes = {cause: _array(part) for cause, part in found.explanation.causes.items()}
            parts = _array(found.explanation.parts)
            explanation = Explanation(parts, causes, found.explanation.leave_one_out)
        return Answer(_array(found.residual), _array(found.deviation), explanation)


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else np.asarray(tensor.detach().numpy(), dtype=np.float32)
