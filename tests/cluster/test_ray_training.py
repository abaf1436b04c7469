"""Two local workers of a real Ray cluster, one of them killed."""

import ast
import importlib.util
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from resus_process import SMALL, resus_here, start

import resus
from resus.cluster import cluster
from resus.errors import ConfigError

SETTINGS = [*SMALL, "--set", "predictor.epochs=8", "--set", "predictor.patience=8"]


def history(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def training_workers(command: int) -> set[int]:
    """The processes among a command's descendants that train."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    family, grown = {command}, True
    while grown:
        children = {int(pid) for pid, parent, *_ in rows if int(parent) in family} - family
        family, grown = family | children, bool(children)
    return {int(pid) for pid, _, *name in rows if int(pid) in family and name and "RayTrainWorker" in name[0]}


@pytest.mark.integration
def test_a_killed_worker_is_replaced_and_the_model_is_that_of_one_worker(tmp_path: Path) -> None:
    for words in (
        ["prepare", "planted", "--set", "users=120", "--set", "items=40", "--out", "log"],
        ["train", "log", *SETTINGS, "--out", "alone"],
    ):
        done = resus_here(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    words = ["train", "log", *SETTINGS, "--out", "two", "--engine", "ray", "--workers", "2"]
    checkpoint = tmp_path / "two" / "checkpoints" / "predictor.safetensors"
    with start(*words, cwd=tmp_path) as command:
        deadline = time.monotonic() + 240
        while not checkpoint.exists():
            assert time.monotonic() < deadline, "no checkpoint"
            assert command.poll() is None, command.stderr and command.stderr.read()
            time.sleep(0.01)
        first = training_workers(command.pid)
        os.kill(max(first), signal.SIGKILL)
        replaced: set[int] = set()
        while command.poll() is None and time.monotonic() < deadline:
            replaced |= training_workers(command.pid) - first
            time.sleep(0.2)
        said = command.stderr.read() if command.stderr else ""
    assert command.returncode == 0, said
    assert len(first) == 2
    assert len(replaced) == 2, "all workers start again"
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == [
        "artifact.json",
        "metrics.jsonl",
        "model.safetensors",
        "users.safetensors",
    ]
    together, alone = history(tmp_path / "two"), history(tmp_path / "alone")
    assert [line["epoch"] for line in together] == [line["epoch"] for line in alone]
    for mine, theirs in zip(together, alone, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], abs=1e-3)
        assert mine["validation_auc"] == pytest.approx(theirs["validation_auc"], abs=5e-3)
    again = resus_here(*words, cwd=tmp_path)
    assert again.returncode == 2
    assert "two holds a finished run" in again.stderr


def test_without_the_extra_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else find(name, *rest))
    done = resus_here("train", "planted", "--engine", "ray", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'resus[ray]'" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "named"),
    [(["--engine", "spark"], ["spark", "local", "ray"]), (["--workers", "3"], ["--workers", "--engine ray"])],
)
def test_an_engine_that_is_not_there(words: list[str], named: list[str], tmp_path: Path) -> None:
    done = resus_here("train", "planted", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert all(name in done.stderr for name in named)


def test_at_least_one_worker() -> None:
    with pytest.raises(ConfigError, match="--workers is 0"), cluster(0):
        pass


def test_no_module_loads_ray_when_it_is_imported() -> None:
    for path in Path(resus.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert "ray" not in {name.partition(".")[0] for name in names}, path
