"""Trained shared models Ψ without torch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from resus.arrays import Doubles, Floats
from resus.data.fields.feature_map import FeatureMap
from resus.errors import ArtifactError, RowError
from resus.external.probabilities import logits_of_column
from resus.extras import need
from resus.model.inference.parts import RowEncoder, RowPredictor, Rows, Weights
from resus.model.predictors import Scale

if TYPE_CHECKING:
    import lightgbm  # at run time only where it is used: it imports scikit-learn, SciPy and pandas

MEMBER = "member"


class NetworkInNumpy(RowPredictor):
    """An architecture with a linear output."""

    def __init__(self, encoder: RowEncoder, weights: Weights) -> None:
        self._encoder = encoder
        self._weight, self._bias = weights["output.weight"][0], weights["output.bias"][0]

    def __call__(self, rows: Rows) -> Floats:
        logits: Floats = self._encoder(rows) @ self._weight
        logits += self._bias
        return logits

    def check(self, rows: Rows) -> None:
        """It scores every row."""


class NoPredictorInNumpy(RowPredictor):
    def __call__(self, rows: Rows) -> Floats:
        return np.zeros(rows.length, dtype=np.float32)

    def check(self, rows: Rows) -> None:
        """It scores every row."""


class ExternalInNumpy(RowPredictor):
    """The value of a column: a logit, or a probability turned into one."""

    def __init__(self, features: FeatureMap, *, column: str, scale: Scale) -> None:
        self._block = features.block(column)
        self._column, self._scale = column, scale

    def __call__(self, rows: Rows) -> Floats:
        return self._values(rows).astype(np.float32)

    def check(self, rows: Rows) -> None:
        self._values(rows)

    def _values(self, rows: Rows) -> Doubles:
        ids, weights = self._block.of(rows.ids, rows.weights)
        assert weights is not None, "a numeric field has weights"
        values = self._block.field.numbers(ids, weights)
        absent = np.flatnonzero(np.isnan(values))
        if len(absent):
            raise RowError(int(absent[0]), self._column, "the value is missing", "it is the shared model: fill it in")
        return values if self._scale == "logits" else logits_of_column(values, self._column)


class BoosterInNumpy(RowPredictor):
    """LightGBM."""

    def __init__(self, features: FeatureMap, weights: Weights) -> None:
        self._features = features
        self._booster = read_booster(weights)

    def __call__(self, rows: Rows) -> Floats:
        return np.asarray(self._booster.predict(self._features.tree_matrix(*rows), raw_score=True), dtype=np.float32)

    def check(self, rows: Rows) -> None:
        """It scores every row."""


class MeanInNumpy(RowPredictor):
    """The mean of several, such as those that cross-fitting trains on different users."""

    def __init__(self, members: Sequence[RowPredictor]) -> None:
        self.members = members

    def __call__(self, rows: Rows) -> Floats:
        mean: Floats = np.mean([member(rows) for member in self.members], axis=0)
        return mean

    def check(self, rows: Rows) -> None:
        for member in self.members:
            member.check(rows)


def read_booster(weights: Weights) -> "lightgbm.Booster":
    """The booster that a state holds as text."""
    need("trees", "a LightGBM model")
    import lightgbm

    try:
        text = np.asarray(weights["booster"]).tobytes().decode()
        if "\nend of trees\n" not in text:  # LightGBM kills the process on truncated trees
            raise ValueError("it is truncated")
        return lightgbm.Booster(model_str=text)
    except (KeyError, ValueError, lightgbm.basic.LightGBMError) as error:
        raise ArtifactError(f"the LightGBM model in the artifact cannot be read ({error}): train it again") from None
