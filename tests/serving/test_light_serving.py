"""Serving a model imports what scores it, and neither training nor evaluation."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

LOAD = """
import json, sys
from pathlib import Path
from resus.serving.engine import Engine
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PredictRequest
from resus.serving.store import open_store

folder = Path(sys.argv[1])
engine = Engine(LoadedModel.load(folder), open_store(sys.argv[2], capacity=10))
build_app(engine, folder, Access("localhost", None))
engine.predict(PredictRequest(items=["1"]))
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.integration
def test_loading_a_model_to_serve_imports_no_training(exported: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", LOAD, exported, tmp_path / "events"]
    loaded = set(json.loads(subprocess.run(list(map(str, words)), capture_output=True, check=True).stdout))
    ours = [name for name in loaded if name.startswith("resus.")]
    rooms = Counter(name.split(".")[1] for name in ours)
    assert not rooms.keys() & {"training", "report", "paper", "baselines", "estimator", "scoring", "cluster", "cli"}
    assert [name for name in ours if name.startswith("resus.evaluation.")] == ["resus.evaluation.results"]
    assert not any(name.startswith("resus.serving.export") for name in ours)
    assert len(ours) <= 100, rooms
    assert not loaded & {"lightgbm", "sklearn", "scipy", "matplotlib", "ray"}
