"""An architecture: the sum of the vectors of all fields."""

from typing import ClassVar, Literal

from torch import Tensor

from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.model.encoders import EncoderSettings
from resus.model.encoders.base import Encoder, FieldEmbedding


class SumOfFields(Encoder):
    """`width` is the length of the vectors that `forward` returns."""

    def __init__(self, features: FeatureMap, width: int = 4) -> None:
        super().__init__()
        self.embedding = FieldEmbedding(features.n_ids, features.column_counts, width, std=0.1)
        self.width = width

    def forward(self, features: Features) -> Tensor:
        """N rows → `[N, K]`."""
        vectors: Tensor = self.embedding(features)
        return vectors.sum(dim=1)


class SumOfFieldsSettings(EncoderSettings):
    kind: Literal["sum-of-fields"] = "sum-of-fields"
    width: int = 4
    title: ClassVar[str] = "sum of fields"

    def architecture(self, features: FeatureMap) -> SumOfFields:
        return SumOfFields(features, self.width)
