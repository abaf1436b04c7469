"""The mean of several predictors: its logits, its state in an artifact, and its files."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from planted_models import TINY, small_log, tiny

from resus import Resus
from resus.config.resolve import resolve
from resus.episodes.batch import Features, features_of
from resus.model.build import build_personalizer
from resus.model.predictors import PredictorSettings
from resus.model.predictors.average import AveragePredictor, build_for_state
from resus.model.predictors.base import NoPredictor, Predictor
from resus.model.predictors.gradient_boosting import GradientBoosting
from resus.serving.catalogue import CATALOGUE
from resus.serving.export import check_out_folder
from resus.serving.onnx import PREDICTOR, export_onnx

MEMBERS = 3
ROWS = features_of(small_log(), np.arange(50))
KINDS = ("deepfm", "lightgbm")


def settings_of(kind: str) -> PredictorSettings:
    spread = {"predictor.embedding_std": 0.7} if kind == "deepfm" else {}
    return resolve(TINY | {"predictor.kind": kind, **spread}).predictor


@cache
def members(kind: str) -> tuple[Predictor, ...]:
    """Predictors that differ."""
    found = []
    for seed in range(MEMBERS):
        torch.manual_seed(seed)
        predictor = settings_of(kind).build_predictor(small_log().features)
        if kind == "lightgbm":
            train, held_out = np.arange(seed * 100, 400), np.arange(400, small_log().n_rows)
            predictor.fit(small_log(), train, held_out, seed=seed, threads=1)
        found.append(predictor)
    return tuple(found)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_the_mean_of_the_members(kind: str) -> None:
    found = AveragePredictor(members(kind)).logits(ROWS)
    alone = [predictor.logits(ROWS) for predictor in members(kind)]
    torch.testing.assert_close(found, sum(alone) / MEMBERS)
    assert all(not torch.allclose(found, one) for one in alone)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_into_a_predictor_of_its_own_shape(kind: str) -> None:
    for predictor in (AveragePredictor(members(kind)), members(kind)[0]):
        state = predictor.state_dict()
        again = build_for_state(settings_of(kind), small_log().features, state)
        again.load_state_dict(state)
        assert type(again) is type(predictor)
        assert torch.equal(again.logits(ROWS), predictor.logits(ROWS))


def test_every_member_checks_a_row() -> None:
    checked = []

    class Checking(NoPredictor):
        def check(self, features: Features) -> None:
            checked.append(features)

    AveragePredictor([Checking(), Checking()]).check(ROWS)
    assert checked == [ROWS, ROWS]


@cache
def fitted(kind: str) -> Resus:
    changes: dict[str, Any] = {"training.average": "always", "training.folds": 2, "encoder.epochs": 1}
    return tiny(learner="plus", predictor=kind, settings=changes).fit(small_log())


@pytest.mark.parametrize("kind", KINDS)
def test_an_artifact_keeps_all_members(kind: str, tmp_path: Path) -> None:
    model = fitted(kind)
    own = model._fitted().model.predictor
    assert isinstance(own, AveragePredictor)
    assert len(own.members) == 3, "the predictor of all training users and those without a fold"
    model.save(tmp_path)
    again = Resus.load(tmp_path)
    other = again._fitted().model.predictor
    assert isinstance(other, AveragePredictor)
    assert torch.equal(other.logits(ROWS), own.logits(ROWS))


def test_another_run_may_take_the_mean_over(tmp_path: Path) -> None:
    own = fitted("deepfm")._fitted().model.predictor
    for learner in ("ridge", "plus"):
        settings = {"training.average": "always", "training.folds": 2} if learner == "plus" else {}
        model = tiny(learner=learner, settings=settings).fit(small_log(), predictor_from=fitted("deepfm"))
        model.save(tmp_path / learner)
        taken = Resus.load(tmp_path / learner)._fitted().model.predictor
        assert torch.equal(taken.logits(ROWS), own.logits(ROWS))


def test_the_exported_network_gives_the_mean(tmp_path: Path) -> None:
    average = AveragePredictor(members("deepfm"))
    model = build_personalizer(resolve(TINY), small_log().features, average)
    export_onnx(model, small_log().features, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / PREDICTOR))
    assert ROWS.weights is not None
    (found,) = session.run(None, {"ids": ROWS.ids.numpy(), "weights": ROWS.weights.numpy()})
    np.testing.assert_allclose(found, average.logits(ROWS).numpy(), atol=1e-5)


def test_trees_are_exported_one_by_one_and_the_folder_may_be_replaced(tmp_path: Path) -> None:
    average = AveragePredictor(members("lightgbm"))
    assert average.network is None
    files = average.files()
    assert list(files) == ["predictor-1.txt", "predictor-2.txt", "predictor-3.txt"]
    for content, member in zip(files.values(), members("lightgbm"), strict=True):
        again = GradientBoosting(small_log().features, learning_rate=0.1, rounds=1, num_leaves=2, patience=1)
        again.load_state_dict({"booster": torch.frombuffer(bytearray(content), dtype=torch.uint8)})
        assert torch.equal(again.logits(ROWS), member.logits(ROWS))
    for name in (*files, "encoder.onnx", CATALOGUE):
        (tmp_path / name).touch()
    check_out_folder(tmp_path)
