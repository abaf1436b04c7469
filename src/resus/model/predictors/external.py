"""Someone else's model as Ψ: what it says of a row is a numeric field of the row."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from resus.arrays import Doubles
from resus.data.fields.feature_map import FeatureMap
from resus.episodes.tensors import Features
from resus.errors import ConfigError, RowError
from resus.external.probabilities import logits_of_column

Scale = Literal["logits", "probabilities"]


class ExternalPredictor:
    """Ψ(x) is the value of a column, a logit or the logit of a probability; there is nothing of it to learn."""

    def __init__(self, features: FeatureMap, *, column: str, scale: Scale) -> None:
        self.column, self.scale = column, scale
        found = [block for block in features.blocks if block.field.name == column and block.field.is_number]
        if not found:
            raise ConfigError(_no_number(features, column, scale))
        self._block = found[0]
        self.place = self._block.columns.start

    def logits(self, features: Features) -> Tensor:
        assert features.weights is not None, "a numeric field has weights"
        said = self.logits_of(features.ids[:, self.place].numpy(), features.weights[:, self.place].numpy())
        return torch.from_numpy(said.astype(np.float32))

    def logits_of(self, ids: npt.NDArray[np.int32], weights: npt.NDArray[np.float32]) -> Doubles:
        """The same of the column's own ids and weights; RowError where a row has no number there, or no probability."""
        values = self._block.field.numbers(ids - self._block.first, weights)
        absent = np.flatnonzero(np.isnan(values))
        if len(absent):
            raise RowError(int(absent[0]), self.column, "the value is missing", "it is Ψ: fill it in")
        return values if self.scale == "logits" else logits_of_column(values, self.column)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        assert not state


def _no_number(features: FeatureMap, column: str, scale: Scale) -> str:
    kinds: dict[str, Any] = {field.name: field.kind for field in features.fields}
    numeric = [field.name for field in features.fields if field.is_number]
    known = f"numeric are {', '.join(numeric)}" if numeric else "none of its fields is numeric"
    declare = f"write '{column}: numeric' under 'fields' of the schema and prepare again"
    if column not in kinds:
        return f"the predictor '{scale}:{column}' needs '{column}' as a numeric field of the log ({known}): {declare}"
    fix = "name a numeric one" + (f", or, if it holds numbers, {declare}" if column != features.item else "")
    return f"the predictor '{scale}:{column}' needs a numeric field, and '{column}' is {kinds[column]} ({known}): {fix}"
