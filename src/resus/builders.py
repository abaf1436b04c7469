"""From settings to parts: the only place where a config meets a constructor."""

from torch import nn

from resus.config import Config, LearnerConfig, NetworkConfig
from resus.data.features import FeatureMap
from resus.fusion import Fusion
from resus.learners.nearest import NearestLearner
from resus.learners.ridge import RidgeLearner
from resus.learners.similarity import CosineSimilarity, LearnedSimilarity
from resus.model import ResidualModel
from resus.predictors.deepfm import DeepFM
from resus.predictors.fm import FM
from resus.predictors.gradient_boosting import GradientBoosting
from resus.predictors.lr import LR
from resus.predictors.neural import NeuralPredictor
from resus.predictors.none import NoPredictor
from resus.predictors.wide_deep import WideDeep
from resus.predictors.xdeepfm import XDeepFM

AnyPredictor = NeuralPredictor | GradientBoosting | NoPredictor


def build_network(kind: str, config: NetworkConfig, features: FeatureMap) -> nn.Module:
    """An architecture without its output layer."""
    n_ids, columns, dim = features.n_ids, features.column_counts, config.embedding_dim
    match kind:
        case "lr":
            return LR(n_ids, columns, embedding_dim=dim)
        case "fm":
            return FM(n_ids, columns, embedding_dim=dim)
        case "wide-deep":
            return WideDeep(n_ids, columns, embedding_dim=dim, hidden_units=config.hidden_units)
        case "deepfm":
            return DeepFM(n_ids, columns, embedding_dim=dim, hidden_units=config.hidden_units)
        case "xdeepfm":
            return XDeepFM(
                n_ids, columns, embedding_dim=dim, hidden_units=config.hidden_units, cin_maps=config.cin_maps
            )
    raise AssertionError(f"unknown architecture {kind}")


def build_predictor(config: Config, features: FeatureMap) -> AnyPredictor:
    chosen = config.predictor
    if chosen.kind == "none":
        return NoPredictor()
    if chosen.kind == "lightgbm":
        return GradientBoosting(
            features,
            learning_rate=chosen.boosting_rate,
            rounds=chosen.rounds,
            num_leaves=chosen.num_leaves,
            patience=10 * chosen.patience,
        )
    return NeuralPredictor(build_network(chosen.kind, chosen, features))


def build_model(config: Config, features: FeatureMap) -> ResidualModel:
    encoder = build_network(config.encoder.kind, config.encoder, features)
    fusion = Fusion(
        max_size=config.max_support,
        scale=config.fusion.scale,
        per_size=config.fusion.per_size,
        bias=config.fusion.bias,
    )
    return ResidualModel(encoder, _build_learner(config.learner, int(encoder.width)), fusion)  # type: ignore[arg-type]


def _build_learner(config: LearnerConfig, width: int) -> nn.Module:
    if config.kind == "ridge":
        return RidgeLearner(ridge=config.ridge, learn_ridge=config.learn_ridge, bias=config.bias)
    return NearestLearner(LearnedSimilarity(width) if config.similarity == "learned" else CosineSimilarity())
