"""Fixtures that tests of the service share: small exports, a real Redis, and empty stores of each kind."""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis_process import RedisProcess, redis_process

if TYPE_CHECKING:
    from service_process import InProcess

    from resus.serving import Engine

CAPACITY = 8  # events per user
Place = Callable[[], str]  # returns the address of an empty store
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from service_process import make_export  # here, because it imports torch, and pytest loads this file for every test

    return make_export(tmp_path_factory.mktemp("exported") / "run")


@pytest.fixture(scope="session")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same fields as `exported`, with other weights and another learner."""
    from service_process import make_export

    return make_export(tmp_path_factory.mktemp("another") / "run", learner="nearest", seed=2)


@pytest.fixture(scope="session")
def third(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same fields again, with RESUS+."""
    from service_process import make_export

    return make_export(tmp_path_factory.mktemp("third") / "run", learner="plus", seed=3)


@pytest.fixture(scope="session")
def scored_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from service_process import make_scored_export

    return make_scored_export(tmp_path_factory.mktemp("scored"))


@pytest.fixture(scope="session")
def evaluated(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`exported` with the results of an evaluation."""
    from planted_models import events, log_of

    from resus import Resus

    folder = Path(shutil.copytree(exported, tmp_path_factory.mktemp("evaluated") / "run"))
    Resus.load(folder).evaluate(log_of(events())).write(folder / "results.json")
    return folder


@pytest.fixture
def served_run(evaluated: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(evaluated, tmp_path / "run"))


@pytest.fixture
def engine(served_run: Path, tmp_path: Path) -> "Engine":
    from resus.serving import Engine, LoadedModel, open_store

    store = open_store(str(tmp_path / "events"), capacity=CAPACITY)
    return Engine(LoadedModel.load(served_run), store, capacity=CAPACITY)


@pytest.fixture
def client(engine: "Engine", served_run: Path) -> Iterator["InProcess"]:
    """A service without a network."""
    from service_process import in_process

    from resus.serving.http.app import build_app
    from resus.serving.http.guard import Access

    with in_process(build_app(engine, served_run, Access("localhost", None))) as opened:
        yield opened


@pytest.fixture(scope="session")
def server() -> Iterator[RedisProcess]:
    with tempfile.TemporaryDirectory() as folder, redis_process(Path(folder)) as process:
        yield process


@pytest.fixture(params=["sqlite", "redis", "unix"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "sqlite":
        numbers = itertools.count()
        # in memory, where there is such a folder: these tests open many stores and never cut the power
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            yield lambda: f"sqlite:{folder}/{next(numbers)}.db"
        return
    process: RedisProcess = request.getfixturevalue("server")

    def emptied() -> str:
        process.empty()
        return process.url if request.param == "redis" else f"unix:{process.socket}"

    yield emptied
