"""ONNX files against the networks that they were made from."""

import importlib.util
import logging
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import torch
from planted_models import TINY, events, log_of, tiny

from resus.config.resolve import resolve
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.episodes.batch import Features, features_of
from resus.errors import ConfigError
from resus.model.build import build_personalizer
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.numbers import KNOTS
from resus.model.personalizer import Personalizer
from resus.model.predictors.gradient_boosting import GradientBoosting
from resus.serving.onnx import ENCODER, PREDICTOR, export_onnx

SIZES = (1, 2, 1000)


@cache
def log() -> InteractionLog:
    return log_of(events())


def built(features: FeatureMap, **settings: Any) -> Personalizer:
    torch.manual_seed(4)
    spread = {"predictor.embedding_std": 0.7, "encoder.embedding_std": 0.7}
    config = resolve(TINY | spread | {key.replace("__", "."): value for key, value in settings.items()})
    return build_personalizer(config, features)


def exported(model: Personalizer, features: FeatureMap, folder: Path) -> list[str]:
    export_onnx(model, features, folder)
    return sorted(path.name for path in folder.iterdir())


def some_rows(size: int) -> Features:
    return features_of(log(), np.random.default_rng(size).integers(log().n_rows, size=size))


def run(path: Path, rows: Features) -> npt.NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options)
    weights = torch.ones(rows.ids.shape) if rows.weights is None else rows.weights
    (answer,) = session.run(None, {"ids": rows.ids.numpy(), "weights": weights.numpy()})
    return np.asarray(answer, dtype=np.float32)


@pytest.mark.parametrize(("kind", "encoder"), [("lr", "fm"), ("wide-deep", "deepfm"), ("xdeepfm", "lr")])
def test_scores_match_those_of_torch(kind: str, encoder: str, tmp_path: Path) -> None:
    model = built(log().features, predictor__kind=kind, encoder__kind=encoder)
    assert exported(model, log().features, tmp_path) == [ENCODER, PREDICTOR]
    for size in SIZES:
        rows = some_rows(size)
        logits, encoded = run(tmp_path / PREDICTOR, rows), run(tmp_path / ENCODER, rows)
        with torch.no_grad():
            expected = model.encoder(rows).numpy()
        assert logits.shape == (size,)
        assert encoded.shape == (size, model.encoder.width)
        np.testing.assert_allclose(logits, model.predictor.logits(rows).numpy(), rtol=0, atol=1e-5)
        np.testing.assert_allclose(encoded, expected, rtol=1e-5, atol=1e-5)
        assert size == 1 or np.ptp(logits) > 0.01


def test_the_encoder_of_plus_keeps_all_parts_of_its_codes(tmp_path: Path) -> None:
    model = built(log().features, predictor__kind="none", learner__kind="plus")
    encoder = FactorEncoder.of(model.encoder)
    names = [field.name for field in log().features.fields]
    with torch.no_grad():
        encoder.spread.copy_(torch.randn(4, 4).tril())
        encoder.kept[1] = 0.0
        encoder.context[names.index("category")] = 1.0
        encoder.knots[names.index("price")] = torch.linspace(-1.5, 1.5, KNOTS)
    assert exported(model, log().features, tmp_path) == [ENCODER]
    column = sum(log().features.column_counts[: names.index("item")])
    for size in SIZES:
        rows = some_rows(size)
        encoded = run(tmp_path / ENCODER, rows)
        with torch.no_grad():
            expected = encoder(rows).numpy()
        np.testing.assert_allclose(encoded, expected, rtol=1e-5, atol=1e-5)
        ids = slice(3 + sum(encoder.layout.columns))
        assert np.array_equal(encoded[:, ids], expected[:, ids])
        assert np.array_equal(encoded[:, 0], rows.ids[:, column].numpy())
        assert encoded[:, 1:3].all()


def test_without_a_predictor_there_is_only_the_encoder(tmp_path: Path) -> None:
    plain = FeatureMap(tuple(field for field in log().features.fields if field.kind == "categorical"), item="item")
    assert not plain.weighted
    model = built(plain, predictor__kind="none")
    assert exported(model, plain, tmp_path) == [ENCODER]
    rows = Features(torch.tensor(plain.first_ids, dtype=torch.int32).unsqueeze(0) + 1, None)
    with torch.no_grad():
        np.testing.assert_allclose(run(tmp_path / ENCODER, rows), model.encoder(rows).numpy(), rtol=1e-5, atol=1e-5)


def test_trees_are_exported_as_their_own_text_file(tmp_path: Path) -> None:
    fitted = tiny(predictor="lightgbm").fit(log())
    model = fitted._fitted().model
    assert exported(model, log().features, tmp_path) == [ENCODER, "predictor.txt"]
    again = GradientBoosting(log().features, learning_rate=0.1, rounds=1, num_leaves=2, patience=1)
    text = bytearray((tmp_path / "predictor.txt").read_bytes())
    again.load_state_dict({"booster": torch.frombuffer(text, dtype=torch.uint8)})
    assert torch.equal(again.logits(some_rows(50)), model.predictor.logits(some_rows(50)))


def test_a_missing_exporter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    model = built(log().features)
    with pytest.raises(ConfigError, match=r"needs onnx and onnxscript, .*: pip install 'resus\[onnx\]'"):
        export_onnx(model, log().features, tmp_path)


def test_the_exporter_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    export_onnx(built(log().features, learner__kind="plus"), log().features, tmp_path)
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
