"""Encoders Φ and their settings. To add one: `ENCODERS.add(MySettings)`; torch is imported only to build it."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from resus.checking import Registry, Settings
from resus.errors import ConfigError
from resus.spaces import LAYERS, OneOf, Space, Whole

if TYPE_CHECKING:
    from resus.data.fields.feature_map import FeatureMap
    from resus.model.encoders.base import Encoder
    from resus.model.inference.parts import RowEncoder, Weights

KIND = "lr, fm, wide-deep, deepfm, xdeepfm, or factors (RESUS+)"
MOST_LAYERS = 100
_Width = Annotated[int, Field(ge=1, le=16_384)]  # of a layer


class EncoderSettings(Settings):
    """Φ, from a row to the vector that the learner works on."""

    kind: str
    title: ClassVar[str]  # as tables call the architecture
    predicts: ClassVar[bool] = True  # with a linear output on top it is a predictor
    learner: ClassVar[str | None] = None  # the only kind of learner that it serves

    @abstractmethod
    def architecture(self, features: "FeatureMap") -> "Encoder":
        """An encoder with random weights for the ids and columns of a feature map."""

    def in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowEncoder | None":  # noqa: ARG002  # by default there is none
        """The trained encoder without torch, for the service; None if torch must run it."""
        return None

    def handed_over(self, factory: Callable[..., Any]) -> "EncoderSettings":  # noqa: ARG002  # it needs none
        """With the class that makes the encoder, if it is one of the user's own."""
        raise ConfigError(f"the encoder of this model is {self.title}, which resus has: leave the encoder out")

    def build_encoder(self, features: "FeatureMap") -> "Encoder":
        """The same, in which a value never seen starts at zero, so that it says nothing."""
        from resus.model.encoders.base import clear_unknown

        return clear_unknown(self.architecture(features), features.first_ids)


class EmbeddingSettings(EncoderSettings):
    embedding_dim: int = Field(default=10, ge=1, le=4096, description="size of the vector of a field")
    embedding_std: float = Field(default=0.1, gt=0, description="standard deviation of the initial embeddings")
    space: ClassVar[Mapping[str, Space]] = {"embedding_dim": Whole(4, 64)}

    def embeddings(self, features: "FeatureMap") -> dict[str, Any]:
        """The arguments that all built-in encoders take."""
        return {
            "n_ids": features.n_ids,
            "column_counts": features.column_counts,
            "embedding_dim": self.embedding_dim,
            "embedding_std": self.embedding_std,
        }


class NetworkSettings(EmbeddingSettings):
    """The shape of a network. All published architectures take the same keys, so that they are easy to compare."""

    hidden_units: tuple[_Width, ...] = Field(
        default=(400, 400, 400),
        min_length=1,
        max_length=MOST_LAYERS,
        description="widths of the layers of wide-deep, deepfm and xdeepfm",
    )
    cin_maps: tuple[_Width, ...] = Field(
        default=(100, 100),
        min_length=1,
        max_length=MOST_LAYERS,
        description="feature maps of each layer of interactions of xdeepfm",
    )


class LRSettings(NetworkSettings):
    kind: Literal["lr"] = Field(default="lr", description=KIND)
    title: ClassVar[str] = "LR"

    def architecture(self, features: "FeatureMap") -> "Encoder":
        from resus.model.encoders.lr import LR

        return LR(**self.embeddings(features))

    def in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowEncoder":
        from resus.model.encoders.in_numpy import LRInNumpy

        return LRInNumpy(features, weights)


class FMSettings(NetworkSettings):
    kind: Literal["fm"] = Field(default="fm", description=KIND)
    title: ClassVar[str] = "FM"

    def architecture(self, features: "FeatureMap") -> "Encoder":
        from resus.model.encoders.fm import FM

        return FM(**self.embeddings(features))

    def in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowEncoder":
        from resus.model.encoders.in_numpy import FMInNumpy

        return FMInNumpy(features, weights)


class WideDeepSettings(NetworkSettings):
    kind: Literal["wide-deep"] = Field(default="wide-deep", description=KIND)
    title: ClassVar[str] = "Wide&Deep"
    space: ClassVar[Mapping[str, Space]] = {"hidden_units": LAYERS}

    def architecture(self, features: "FeatureMap") -> "Encoder":
        from resus.model.encoders.wide_deep import WideDeep

        return WideDeep(**self.embeddings(features), hidden_units=self.hidden_units)

    def in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowEncoder":
        from resus.model.encoders.in_numpy import WideDeepInNumpy

        return WideDeepInNumpy(features, weights, self.hidden_units)


class DeepFMSettings(NetworkSettings):
    kind: Literal["deepfm"] = Field(default="deepfm", description=KIND)
    title: ClassVar[str] = "DeepFM"
    space: ClassVar[Mapping[str, Space]] = {"hidden_units": LAYERS}

    def architecture(self, features: "FeatureMap") -> "Encoder":
        from resus.model.encoders.deepfm import DeepFM

        return DeepFM(**self.embeddings(features), hidden_units=self.hidden_units)

    def in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowEncoder":
        from resus.model.encoders.in_numpy import DeepFMInNumpy

        return DeepFMInNumpy(features, weights, self.hidden_units)


class XDeepFMSettings(NetworkSettings):
    kind: Literal["xdeepfm"] = Field(default="xdeepfm", description=KIND)
    title: ClassVar[str] = "xDeepFM"
    space: ClassVar[Mapping[str, Space]] = {"hidden_units": LAYERS, "cin_maps": OneOf(((20,), (50, 50), (100, 100)))}

    def architecture(self, features: "FeatureMap") -> "Encoder":
        from resus.model.encoders.xdeepfm import XDeepFM

        return XDeepFM(**self.embeddings(features), hidden_units=self.hidden_units, cin_maps=self.cin_maps)

    def in_numpy(self, features: "FeatureMap", weights: "Weights") -> "RowEncoder":
        from resus.model.encoders.in_numpy import XDeepFMInNumpy

        return XDeepFMInNumpy(features, weights, self.hidden_units, self.cin_maps)


class OwnEncoderSettings(EncoderSettings):
    """The user's own module. Its class is given in Python and never saved; `name` says which one it was."""

    kind: Literal["own"] = Field(default="own", description="an encoder given in Python")
    name: str = Field(default="", description="name of the class or function that makes the encoder")
    factory: Callable[..., Any] | None = Field(
        default=None, exclude=True, repr=False, description="makes the encoder from a feature map"
    )
    title: ClassVar[str] = "own encoder"
    predicts: ClassVar[bool] = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnEncoderSettings) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @classmethod
    def made_by(cls, factory: Callable[..., Any]) -> "OwnEncoderSettings":
        return cls(name=getattr(factory, "__name__", type(factory).__name__), factory=factory)

    def handed_over(self, factory: Callable[..., Any]) -> "OwnEncoderSettings":
        own = self.made_by(factory)
        if own != self:
            raise ConfigError(f"the encoder of this model is '{self.name}', not '{own.name}': give the same one")
        return own

    def architecture(self, features: "FeatureMap") -> "Encoder":
        if self.factory is None:
            raise ConfigError(
                f"the encoder '{self.name}' is a module of your own that no file holds: hand it over in Python with "
                "Resus(encoder=...) or resus.load(folder, encoder=...)"
            )
        encoder: Encoder = self.factory(features)
        if not isinstance(getattr(encoder, "width", None), int):
            raise ConfigError(f"the encoder '{self.name}' has no 'width': set it to the length of its output vectors")
        return encoder


ENCODERS: Registry[EncoderSettings] = Registry(
    "encoder",
    LRSettings,
    FMSettings,
    WideDeepSettings,
    DeepFMSettings,
    XDeepFMSettings,
    OwnEncoderSettings,
    default="deepfm",
)
