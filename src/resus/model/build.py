"""From settings to parts: the only place where a config meets a constructor."""

import torch

from resus.config.settings import Config, LearnerConfig, NetworkConfig
from resus.data.fields.feature_map import FeatureMap
from resus.errors import ConfigError
from resus.model.encoders.base import Encoder
from resus.model.encoders.deepfm import DeepFM
from resus.model.encoders.embedding import FieldEmbedding
from resus.model.encoders.fm import FM
from resus.model.encoders.lr import LR
from resus.model.encoders.wide_deep import WideDeep
from resus.model.encoders.xdeepfm import XDeepFM
from resus.model.fusion import Fusion
from resus.model.learners.base import Learner
from resus.model.learners.nearest.learner import NearestLearner
from resus.model.learners.nearest.similarity import CosineSimilarity, LearnedSimilarity
from resus.model.learners.plus.factors import LARGEST_ID, FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.ridge.learner import RidgeLearner
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor
from resus.model.predictors.external import ExternalPredictor
from resus.model.predictors.gradient_boosting import GradientBoosting
from resus.model.predictors.neural import NeuralPredictor
from resus.model.predictors.none import NoPredictor


def build_network(kind: str, config: NetworkConfig, features: FeatureMap) -> Encoder:
    """An architecture without its output layer. A value never seen starts at zero, so that it says nothing."""
    network = _network(kind, config, features)
    for part in network.modules():
        if isinstance(part, FieldEmbedding):
            with torch.no_grad():
                part.table[list(features.first_ids)] = 0.0
    return network


def _network(kind: str, config: NetworkConfig, features: FeatureMap) -> Encoder:
    shape = (features.n_ids, features.column_counts)
    dim, std, hidden = config.embedding_dim, config.embedding_std, config.hidden_units
    match kind:
        case "lr":
            return LR(*shape, embedding_dim=dim, embedding_std=std)
        case "fm":
            return FM(*shape, embedding_dim=dim, embedding_std=std)
        case "wide-deep":
            return WideDeep(*shape, embedding_dim=dim, embedding_std=std, hidden_units=hidden)
        case "deepfm":
            return DeepFM(*shape, embedding_dim=dim, embedding_std=std, hidden_units=hidden)
        case "xdeepfm":
            return XDeepFM(*shape, embedding_dim=dim, embedding_std=std, hidden_units=hidden, cin_maps=config.cin_maps)
        case "factors":
            if features.n_ids > LARGEST_ID:
                raise ConfigError(
                    f"learner.kind=plus tells {LARGEST_ID:,} values apart, the log has {features.n_ids:,}"
                )
            item = [field.name for field in features.fields].index(features.item)
            unknown = features.first_ids[item]
            return FactorEncoder(*shape, item=item, unknown_item=unknown, embedding_dim=dim, embedding_std=std)
    raise AssertionError(f"unknown architecture {kind}")


def build_predictor(config: Config, features: FeatureMap) -> Predictor:
    chosen = config.predictor
    if chosen.kind == "none":
        return NoPredictor()
    if chosen.kind == "external":
        return ExternalPredictor(features, column=chosen.column, scale=chosen.scale)
    if chosen.kind == "lightgbm":
        return GradientBoosting(
            features,
            learning_rate=chosen.boosting_rate,
            rounds=chosen.rounds,
            num_leaves=chosen.num_leaves,
            patience=chosen.boosting_patience,
        )
    return NeuralPredictor(build_network(chosen.kind, chosen, features))


def build_personalizer(config: Config, features: FeatureMap, predictor: Predictor | None = None) -> Personalizer:
    """A model to train, on a predictor that may be trained already."""
    predictor = predictor or build_predictor(config, features)
    encoder = build_network(config.encoder.kind, config.encoder, features)
    fusion = Fusion(
        max_size=config.max_support,
        scale=config.fusion.scale,
        per_size=config.fusion.per_size,
        bias=config.fusion.bias,
    )
    return Personalizer(predictor, encoder, _build_learner(config.learner, encoder.width), fusion)


def _build_learner(config: LearnerConfig, width: int) -> Learner:
    if config.kind == "plus":
        return PlusLearner(steps=config.steps, bias=config.bias, taste=config.taste, repeats=config.repeats)
    if config.kind == "ridge":
        return RidgeLearner(ridge=config.ridge, learn_ridge=config.learn_ridge, bias=config.bias)
    return NearestLearner(LearnedSimilarity(width) if config.similarity == "learned" else CosineSimilarity())
