"""The public names of the library, and what importing it loads."""

import inspect
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import pytest

import resus

MODELS = {"Resus", "ResusClassifier", "after_events", "load", "Results", "Config", "Comparison", "compare"}
DATA = {
    "BuildOptions",
    "FieldSchema",
    "InteractionLog",
    "PlantedWorld",
    "PrepareOptions",
    "TableSchema",
    "build_log",
    "open_log",
    "planted_log",
    "prepare",
}
ERRORS = {
    "ArtifactError",
    "ConfigError",
    "DataError",
    "DownloadError",
    "ResusError",
    "ServiceError",
    "StorageError",
    "TrainingError",
}
SERVICE = {"AsyncClient", "Client"}
HEAVY = {"torch", "polars", "pyarrow", "matplotlib", "lightgbm", "numpy", "pandas"}


def test_the_public_names() -> None:
    assert sorted(resus.__all__) == sorted(MODELS | DATA | SERVICE | ERRORS | {"ResusWarning", "__version__"})
    assert dir(resus) == sorted(resus.__all__)


@pytest.mark.parametrize("name", sorted(MODELS | DATA | SERVICE | ERRORS | {"ResusWarning"}))
def test_each_public_name_is_importable_and_documented(name: str) -> None:
    member = getattr(resus, name)
    assert callable(member)
    assert (inspect.getdoc(member) or "").strip()


def test_every_error_is_a_resus_error() -> None:
    for name in ERRORS:
        assert issubclass(getattr(resus, name), resus.ResusError)


def test_public_functions_are_typed() -> None:
    methods = [getattr(resus.Resus, name) for name in ("fit", "evaluate", "predict", "save", "load", "compare")]
    for function in (resus.build_log, resus.prepare, resus.planted_log, *methods):
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name != "self"]
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not inspect.Parameter.empty for p in parameters), function


def test_the_types_are_shipped() -> None:
    assert (Path(resus.__file__).parent / "py.typed").is_file()
    assert any("resus" in str(file) for file in files("resus") or [])


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Resis'"):
        _ = resus.Resis


@pytest.mark.integration
@pytest.mark.parametrize(
    "code",
    [
        "import resus",
        "import resus; resus.Client(), resus.AsyncClient()",
        "from resus.cli.main import app; app(['--help'], standalone_mode=False)",
        "from resus.cli.main import app; app(['train', '--help'], standalone_mode=False)",
    ],
    ids=["import", "client", "help", "help of a command"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    code += f"\nimport sys; heavy = {HEAVY!r} & sys.modules.keys(); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
