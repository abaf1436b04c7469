"""Shared by all tests: their order, the published data, a tiny disk, and hypothesis without time limits."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from planted_models import FEW_STEPS, small_log

from resus import InteractionLog
from resus.training import scales

pytest_plugins = ["service_fixtures", "client_fixtures"]

os.environ["COLUMNS"] = "200"  # no line of a table wraps, whatever the terminal
settings.register_profile("resus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("resus")

# The files that take longest begin first, so that no process is left alone with one at the end.
LONGEST = (
    "cluster/test_ray_training.py",
    "cluster/test_ray_prediction.py",
    "cli/test_reproduce_command.py",
    "external/test_model_files.py",
    "benchmarks/test_naive.py",
    "test_wheel.py",
    "test_notebooks.py",
    "model/test_devices.py",
    "estimator/test_types.py",
    "paper/rivals/test_method_contract.py",
    "test_readme.py",
    "serving/test_playground.py",
    "serving/test_store_crashes.py",
    "serving/test_service_process.py",
    "serving/test_profiles.py",
    "ingest/test_import.py",
    "ingest/test_consume.py",
    "baselines/test_shelf.py",
    "training/test_resume.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(scope="session", autouse=True)
def _few_steps() -> Iterator[None]:
    """RESUS+ learns its scales in a few steps. Tests of accuracy run `resus` as a process, which takes all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scales, "STEPS", FEW_STEPS)
        yield


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    """A cell of a comparison sets how many threads torch has. Later tests would be slow with more than cores."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder with the published data sets. In CI, a folder named by RESUS_DATA must exist."""
    named = os.environ.get("RESUS_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        if named and os.environ.get("CI"):
            pytest.fail(f"RESUS_DATA names {folder}, which does not exist")
        pytest.skip(f"no published data in {folder}: set RESUS_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def log() -> InteractionLog:
    """A small log: the item, a category, a number and several tags."""
    return small_log()


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a prepared log in `log` and a finished run in `run`."""
    from resus_process import workplace_in

    return workplace_in(tmp_path_factory.getbasetemp())


@pytest.fixture
def tiny_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system in the folder `disk`, of 64 kB or the size in an indirect parameter. CI runs as root and must be
    able to mount it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = getattr(request, "param", "64k")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("mounting a tiny disk needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)
