"""Settings of RESUS+: its learner and the factors that it works on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from resus.errors import ConfigError
from resus.model.encoders.settings import KIND, EmbeddingSettings
from resus.model.learners.settings import KIND as LEARNER_KIND
from resus.model.learners.settings import LearnerSettings

if TYPE_CHECKING:
    from resus.data.fields.feature_map import FeatureMap
    from resus.model.learners.plus.factors import FactorEncoder
    from resus.model.learners.plus.learner import PlusLearner

LARGEST_ID = 1 << 24  # a float32 holds every id up to here


class PlusSettings(LearnerSettings):
    kind: Literal["plus"] = Field(default="plus", description=LEARNER_KIND)
    bias: bool = Field(default=True, description="fit a bias for each user")
    taste: bool = Field(default=True, description="fit each user's taste in what the factors describe")
    repeats: bool = Field(default=True, description="fit what each user did with the same item before")
    steps: int = Field(default=6, ge=1, description="maximum number of weighted ridges in the logistic fit of a user")
    title: ClassVar[str] = "plus"
    recipe: ClassVar[str] = "plus"
    encoder: ClassVar[str | None] = "factors"
    has_beta: ClassVar[bool] = False
    cross_fits: ClassVar[bool] = True
    uses_validation_users: ClassVar[bool] = True

    @model_validator(mode="after")
    def _has_a_part(self) -> Self:
        if not (self.bias or self.taste or self.repeats):
            raise ValueError("learner.kind=plus needs learner.bias, learner.taste or learner.repeats")
        return self

    def build_learner(self, width: int) -> "PlusLearner":  # noqa: ARG002  # its parameters do not depend on the width
        from resus.model.learners.plus.learner import PlusLearner

        return PlusLearner(steps=self.steps, bias=self.bias, taste=self.taste, repeats=self.repeats)

    @classmethod
    def presets(cls, protocol: str) -> Mapping[str, Any]:  # noqa: ARG003  # the same under both protocols
        return {
            "encoder.kind": "factors",
            "encoder.embedding_dim": 32,
            "learner.bias": True,
            "fusion.per_size": False,
            "training.folds": 4,
            "training.batch_size": 4096,
            "training.scalar_learning_rate": 0.05,
        }

    @classmethod
    def model_name(cls, *, shared: bool) -> str:
        return "RESUS+" if shared else "MUS+"


class FactorSettings(EmbeddingSettings):
    kind: Literal["factors"] = Field(default="factors", description=KIND)
    epochs: int = Field(default=10, ge=1, description="maximum number of passes over the data to learn the factors")
    refine: bool = Field(default=True, description="refine the factors by the evidence, without user vectors")
    title: ClassVar[str] = "factors"
    predicts: ClassVar[bool] = False
    learner: ClassVar[str | None] = "plus"

    def architecture(self, features: "FeatureMap") -> "FactorEncoder":
        from resus.model.learners.plus.factors import FactorEncoder

        if features.n_ids > LARGEST_ID:
            raise ConfigError(
                f"learner.kind=plus can tell {LARGEST_ID:,} values apart, and the log has {features.n_ids:,}"
            )
        item = [field.name for field in features.fields].index(features.item)
        return FactorEncoder(**self.embeddings(features), item=item, unknown_item=features.first_ids[item])
