"""Someone else's model as Ψ: its score of a row is a numeric field of the row."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Doubles
from resus.data.fields.feature_map import FeatureMap
from resus.episodes.tensors import Features
from resus.errors import ConfigError
from resus.external.probabilities import logits_of_column
from resus.external.scoring_model import RowError
from resus.model.predictors.base import Predictor

Scale = Literal["logits", "probabilities"]


class ExternalPredictor(Predictor):
    """Ψ(x) is the value of a column: a logit, or a probability turned into one. There is nothing to learn."""

    def __init__(self, features: FeatureMap, *, column: str, scale: Scale) -> None:
        self.column, self.scale = column, scale
        place = 0
        for field, first in zip(features.fields, features.first_ids, strict=True):
            if field.name == column and field.kind == "numeric":
                self.place, self._missing = place, first
                self._center, self._spread = field.center, field.scale
                return
            place += field.columns
        raise ConfigError(_no_number(features, column, scale))

    def logits(self, features: Features) -> Tensor:
        """RowError where a row has no number in the column, or no probability."""
        return torch.from_numpy(self._values(features).astype(np.float32))

    def check(self, features: Features) -> None:
        self._values(features)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        assert not state_dict

    def _values(self, features: Features) -> Doubles:
        assert features.weights is not None, "a numeric field has weights"
        absent = np.flatnonzero(features.ids[:, self.place].numpy() == self._missing)
        if len(absent):
            raise RowError(int(absent[0]), self.column, "the value is missing", "it is the shared model: fill it in")
        values = features.weights[:, self.place].numpy().astype(np.float64) * self._spread + self._center
        return values if self.scale == "logits" else logits_of_column(values, self.column)


def _no_number(features: FeatureMap, column: str, scale: Scale) -> str:
    kinds: dict[str, Any] = {field.name: field.kind for field in features.fields}
    numeric = [name for name, kind in kinds.items() if kind == "numeric"]
    known = f"numeric are {', '.join(numeric)}" if numeric else "none of its fields is numeric"
    declare = f"write '{column}: numeric' under 'fields' of the schema and prepare again"
    if column not in kinds:
        return f"the predictor '{scale}:{column}' needs '{column}' as a numeric field of the log ({known}): {declare}"
    fix = "name a numeric one" + (f", or, if it holds numbers, {declare}" if column != features.item else "")
    return f"the predictor '{scale}:{column}' needs a numeric field, and '{column}' is {kinds[column]} ({known}): {fix}"
