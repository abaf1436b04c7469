"""A module imports only modules of its own layer and of the layers above it in this table."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import resus

LAYERS = (
    ("errors", "version", "progress", "arrays", "randomness", "checking", "history", "extras", "spaces", "wording"),
    ("files", "client"),
    ("tensor_files", "arrow_files", "checked_folder", "tracking"),
    ("data",),
    ("external",),
    ("episodes",),
    ("model", "config"),
    ("training", "evaluation", "scoring", "artifact"),
    ("baselines", "serving", "report"),
    ("estimator", "ingest"),
    ("cluster", "exploration", "tuning"),
    ("paper",),
    ("cli",),
    ("__main__",),
)
APART = (
    ("scoring", "evaluation"),
    ("report", "estimator"),
    ("report", "baselines"),
    ("baselines", "estimator"),
    ("serving", "report"),
    ("serving", "baselines"),
    ("ingest", "estimator"),
    ("estimator", "ingest"),
)
NEVER = {
    "client": {"torch", "numpy", "polars", "pyarrow", "typer", "rich", "fastapi"},
    "data": {"torch", "lightgbm", "matplotlib", "typer", "rich"},
    "config": {"torch", "polars", "numpy"},
    "external": {"torch", "typer", "rich", "matplotlib", "lightgbm", "xgboost", "catboost", "onnxruntime", "pandas"},
    "episodes": {"polars", "typer", "rich"},
    "baselines": {"polars", "typer", "rich", "matplotlib"},
    "exploration": {"typer", "rich"},
    "paper": {"polars", "typer", "rich"},
    "training": {"polars", "typer", "rich"},
    "evaluation": {"polars", "typer", "rich", "matplotlib"},
    "report": {"torch", "polars", "typer"},
    "ingest": {"torch", "typer", "rich", "fastapi", "uvicorn"},
}
SOURCE = Path(resus.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")
COMPARING = {SOURCE / "cli" / name for name in ("reproduce.py", "reproducing.py", "warm_up.py")}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports_of(path: Path) -> set[str]:
    """Full names of all modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports name the whole path"
            assert node.module is not None
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def parts_of(names: set[str]) -> set[str]:
    """The modules and packages of resus among some imports."""
    return {name.split(".")[1] for name in names if name.startswith("resus.") and name.split(".")[1] in RANK}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_imports_through_the_package(path: Path) -> None:
    """`from resus import Resus` would hide which module is imported: the package looks it up at run time."""
    assert "resus" not in imports_of(path), "name the module: 'from resus.estimator import Resus'"


def test_the_table_names_every_module() -> None:
    assert {layer_of(path) for path in MODULES} == set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_import_points_back(path: Path) -> None:
    own = layer_of(path)
    found = imports_of(path)
    back = {part for part in parts_of(found) if RANK[part] > RANK[own]}
    assert not back, f"{own} must not import {back}"
    for one, other in APART:
        assert not (own == one and other in parts_of(found)), f"{one} must not import {other}"
    outside = {name.partition(".")[0] for name in found} & NEVER.get(own, set())
    assert not outside, f"{own} must not import {outside}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_unpickled(path: Path) -> None:
    """A model file must not be able to run code: no pickle, and no loader built on it."""
    names = {name.partition(".")[0] for name in imports_of(path)}
    assert not names & {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not calls & {"torch.load", "torch.save", "np.load", "numpy.load", "eval", "exec", "yaml.load"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_commands_that_compare_open_the_paper(path: Path) -> None:
    opened = {name for name in imports_of(path) if name.startswith("resus.paper")}
    assert not opened or layer_of(path) == "paper" or path in COMPARING


def test_warm_up_opens_the_paper_only_when_a_rival_is_named() -> None:
    script = "import sys; import resus.cli.warm_up as w; w._methods(['user-bias']); print('resus.paper' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
