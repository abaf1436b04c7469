"""Shared predictors Ψ: one logit for a row, the same for every user. To add one: `PREDICTORS.add(MySettings)`."""

from collections.abc import Iterator

from resus.checking import Registry
from resus.model.encoders import ENCODERS
from resus.model.predictors.settings import (
    ExternalSettings,
    LightGBMSettings,
    NoPredictorSettings,
    PredictorSettings,
    neural_settings,
)


class _Predictors(Registry[PredictorSettings]):
    """Every architecture that `ENCODERS` holds is a predictor too."""

    def __getitem__(self, kind: str) -> type[PredictorSettings]:
        return neural_settings(ENCODERS[kind]) if self.is_architecture(kind) else super().__getitem__(kind)

    def __contains__(self, kind: object) -> bool:
        return super().__contains__(kind) or self.is_architecture(kind)

    def __iter__(self) -> Iterator[str]:
        yield from (kind for kind in ENCODERS if self.is_architecture(kind))
        yield from super().__iter__()

    @staticmethod
    def is_architecture(kind: object) -> bool:
        """Whether it is an encoder with a linear output."""
        return kind in ENCODERS and ENCODERS[str(kind)].predicts


PREDICTORS = _Predictors("predictor", LightGBMSettings, NoPredictorSettings, ExternalSettings, default="deepfm")
