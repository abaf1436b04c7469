"""Someone else's model as Ψ: its score of a row is a numeric field of the row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Doubles
from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.errors import ConfigError, RowError
from resus.external.probabilities import logits_of_column
from resus.model.predictors import Scale
from resus.model.predictors.base import Predictor


class ExternalPredictor(Predictor):
    """Ψ(x) is the value of a column: a logit, or a probability turned into one. There is nothing to learn."""

    def __init__(self, features: FeatureMap, *, column: str, scale: Scale) -> None:
        self.column, self.scale = column, scale
        found = [block for block in features.blocks if block.field.name == column and block.field.is_number]
        if not found:
            raise ConfigError(_no_number(features, column, scale))
        self._block = found[0]
        if not self._block.field.tells_missing:
            raise ConfigError(
                f"the predictor '{scale}:{column}' cannot tell a missing score of '{column}' from the number 0: set "
                "'missing' of this field to refuse and prepare again"
            )

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
        ids, weights = self._block.of(features.ids.numpy(), features.weights.numpy())
        assert weights is not None
        values = self._block.field.numbers(ids, weights)
        absent = np.flatnonzero(np.isnan(values))
        if len(absent):
            raise RowError(int(absent[0]), self.column, "the value is missing", "it is the shared model: fill it in")
        return values if self.scale == "logits" else logits_of_column(values, self.column)


def _no_number(features: FeatureMap, column: str, scale: Scale) -> str:
    kinds: dict[str, Any] = {field.name: field.kind for field in features.fields}
    numeric = [field.name for field in features.fields if field.is_number]
    known = f"numeric are {', '.join(numeric)}" if numeric else "none of its fields is numeric"
    declare = f"write '{column}: numeric' under 'fields' of the schema and prepare again"
    if column not in kinds:
        return f"the predictor '{scale}:{column}' needs '{column}' as a numeric field of the log ({known}): {declare}"
    fix = "name a numeric one" + (f", or, if it holds numbers, {declare}" if column != features.item else "")
    return f"the predictor '{scale}:{column}' needs a numeric field, and '{column}' is {kinds[column]} ({known}): {fix}"
