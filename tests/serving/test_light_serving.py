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
from resus.serving import Engine, LoadedModel, open_store
from resus.serving.messages import PredictRequest

engine = Engine(LoadedModel.load(Path(sys.argv[1])), open_store(sys.argv[2], capacity=10))
engine.predict(PredictRequest(items=["1"]))
print(json.dumps(sorted(sys.modules)))

from resus.serving.http.app import build_app
from resus.serving.http.guard import Access

build_app(engine, Path(sys.argv[1]), Access("localhost", None))
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.integration
def test_serving_imports_no_training_and_the_engine_no_http(exported: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", LOAD, exported, tmp_path / "events"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    engine, service = (set(json.loads(line)) for line in done.stdout.splitlines())
    assert not {"fastapi", "starlette", "uvicorn", "resus.serving.http"} & engine

    ours = {name for name in service if name.startswith("resus.")}
    rooms = Counter(name.split(".")[1] for name in ours)
    assert not {"training", "report", "paper", "baselines", "estimator", "scoring", "cluster", "cli"} & rooms.keys()
    assert {name for name in ours if name.startswith("resus.evaluation.")} == {"resus.evaluation.results"}
    assert "resus.serving.export" not in ours
    assert len(ours) <= 100, rooms
    assert not {"lightgbm", "sklearn", "scipy", "matplotlib", "ray"} & service
