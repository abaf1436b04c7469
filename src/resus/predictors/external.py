"""Someone else's model as Ψ: what it says of a row is a numeric field of the row."""

from typing import Literal

import torch
from torch import Tensor

from resus.data.features import FeatureMap
from resus.episodes.tensors import Features
from resus.errors import ConfigError
from resus.external.probabilities import SURE
from resus.external.scoring_model import RowError

Scale = Literal["logits", "probabilities"]


class ExternalPredictor:
    """Ψ(x) is the value of a column, a logit or the logit of a probability; there is nothing of it to learn."""

    def __init__(self, features: FeatureMap, *, column: str, scale: Scale) -> None:
        place, found = 0, None
        for field, first in zip(features.fields, features.first_ids, strict=True):
            if field.name == column:
                found = field, first
                break
            place += field.columns
        if found is None or found[0].kind != "numeric":
            numeric = [field.name for field in features.fields if field.kind == "numeric"]
            known = f"numeric are {', '.join(numeric)}" if numeric else "none of its fields is numeric"
            raise ConfigError(
                f"the predictor '{scale}:{column}' needs '{column}' as a numeric field of the log ({known}): "
                f"write '{column}: numeric' under 'fields' of the schema and prepare again"
            )
        self._column, self._scale, self._place = column, scale, place
        self._missing, self._center, self._spread = found[1], found[0].center, found[0].scale

    def logits(self, features: Features) -> Tensor:
        assert features.weights is not None, "a numeric field has weights"
        absent = features.ids[:, self._place] == self._missing
        if bool(absent.any()):
            raise RowError(int(absent.nonzero()[0]), self._column, "the value is missing", "it is Ψ: fill it in")
        values = features.weights[:, self._place].double() * self._spread + self._center
        if self._scale == "probabilities":
            values = torch.logit(values, eps=SURE)
        return values.float()

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        assert not state
