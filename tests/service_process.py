"""`resus serve` as a process, and a service inside the test where a process adds nothing."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx
from fastapi import FastAPI
from planted_models import KEEP, events, log_of, tiny
from resus_process import COMMAND, environment

from resus import FieldSchema, TableSchema, build_log
from resus.checked_folder import CheckedFolder, write_facts
from resus.data.datasets.planted import PlantedWorld, draw_events
from resus.data.split import split_users
from resus.serving.catalogue import CATALOGUE, Catalogue
from resus.serving.export import export
from resus.serving.histories import TEST_USERS, histories_of, write_histories
from resus.serving.messages import EventsAnswer, PredictAnswer

PATIENCE = 120  # seconds, because the machine may be busy


def make_export(folder: Path, *, learner: str = "ridge", seed: int = 1) -> Path:
    """A small trained model with a catalogue and test users, and without ONNX files."""
    log = log_of(events())
    tiny(learner=learner, seed=seed).fit(log, folder=folder)
    split = split_users(log.n_users, ratios=(7, 2, 1), order="random", seed=seed)
    catalogue = Catalogue.of(log, split)
    catalogue.save(folder)
    write_histories(folder, histories_of(log, split.test, catalogue, seed=seed))
    return sealed(folder, CATALOGUE, TEST_USERS)


def sealed(folder: Path, *more: str) -> Path:
    """Let the facts of a folder describe its files as they are now, and `more` files."""
    opened = CheckedFolder.open(folder)
    write_facts(folder, opened.facts, {name for name in (*opened.files, *more) if (folder / name).is_file()})
    return folder


def make_scored_export(folder: Path) -> Path:
    """A model whose shared scores are the field `model_score`, which varies for one item; the item is `movie_id`."""
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
    """Calls an application without a network. An exception that it does not handle fails the test."""

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


def post(client: InProcess, *events: dict[str, Any]) -> list[str]:
    answer = client.post("/v1/events", json={"events": list(events)})
    assert answer.status_code == 200, answer.text
    return [result.status for result in EventsAnswer.model_validate(answer.json()).results]


def predict(client: InProcess, **request: Any) -> PredictAnswer:
    answer = client.post("/v1/predict", json=request)
    assert answer.status_code == 200, answer.text
    return PredictAnswer.model_validate(answer.json())


def refused(client: InProcess, body: bytes, address: str = "/v1/predict") -> tuple[int, str]:
    """The status and the one sentence of a refusal."""
    answer = client.post(address, content=body, headers={"content-type": "application/json"})
    assert list(answer.json()) == ["error"], answer.text
    return answer.status_code, answer.json()["error"]


@contextlib.contextmanager
def in_process(app: FastAPI) -> Iterator[InProcess]:
    """Start an application, and end it."""
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
    log: IO[str]  # stderr
    said: str  # the first line of stdout

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
        """Wait until both workers answer, and return their process ids."""

        def started() -> bool:
            workers = children_of(self.process.pid)
            return len(workers) == 2 and all(listens_to_hangup(worker) for worker in workers)

        wait_until(started, "the start of two workers")
        for worker in children_of(self.process.pid):
            wait_until(lambda worker=worker: self.ask_only(worker, "/readyz"), "an answer of each worker")
        return children_of(self.process.pid)

    def ask_only(self, worker: int, address: str) -> Any:
        """The answer of one worker while all others are stopped; None if it does not answer yet."""
        with stopped(*(other for other in children_of(self.process.pid) if other != worker)):
            try:
                return self.client.get(address, headers={"Connection": "close"}, timeout=5).json()
            except httpx.TimeoutException:
                return None

    def output(self) -> str:
        """All that an ended service wrote to stdout and stderr."""
        assert self.process.stdout is not None
        self.said += self.process.stdout.read()
        self.log.seek(0)
        return self.said + self.log.read()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(
    run: Path,
    *options: object,
    token: str | None = None,
    early: signal.Signals | None = None,
    command: Sequence[str] = COMMAND,
) -> Iterator[Serving]:
    """`resus serve` on a free port, once it is ready; it gets the signal `early` before."""
    words = [*command, "serve", run, "--port", 0, *options]
    with tempfile.TemporaryFile("w+") as errors, httpx.Client(timeout=PATIENCE) as client:
        without_token = {name: value for name, value in environment().items() if name != "RESUS_TOKEN"}
        process = subprocess.Popen(
            [str(word) for word in words], env=without_token, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdout is not None
        service = Serving(process, client, errors, process.stdout.readline())
        try:
            assert " on http://" in service.said, f"the first line was {service.said!r}"
            client.base_url = service.said.split(" on ")[1].split(",")[0]
            if token is not None:
                client.headers["Authorization"] = f"Bearer {token}"
            if early is not None:
                process.send_signal(early)
            assert client.get("/readyz").status_code == 200
            yield service
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(PATIENCE)
            sys.stderr.write(service.output())
            process.stdout.close()


def children_of(process: int) -> list[int]:
    """Ids of the workers of a supervisor."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in listed if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]


def is_running(process: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def listens_to_hangup(process: int) -> bool:
    """A worker does as soon as it answers."""
    caught = Path(f"/proc/{process}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> signal.SIGHUP - 1 & 1)


@contextlib.contextmanager
def stopped(*processes: int) -> Iterator[None]:
    """Stop processes for a while; a supervisor tolerates a minute."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def wait_until(happened: Any, what: str) -> None:
    """Ask again and again until something happened."""
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
