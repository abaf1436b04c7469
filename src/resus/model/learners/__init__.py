"""Base-learners Λ and their settings. To add one: `LEARNERS.add(MySettings)`; torch is imported only to build one."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from resus.checking import Registry, Settings
from resus.errors import ConfigError
from resus.model.encoders import ENCODERS, EmbeddingSettings
from resus.model.encoders import KIND as ENCODER_KIND
from resus.spaces import LEARNING_RATE, OneOf, Real, Space, Whole

if TYPE_CHECKING:
    from resus.data.fields.feature_map import FeatureMap
    from resus.model.encoders.base import Encoder
    from resus.model.inference.parts import LiveLearner, RowEncoder, Weights
    from resus.model.learners.base import Learner

KIND = "ridge (RESUS-RR), nearest (RESUS-NN) or plus (RESUS+)"
LARGEST_ID = 1 << 24  # a float32 holds every id up to here: RESUS+ works on them


class LearnerSettings(Settings):
    """Λ, which fits one user."""

    kind: str
    title: ClassVar[str]  # RESUS-<title> in tables
    recipe: ClassVar[str] = "paper"  # in training/recipes
    encoder: ClassVar[str | None] = None  # the only kind of encoder that it works on
    has_beta: ClassVar[bool] = True  # fusion learns a scale of its answers
    cross_fits: ClassVar[bool] = False  # its training users may get logits of predictors that never saw them
    training_space: ClassVar[Mapping[str, Space]] = {}  # what a search may try for keys of `training`
    uses_validation_users: ClassVar[bool] = False  # it learns numbers from the labels of validation users

    @abstractmethod
    def build_learner(self, encoder: "Encoder") -> "Learner":
        """The learner for what this encoder gives, rows of `encoder.width` numbers."""

    def live_learner(self, encoder: "RowEncoder", weights: "Weights") -> "LiveLearner | None":  # noqa: ARG002  # by default there is none
        """The trained learner without torch, for the service; None if torch must run it."""
        return None

    @classmethod
    def presets(cls, protocol: str) -> Mapping[str, Any]:  # noqa: ARG003  # some learners differ by protocol
        """Defaults of other settings that come with it, by dotted keys."""
        return {}

    @classmethod
    def model_name(cls, *, shared: bool) -> str:
        """The whole model as tables call it, on a shared predictor or alone."""
        return f"{'RESUS' if shared else 'MUS'}-{cls.title}"


class RidgeSettings(LearnerSettings):
    kind: Literal["ridge"] = Field(default="ridge", description=KIND)
    ridge: float = Field(default=1.0, ge=1e-6, description="initial strength λ of the ridge")
    learn_ridge: bool = Field(default=True, description="learn λ, or keep it")
    bias: bool = Field(default=False, description="fit a bias for each user")
    title: ClassVar[str] = "RR"
    space: ClassVar[Mapping[str, Space]] = {"ridge": Real(0.01, 100.0)}
    training_space: ClassVar[Mapping[str, Space]] = {"learning_rate": LEARNING_RATE}

    def build_learner(self, encoder: "Encoder") -> "Learner":  # noqa: ARG002  # it takes any encoder
        from resus.model.learners.ridge import RidgeLearner

        return RidgeLearner(ridge=self.ridge, learn_ridge=self.learn_ridge, bias=self.bias)

    def live_learner(self, encoder: "RowEncoder", weights: "Weights") -> "LiveLearner":
        from resus.model.learners.ridge_in_numpy import RidgeInNumpy

        return RidgeInNumpy(weights, bias=self.bias, width=encoder.width)


class NearestSettings(LearnerSettings):
    kind: Literal["nearest"] = Field(default="nearest", description=KIND)
    similarity: Literal["learned", "cosine"] = Field(default="learned", description="of two events: learned or cosine")
    title: ClassVar[str] = "NN"
    space: ClassVar[Mapping[str, Space]] = {"similarity": OneOf(("learned", "cosine"))}
    training_space: ClassVar[Mapping[str, Space]] = {"learning_rate": LEARNING_RATE}

    def build_learner(self, encoder: "Encoder") -> "Learner":
        from resus.model.learners.nearest import CosineSimilarity, LearnedSimilarity, NearestLearner

        return NearestLearner(LearnedSimilarity(encoder.width) if self.similarity == "learned" else CosineSimilarity())

    def live_learner(self, encoder: "RowEncoder", weights: "Weights") -> "LiveLearner":
        from resus.model.learners.nearest_in_numpy import NearestInNumpy

        return NearestInNumpy(weights, width=encoder.width)

    @classmethod
    def presets(cls, protocol: str) -> Mapping[str, Any]:
        return {"fusion.scale": 3.0} if protocol == "authors-release" else {}

    @classmethod
    def model_name(cls, *, shared: bool) -> str:
        return "RESUS-NN" if shared else "MUS"


class PlusSettings(LearnerSettings):
    kind: Literal["plus"] = Field(default="plus", description=KIND)
    bias: bool = Field(default=True, description="fit a bias for each user")
    matches: bool = Field(default=True, description="fit what each user did with the same item, author, genre, ...")
    taste: bool = Field(default=True, description="fit each user's taste in what the factors describe")
    choices: bool = Field(default=True, description="learn from which items a user has had, whatever the labels")
    context: bool = Field(default=True, description="learn how events of one context, such as a page, affect others")
    common: bool = Field(default=True, description="correct the shared model where users agree against it")
    scale: bool = Field(default=True, description="learn how far to trust the shared model")
    trust: bool = Field(default=True, description="learn how far to trust a like and a dislike")
    sizes: bool = Field(default=True, description="learn how scores drift with the number of events")
    steps: int = Field(default=30, ge=1, description="maximum number of weighted ridges in the logistic fit of a user")
    title: ClassVar[str] = "plus"
    recipe: ClassVar[str] = "plus"
    encoder: ClassVar[str | None] = "factors"
    has_beta: ClassVar[bool] = False
    cross_fits: ClassVar[bool] = True
    uses_validation_users: ClassVar[bool] = True

    @model_validator(mode="after")
    def _has_a_part(self) -> Self:
        if not (self.bias or self.matches or self.taste):
            raise ValueError("learner.kind=plus needs learner.bias, learner.matches or learner.taste")
        return self

    def build_learner(self, encoder: "Encoder") -> "Learner":
        from resus.model.learners.plus.factors import FactorEncoder
        from resus.model.learners.plus.learner import PlusLearner

        parts = self.model_dump(exclude={"kind"})
        return PlusLearner(FactorEncoder.of(encoder).layout, **parts)

    def live_learner(self, encoder: "RowEncoder", weights: "Weights") -> "LiveLearner":
        from resus.model.learners.plus.in_numpy.factors import FactorCodes
        from resus.model.learners.plus.in_numpy.learner import PlusInNumpy

        assert isinstance(encoder, FactorCodes)
        return PlusInNumpy(encoder.layout, weights, steps=self.steps)

    @classmethod
    def presets(cls, protocol: str) -> Mapping[str, Any]:  # noqa: ARG003  # the same under both protocols
        return {
            "encoder.kind": "factors",
            "encoder.embedding_dim": 32,
            "learner.bias": True,
            "fusion.per_size": False,
            "fusion.bias": False,
            "training.folds": 4,
            "training.patience": 3,
            "training.batch_size": 8192,
            "training.scalar_learning_rate": 0.1,
        }

    @classmethod
    def model_name(cls, *, shared: bool) -> str:
        return "RESUS+" if shared else "MUS+"


class FactorSettings(EmbeddingSettings):
    kind: Literal["factors"] = Field(default="factors", description=ENCODER_KIND)
    epochs: int = Field(default=30, ge=1, description="maximum number of passes over the data to learn the factors")
    choice_dim: int = Field(default=16, ge=1, description="numbers that describe which items a user has had")
    title: ClassVar[str] = "factors"
    space: ClassVar[Mapping[str, Space]] = {"embedding_dim": Whole(8, 64), "choice_dim": Whole(4, 32)}
    predicts: ClassVar[bool] = False
    learner: ClassVar[str | None] = "plus"

    def architecture(self, features: "FeatureMap") -> "Encoder":
        from resus.model.learners.plus.factors import FactorEncoder

        if features.n_ids > LARGEST_ID:
            raise ConfigError(
                f"learner.kind=plus can tell {LARGEST_ID:,} values apart, and the log has {features.n_ids:,}"
            )
        return FactorEncoder(
            features,
            embedding_dim=self.embedding_dim,
            choice_dim=self.choice_dim,
            embedding_std=self.embedding_std,
        )

    def in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowEncoder":
        from resus.model.learners.plus.in_numpy.factors import FactorCodes

        return FactorCodes(features, weights, taste=self.embedding_dim, choice=self.choice_dim)


LEARNERS: Registry[LearnerSettings] = Registry("learner", RidgeSettings, NearestSettings, PlusSettings, default="plus")
ENCODERS.add(FactorSettings)  # only RESUS+ works on it
