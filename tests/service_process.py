"""`resus serve` as a process of its own, and a service within the test where a process adds nothing."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from planted_models import KEEP, events, log_of, tiny

from resus import FieldSchema, TableSchema, build_log
from resus.data.datasets.planted import PlantedWorld, draw_events
from resus.data.split import split_users
from resus.serving.catalogue.catalogue import Catalogue
from resus.serving.catalogue.histories import histories_of, write_histories
from resus.serving.export.folder import export

COMMAND = [sys.executable, "-c", "from resus.cli.main import main; main()"]
PATIENCE = 120  # seconds; the machine may be busy


def make_export(folder: Path, *, learner: str = "ridge", seed: int = 1) -> Path:
    """A small trained model with a catalogue and test users."""
    log = log_of(events())
    tiny(learner=learner, seed=seed).fit(log, folder=folder)
    split = split_users(log.n_users, ratios=(7, 2, 1), order="random", seed=seed)
    catalogue = Catalogue.of(log, split)
    catalogue.save(folder)
    write_histories(folder, histories_of(log, split.test, catalogue, seed=seed))
    return folder


def make_scored_export(folder: Path) -> Path:
    """A model whose Ψ is the column `model_score`, which depends on more than the item; the item is `movie_id`."""
    schema = TableSchema(
        user="user",
        item="movie_id",
        time="time",
        label="click",
        fields={"device": FieldSchema(), "model_score": FieldSchema(kind="numeric")},
    )
    drawn = draw_events(PlantedWorld(users=80, items=20, events_per_user=14, seed=5)).rename({"item": "movie_id"})
    scored = drawn.with_columns(model_score=(drawn["crowd"] / (1 - drawn["crowd"])).log()).drop("truth", "crowd")
    log = build_log(scored, schema, KEEP).save(folder / "log")
    tiny(predictor="logits:model_score").fit(log, folder=folder / "run")
    export(folder / "run", folder / "log", folder / "export", titles={})
    return folder / "export"


class InProcess:
    """Asks an application without a network; what it lets through as an exception fails the test."""

    def __init__(self, app: FastAPI, runner: asyncio.Runner) -> None:
        self.run = runner.run
        self.ask = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost").request

    def request(self, method: str, address: str, **options: Any) -> httpx.Response:
        return self.run(self.ask(method, address, **options))

    def get(self, address: str, **options: Any) -> httpx.Response:
        return self.request("GET", address, **options)

    def post(self, address: str, **options: Any) -> httpx.Response:
        return self.request("POST", address, **options)

    def delete(self, address: str) -> httpx.Response:
        return self.request("DELETE", address)


@contextlib.contextmanager
def in_process(app: FastAPI) -> Iterator[InProcess]:
    """An application from its start to its end."""
    lifespan = app.router.lifespan_context(app)
    with asyncio.Runner() as runner:
        runner.run(lifespan.__aenter__())
        yield InProcess(app, runner)
        runner.run(lifespan.__aexit__(None, None, None))


@dataclass
class Serving:
    """A running service."""

    process: subprocess.Popen[str]
    client: httpx.Client
    written: str  # its first line; when it has ended, all that went to stdout and stderr

    def events(self, *batch: dict[str, Any]) -> list[str]:
        answer = self.client.post("/v1/events", json={"events": list(batch)})
        assert answer.status_code == 200, answer.text
        return [result["status"] for result in answer.json()["results"]]

    def predict(self, **request: Any) -> dict[str, Any]:
        answer = self.client.post("/v1/predict", json=request)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    @property
    def port(self) -> int:
        assert self.client.base_url.port is not None
        return self.client.base_url.port

    def two_workers(self) -> list[int]:
        """Ids of the processes that answer, when both do."""

        def started() -> bool:
            workers = children_of(self.process.pid)
            return len(workers) == 2 and all(listens_to_hangup(worker) for worker in workers)

        wait_until(started, "the start of two workers")
        for worker in children_of(self.process.pid):
            wait_until(lambda worker=worker: self.ask_only(worker, "/readyz"), "an answer of each worker")
        return children_of(self.process.pid)

    def ask_only(self, worker: int, address: str) -> Any:
        """What one worker answers while all others are stopped; None where it does not yet."""
        with stopped(*(other for other in children_of(self.process.pid) if other != worker)):
            try:
                return self.client.get(address, headers={"Connection": "close"}, timeout=5).json()
            except httpx.TimeoutException:
                return None

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def environment() -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "RESUS_TOKEN"}
    return inherited | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def serving(
    run: Path, *options: object, token: str | None = None, early: signal.Signals | None = None
) -> Iterator[Serving]:
    """`resus serve` on a free port, ready; `early` is a signal that it gets before it is."""
    words = [*COMMAND, "serve", run, "--port", 0, *options]
    with tempfile.TemporaryFile("w+") as errors, httpx.Client(timeout=PATIENCE) as client:
        process = subprocess.Popen(
            [str(word) for word in words], env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdout is not None
        service = Serving(process, client, process.stdout.readline())
        try:
            assert " on http://" in service.written, f"the first line was {service.written!r}"
            client.base_url = service.written.split(" on ")[1].split(",")[0]
            if token is not None:
                client.headers["Authorization"] = f"Bearer {token}"
            if early is not None:
                process.send_signal(early)
            assert client.get("/readyz").status_code == 200
            yield service
        finally:
            if process.poll() is None:
                process.terminate()
            service.written += process.communicate(timeout=PATIENCE)[0]
            errors.seek(0)
            sys.stderr.write(told := errors.read())
            service.written += told


def children_of(process: int) -> list[int]:
    """Ids of a process's direct children that are servers."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in listed if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]


def is_running(process: int) -> bool:
    """Neither gone nor waiting for somebody to take notice of its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def listens_to_hangup(process: int) -> bool:
    """As a worker does from its start on."""
    caught = Path(f"/proc/{process}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> signal.SIGHUP - 1 & 1)


@contextlib.contextmanager
def stopped(*processes: int) -> Iterator[None]:
    """They do nothing at all meanwhile; a supervisor has patience for a minute."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def wait_until(happened: Any, what: str) -> None:
    """Ask again and again, for as long as the machine may take."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE} seconds"
        time.sleep(0.05)


def event(number: int, user: str = "u", label: int = 1, time: float | None = None, item: int = 1) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "user": user,
        "time": float(number) if time is None else time,
        "label": label,
        "item": f"{item}",
        "features": {"tags": ["morning", "phone"]},
    }


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
