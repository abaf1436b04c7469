"""From settings to a model."""

from resus.checking import Settings
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.model.encoders import ENCODERS
from resus.model.encoders.base import Encoder
from resus.model.fusion import Fusion
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor


def build_network(kind: str, settings: Settings, features: FeatureMap) -> Encoder:
    """An architecture without its output layer, in the shape that other settings give it."""
    return ENCODERS[kind].sharing(settings).build_encoder(features)


def build_predictor(config: Config, features: FeatureMap) -> Predictor:
    return config.predictor.build_predictor(features)


def build_personalizer(config: Config, features: FeatureMap, predictor: Predictor | None = None) -> Personalizer:
    """A model to train, on a predictor that may be trained already."""
    predictor = predictor or build_predictor(config, features)
    encoder = config.encoder.build_encoder(features)
    fusion = Fusion(
        max_size=config.max_support,
        scale=config.fusion.scale,
        per_size=config.fusion.per_size,
        bias=config.fusion.bias,
    )
    return Personalizer(predictor, encoder, config.learner.build_learner(encoder.width), fusion)
