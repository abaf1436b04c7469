"""Settings arrive in the parts that they name."""

from typing import Any

import pytest
import torch

from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.episodes.batch import features_of
from resus.errors import ConfigError
from resus.model import learners
from resus.model.build import build_personalizer
from resus.model.encoders.base import FieldEmbedding
from resus.model.encoders.deepfm import DeepFM
from resus.model.encoders.fm import FM
from resus.model.encoders.lr import LR
from resus.model.encoders.wide_deep import WideDeep
from resus.model.encoders.xdeepfm import XDeepFM
from resus.model.learners import LARGEST_ID
from resus.model.learners.nearest import CosineSimilarity, LearnedSimilarity, NearestLearner
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.ridge import RidgeLearner
from resus.model.predictors import PREDICTORS
from resus.model.predictors.base import NeuralPredictor, NoPredictor
from resus.model.predictors.gradient_boosting import GradientBoosting

PARTS_OF_PLUS = {
    "bias": "log_bias",
    "matches": "log_matches",
    "taste": "log_taste",
    "choices": "log_choices",
    "context": "same_context",
    "common": "log_common",
    "scale": "log_scale",
    "trust": "log_trust",
    "sizes": "by_size",
}
NETWORKS = {"lr": LR, "fm": FM, "wide-deep": WideDeep, "deepfm": DeepFM, "xdeepfm": XDeepFM}


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=12, items=10, events_per_user=5))


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_architecture_serves_as_predictor_and_as_encoder(kind: str, log: InteractionLog) -> None:
    config = resolve(
        {
            "learner.kind": "ridge",
            "predictor.kind": kind,
            "predictor.embedding_dim": 4,
            "predictor.hidden_units": (7, 5),
            "encoder.kind": kind,
            "encoder.embedding_dim": 3,
            "encoder.embedding_std": 2.0,
        }
    )
    model = build_personalizer(config, log.features)
    predictor, encoder = model.predictor, model.encoder
    assert isinstance(predictor, NeuralPredictor)
    assert type(predictor.encoder) is type(encoder) is NETWORKS[kind]
    assert predictor.encoder.embedding.table.shape == (log.features.n_ids, 4)  # type: ignore[union-attr]
    assert encoder.embedding.table.shape == (log.features.n_ids, 3)  # type: ignore[union-attr]
    deep = getattr(predictor.encoder, "deep", [])
    assert [layer.out_features for layer in deep if isinstance(layer, torch.nn.Linear)] == ([7, 5] if deep else [])
    tables = [part.table.detach() for part in encoder.modules() if isinstance(part, FieldEmbedding)]
    assert all(table.any() and not table[list(log.features.first_ids)].any() for table in tables)
    assert encoder.embedding.table.std().item() > 50 * predictor.encoder.embedding.table.std().item()  # type: ignore[union-attr,operator]


def test_boosting_takes_its_settings(log: InteractionLog) -> None:
    chosen = {"kind": "lightgbm", "boosting_rate": 0.3, "rounds": 7, "num_leaves": 5, "boosting_patience": 30}
    predictor = PREDICTORS.chosen(chosen).build_predictor(log.features)
    assert isinstance(predictor, GradientBoosting)
    assert (predictor.learning_rate, predictor.rounds, predictor.num_leaves, predictor.patience) == (0.3, 7, 5, 30)


def test_no_predictor_says_nothing(log: InteractionLog) -> None:
    predictor = PREDICTORS.chosen({"kind": "none"}).build_predictor(log.features)
    assert isinstance(predictor, NoPredictor)
    rows = log.rows_of(log.offsets[:1])
    assert torch.equal(predictor.logits(features_of(log, rows)), torch.zeros(len(rows)))
    assert predictor.state_dict() == {}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_ridge_takes_its_settings(log: InteractionLog, learned: bool, bias: bool) -> None:
    settings = {"learner.kind": "ridge", "learner.ridge": 0.25, "learner.learn_ridge": learned, "learner.bias": bias}
    learner = build_personalizer(resolve(settings), log.features).learner
    assert isinstance(learner, RidgeLearner)
    assert learner.ridge.item() == pytest.approx(0.25)
    assert learner.raw_ridge.requires_grad == learned
    assert learner.constant == float(bias)


@pytest.mark.parametrize(("similarity", "kind"), [("learned", LearnedSimilarity), ("cosine", CosineSimilarity)])
def test_nearest_takes_its_similarity(log: InteractionLog, similarity: str, kind: type) -> None:
    learner = build_personalizer(
        resolve({"learner.kind": "nearest", "learner.similarity": similarity}), log.features
    ).learner
    assert isinstance(learner, NearestLearner)
    assert isinstance(learner.similarity, kind)


@pytest.mark.parametrize("missing", [None, *PARTS_OF_PLUS])
def test_plus_takes_its_settings(log: InteractionLog, missing: str | None) -> None:
    settings: dict[str, Any] = {"learner.kind": "plus", "learner.steps": 7, "encoder.embedding_dim": 5}
    settings["encoder.choice_dim"] = 3
    model = build_personalizer(resolve(settings | ({f"learner.{missing}": False} if missing else {})), log.features)
    assert isinstance(model.learner, PlusLearner)
    assert isinstance(model.encoder, FactorEncoder)
    assert (model.learner.steps, model.encoder.layout.taste, model.encoder.layout.choice) == (7, 5, 5 + 3)
    assert model.learner.layout == model.encoder.layout
    lacking = [part for part, name in PARTS_OF_PLUS.items() if getattr(model.learner, name) is None]
    assert lacking == [missing] * bool(missing)


def test_more_values_than_plus_tells_apart_are_refused(log: InteractionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    count = log.features.n_ids
    monkeypatch.setattr(learners, "LARGEST_ID", count - 1)
    with pytest.raises(ConfigError, match=f"tell {count - 1} values apart, and the log has {count}"):
        build_personalizer(resolve({"learner.kind": "plus"}), log.features)
    monkeypatch.setattr(learners, "LARGEST_ID", count)
    build_personalizer(resolve({"learner.kind": "plus"}), log.features)


def test_every_id_that_plus_takes_survives_as_a_float() -> None:
    last = torch.arange(LARGEST_ID - 3, LARGEST_ID, dtype=torch.int32)
    assert torch.equal(last.float().double(), last.double())


@pytest.mark.parametrize(("per_size", "max_support", "entries"), [(False, 4, 1), (True, 4, 4), (True, None, 9)])
@pytest.mark.parametrize("bias", [False, True])
def test_fusion_takes_its_settings(
    log: InteractionLog, per_size: bool, max_support: int | None, entries: int, bias: bool
) -> None:
    settings: dict[str, Any] = {"fusion.scale": 3.0, "fusion.per_size": per_size, "fusion.bias": bias}
    settings |= {"learner.kind": "ridge", "training.max_support": max_support, "evaluation.max_size": 9}
    fusion = build_personalizer(resolve(settings), log.features).fusion
    assert fusion.scale.tolist() == [3.0] * entries
    assert (None if fusion.bias is None else fusion.bias.tolist()) == ([0.0] * entries if bias else None)
