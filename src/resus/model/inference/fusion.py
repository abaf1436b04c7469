"""β of a trained model, by the number of events: see `resus.model.fusion`."""

from dataclasses import dataclass, replace

import numpy as np

from resus.arrays import Doubles, Floats
from resus.model.inference.parts import Answer, Sample, Spread, Weights

NUMBER_OF_EVENTS = "number of events"  # the cause of what β's bias adds


@dataclass(frozen=True, eq=False)
class TrainedFusion:
    """One entry of `scale` and `bias` per support size from 1 on, or a single one for all sizes."""

    scale: Doubles
    bias: Doubles | None
    nearest: float  # c of the curve k / (k + c) that the scale follows beyond its last entry

    @classmethod
    def of(cls, weights: Weights) -> "TrainedFusion":
        steps = weights.get("parametrizations.scale.original")
        scale = np.cumsum(np.logaddexp(0, steps)) if steps is not None else weights["scale"]
        bias = weights.get("bias")
        scale = scale.astype(np.float64)
        return cls(scale, None if bias is None else bias.astype(np.float64), _nearest_curve(scale))

    def line(self, events: int) -> tuple[float, float]:
        """Slope and constant of what so many events add to a logit: residual → slope · residual + constant."""
        if not events:
            return 0.0, 0.0
        last = len(self.scale)
        slope = float(self.scale[min(events, last) - 1])
        if events > last > 1:
            slope *= events * (last + self.nearest) / (last * (events + self.nearest))
        return slope, 0.0 if self.bias is None else float(self.bias[min(events, last) - 1])

    def of_answer(self, answer: Answer, events: int) -> Answer:
        """What an answer of so many events becomes after fusion."""
        if not events:
            return answer
        slope, constant = (np.float32(number) for number in self.line(events))
        residual = answer.residual * slope + constant
        deviation = None if answer.deviation is None else answer.deviation * abs(slope)
        if answer.explanation is None:
            return Answer(residual, deviation)
        parts = answer.explanation.parts
        if answer.explanation.leave_one_out:  # the answer without the event has one event less, and so another β
            before, start = (np.float32(number) for number in self.line(events - 1))
            parts = residual[:, None] - ((answer.residual[:, None] - parts) * before + start)
        else:
            parts = parts * slope + constant / events
        causes = {name: part * slope for name, part in answer.explanation.causes.items()}
        if causes and self.bias is not None:
            causes[NUMBER_OF_EVENTS] = np.full_like(residual, constant)
        return Answer(residual, deviation, replace(answer.explanation, parts=parts, causes=causes))


class Stretched(Spread):
    """The spread of residuals that fusion multiplies by a factor."""

    def __init__(self, spread: Spread, factor: float) -> None:
        self._spread, self._factor = spread, np.float32(factor)

    def deviation(self, encoded: Floats) -> Floats:
        return self._spread.deviation(encoded) * abs(self._factor)

    def sample(self, seed: int, draws: int) -> Sample:
        drawn = self._spread.sample(seed, draws)
        return lambda encoded: drawn(encoded) * self._factor


def _nearest_curve(scale: Doubles) -> float:
    shrinkage = np.arange(len(scale) + 1.0)
    trained = np.arange(1.0, len(scale) + 1)
    curves = trained / (trained + shrinkage[:, None])  # [c, k]
    heights = (curves @ scale) / np.square(curves).sum(axis=1)
    misses = np.square(heights[:, None] * curves - scale).sum(axis=1)
    return float(shrinkage[misses.argmin()])
