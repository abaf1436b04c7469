"""Whatever happens to the files of a model, loading it gives a sentence or the same model, and never a crash."""

import subprocess
import sys
from pathlib import Path

import pytest
from planted_models import events, log_of, tiny

from resus.serving.export import export

pytestmark = pytest.mark.integration

TRIALS = {"damaged": 150, "listed": 150}  # in each process


@pytest.fixture(scope="module")
def lightgbm_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    tiny(predictor="lightgbm").fit(log_of(events()).save(folder / "log"), folder=folder / "run")
    export(folder / "run", folder / "log", folder / "export", titles={"1": "One"})
    return folder / "export"


def bend(good: Path, other: Path, place: Path, kind: str, first: int = 0) -> str:
    script = Path(__file__).with_name("bent_folders.py")
    words = [sys.executable, script, good, other, place, kind, first, TRIALS[kind]]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-3000:]}{done.stderr[-1000:]}"
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", ["evaluated", "third", "lightgbm_export"])
def test_a_damaged_folder_is_refused_or_answers_the_same(
    name: str, another: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    said = bend(request.getfixturevalue(name), another, tmp_path, "damaged")
    assert "'refused': " in said


@pytest.mark.parametrize("name", ["evaluated", "third"])
def test_bent_files_with_fitting_hashes_crash_nothing(
    name: str, another: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    said = bend(request.getfixturevalue(name), another, tmp_path, "listed")
    assert "'refused': " in said
