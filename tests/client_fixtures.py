"""Fixtures for tests of the client: a real service with a token, and both kinds of client."""

import asyncio
import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from service_process import Serving

    from resus import AsyncClient, Client


TOKEN = "a-token-for-tests-only"
Opened = Callable[..., Any]


@pytest.fixture(scope="session")
def service(evaluated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Serving"]:
    from service_process import serving  # here, because it imports torch, and pytest loads this file for every test

    run = Path(shutil.copytree(evaluated, tmp_path_factory.mktemp("client") / "run"))
    run.parent.joinpath("token").write_text(TOKEN)
    with serving(run, "--token-file", run.parent / "token", token=TOKEN) as running:
        yield running


class InLoop:
    """An asynchronous client whose methods are waited for."""

    def __init__(self, client: "AsyncClient", run: Callable[[Any], Any]) -> None:
        self.client, self._run = client, run

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)
        assert inspect.iscoroutinefunction(method)
        return lambda *given, **options: self._run(method(*given, **options))


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest, service: "Serving") -> Iterator[Opened]:
    """Makes a client of either kind; all are closed."""
    from resus import AsyncClient, Client

    if request.param == "sync":
        made: list[Client] = []

        def make(address: str = str(service.client.base_url), **options: Any) -> "Client":
            made.append(Client(address, **{"token": TOKEN, **options}))
            return made[-1]

        yield make
        for client in made:
            client.close()
        return
    with asyncio.Runner() as runner:
        wrapped: list[InLoop] = []

        def make_async(address: str = str(service.client.base_url), **options: Any) -> InLoop:
            wrapped.append(InLoop(AsyncClient(address, **{"token": TOKEN, **options}), runner.run))
            return wrapped[-1]

        yield make_async
        for one in wrapped:
            one.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a client would have waited."""
    import anyio

    found: list[float] = []

    async def wait(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("time.sleep", found.append)
    monkeypatch.setattr(anyio, "sleep", wait)
    return found
