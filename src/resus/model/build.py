"""From settings to a model."""

from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.model.fusion import Fusion
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor


def build_fusion(config: Config) -> Fusion:
    return Fusion(
        max_size=config.max_support,
        scale=config.fusion.scale,
        per_size=config.fusion.per_size,
        bias=config.fusion.bias,
        monotone=config.fusion.monotone,
    )


def build_personalizer(config: Config, features: FeatureMap, predictor: Predictor | None = None) -> Personalizer:
    """A model to train, on a predictor that may be trained already."""
    predictor = predictor or config.predictor.build_predictor(features)
    encoder = config.encoder.build_encoder(features)
    return Personalizer(predictor, encoder, config.learner.build_learner(encoder), build_fusion(config))
