"""Shared predictors Ψ and their settings. To add one: `PREDICTORS.add(MySettings)`.

Torch is imported only to build one.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args

from pydantic import Field, create_model

from resus.checking import Registry, Settings
from resus.errors import ConfigError
from resus.model.encoders import ENCODERS, EncoderSettings, NetworkSettings
from resus.spaces import LEARNING_RATE, OneOf, Real, Space, Whole
from resus.wording import advice

if TYPE_CHECKING:
    from resus.data.fields.feature_map import FeatureMap
    from resus.model.inference.parts import RowPredictor, Weights
    from resus.model.predictors.base import Predictor

Scale = Literal["logits", "probabilities"]
SCALES = get_args(Scale)
MOST_MEMBERS = 100  # of a mean of predictors
KIND = "lr, fm, wide-deep, deepfm, xdeepfm, lightgbm, none (MUS), logits:COLUMN or probabilities:COLUMN"


class PredictorSettings(Settings):
    """Ψ, the same for every user."""

    kind: str
    title: ClassVar[str]  # as tables call it
    absent: ClassVar[bool] = False  # there is no shared model
    trainable: ClassVar[bool] = True  # resus trains it, and can do so again without some of the users
    extra: ClassVar[str] = ""  # of resus, that it needs

    @property
    def name(self) -> str:
        """As tables call it."""
        return self.title

    @property
    def slug(self) -> str:
        """As folders call it."""
        return self.kind

    @property
    def joint(self) -> bool:
        """Whether it is trained together with the rest of the model."""
        return False

    @property
    def score_column(self) -> str:
        """The numeric field that is this predictor, so that every row must have it; "" if there is none."""
        return ""

    @property
    def logit_column(self) -> str:
        """The same, if it holds logits."""
        return ""

    @abstractmethod
    def build_predictor(self, features: "FeatureMap") -> "Predictor":
        """A predictor for the fields of a log, not trained yet."""

    def predictor_in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowPredictor | None":  # noqa: ARG002  # by default there is none
        """The trained predictor without torch, for the service; None if torch must run it."""
        return None


class GradientSettings(Settings):
    """How a network is trained."""

    learning_rate: float = Field(default=1e-3, gt=0, description="learning rate of Adam")
    batch_size: int = Field(default=1024, ge=1, description="rows of a batch")
    epochs: int = Field(default=10, ge=1, description="maximum number of passes over the data")
    patience: int = Field(default=2, ge=1, description="stop after this many epochs without a better validation AUC")
    space: ClassVar[Mapping[str, Space]] = {"learning_rate": LEARNING_RATE, "batch_size": OneOf((256, 1024, 4096))}


class NeuralPredictorSettings(PredictorSettings, GradientSettings, NetworkSettings):
    """An architecture with a linear output; `neural_settings` adds the keys of the architecture."""

    embedding_std: float = Field(default=0.01, gt=0, description="standard deviation of the initial embeddings")
    pretrain: bool = Field(default=True, description="train the shared model first; false: jointly with the rest")

    @property
    def joint(self) -> bool:
        return not self.pretrain

    def build_predictor(self, features: "FeatureMap") -> "Predictor":
        from resus.model.predictors.base import NeuralPredictor

        return NeuralPredictor(self.build_encoder(features))

    def predictor_in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowPredictor | None":
        from resus.model.inference.model import part_of
        from resus.model.predictors.in_numpy import NetworkInNumpy

        encoder = self.in_numpy(features, part_of(weights, "encoder"))
        return None if encoder is None else NetworkInNumpy(encoder, weights)


@cache
def neural_settings(architecture: type[EncoderSettings]) -> type[NeuralPredictorSettings]:
    """The settings of an architecture as a predictor: its own keys, and how it is trained."""
    kind = architecture.model_fields["kind"].default
    name = architecture.__name__.removesuffix("Settings") + "PredictorSettings"
    fields: dict[str, Any] = {"kind": (Literal[kind], Field(default=kind, description=KIND))}
    made = create_model(name, __base__=(NeuralPredictorSettings, architecture), **fields)
    return cast("type[NeuralPredictorSettings]", made)


class LightGBMSettings(PredictorSettings):
    kind: Literal["lightgbm"] = Field(default="lightgbm", description=KIND)
    rounds: int = Field(default=500, ge=1, description="maximum number of trees")
    num_leaves: int = Field(default=63, ge=2, description="leaves of a tree")
    boosting_patience: int = Field(default=20, ge=1, description="stop after this many trees without a better AUC")
    boosting_rate: float = Field(default=0.1, gt=0, description="shrinkage of each tree")
    title: ClassVar[str] = "LightGBM"
    space: ClassVar[Mapping[str, Space]] = {"num_leaves": Whole(7, 255), "boosting_rate": Real(0.02, 0.3)}
    extra: ClassVar[str] = "trees"

    def build_predictor(self, features: "FeatureMap") -> "Predictor":
        from resus.model.predictors.gradient_boosting import GradientBoosting

        return GradientBoosting(
            features,
            learning_rate=self.boosting_rate,
            rounds=self.rounds,
            num_leaves=self.num_leaves,
            patience=self.boosting_patience,
        )

    def predictor_in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowPredictor":
        from resus.model.predictors.in_numpy import BoosterInNumpy

        return BoosterInNumpy(features, weights)


class NoPredictorSettings(PredictorSettings):
    kind: Literal["none"] = Field(default="none", description=KIND)
    title: ClassVar[str] = "no predictor"
    absent: ClassVar[bool] = True
    trainable: ClassVar[bool] = False

    def build_predictor(self, features: "FeatureMap") -> "Predictor":  # noqa: ARG002  # it looks at no field
        from resus.model.predictors.base import NoPredictor

        return NoPredictor()

    def predictor_in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowPredictor":  # noqa: ARG002
        from resus.model.predictors.in_numpy import NoPredictorInNumpy

        return NoPredictorInNumpy()


class ExternalSettings(PredictorSettings):
    """A model of the user's own. Whether it knows the training users, resus cannot tell."""

    kind: Literal["external"] = Field(default="external", description=KIND)
    column: str = Field(min_length=1, description="the numeric field that holds the score of your model")
    scale: Scale = Field(default="logits", description="what the column holds")
    title: ClassVar[str] = "a model of your own"
    trainable: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.column

    @property
    def slug(self) -> str:
        return self.column

    @property
    def score_column(self) -> str:
        return self.column

    @property
    def logit_column(self) -> str:
        return self.column if self.scale == "logits" else ""

    def build_predictor(self, features: "FeatureMap") -> "Predictor":
        from resus.model.predictors.external import ExternalPredictor

        return ExternalPredictor(features, column=self.column, scale=self.scale)

    def predictor_in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowPredictor":  # noqa: ARG002
        from resus.model.predictors.in_numpy import ExternalInNumpy

        return ExternalInNumpy(features, column=self.column, scale=self.scale)


def expanded(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What `logits:COLUMN` or `probabilities:COLUMN` as the kind of a predictor stands for, by dotted keys."""
    kind = str(chosen.get("predictor.kind", ""))
    scale, colon, column = kind.partition(":")
    if kind in SCALES or (kind == "external" and not chosen.get("predictor.column")):
        raise ConfigError(
            f"the predictor '{kind}' does not name the column that holds the score of your model: write logits:COLUMN "
            "or probabilities:COLUMN"
        )
    if not colon and "." in kind:
        raise ConfigError(
            f"the predictor '{kind}' looks like a file: "
            + advice(
                python=f"give Path('{kind}')",
                command=f"let it score the table with 'resus prepare --score-with {kind}'",
            )
        )
    if not colon:
        return {}
    if scale not in SCALES or not column:
        raise ConfigError(f"unknown predictor '{kind}'; use logits:COLUMN or probabilities:COLUMN")
    meant = {"predictor.kind": "external", "predictor.scale": scale, "predictor.column": column}
    for key in ("predictor.scale", "predictor.column"):
        if chosen.get(key, meant[key]) != meant[key]:
            raise ConfigError(f"the predictor is '{kind}', and {key} is '{chosen[key]}': leave one of them out")
    return meant


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
