"""RESUS+, the default learner, from the command line, from training to an export."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from resus_process import WITHOUT_NETWORK, succeed_here

from resus import PlantedWorld, load
from resus.data.datasets.planted import draw_events
from resus.serving.loaded import LoadedModel

pytestmark = pytest.mark.integration

SETTINGS = ("predictor.epochs=2", "encoder.epochs=1", "training.folds=2")
PLUS = [*WITHOUT_NETWORK, "--predictor", "lr"]
PLUS += [word for setting in SETTINGS for word in ("--set", setting)]


def test_from_training_to_an_export(tmp_path: Path) -> None:
    succeed_here("prepare", "planted", "--set", "users=120", "--set", "items=40", "--out", "log", cwd=tmp_path)
    said = succeed_here("train", "log", *PLUS, "--out", "run", cwd=tmp_path)
    assert "RESUS+ on log" in said
    assert "predictor without fold 2 of 2: validation AUC" in said
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "artifact.json",
        "metrics.jsonl",
        "model.safetensors",
        "users.safetensors",
    ]
    assert "RESUS+" in succeed_here("evaluate", "run", "--draws", "0", cwd=tmp_path)

    events = draw_events(PlantedWorld(users=10, items=40)).select(pl.exclude("truth", "crowd"))
    label = load(tmp_path / "run").schema.label
    assert label is not None
    events[:20].write_csv(tmp_path / "support.csv")
    events[20:40].drop(label).write_csv(tmp_path / "query.csv")
    answers = ["--support", "support.csv", "--query", "query.csv", "--out", "answers.csv"]
    succeed_here("predict", "run", *answers, cwd=tmp_path)
    expected = load(tmp_path / "run").predict(
        pl.read_csv(tmp_path / "support.csv"), pl.read_csv(tmp_path / "query.csv")
    )
    found = pl.read_csv(tmp_path / "answers.csv")
    np.testing.assert_allclose(found["probability"], expected["probability"], atol=1e-6)

    succeed_here("export", "run", "--out", "export", cwd=tmp_path)
    assert LoadedModel.load(tmp_path / "export").config.model_name == "RESUS+"
