"""`resus serve` as a process: killed, drained, reloaded, guarded, and several workers that answer as one.

Starting a process takes seconds, so tests share services, and each test uses its own user.
"""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis_process import RedisProcess
from resus_process import resus_here
from service_process import (
    PATIENCE,
    Serving,
    children_of,
    event,
    is_running,
    kill,
    serving,
    stopped,
    wait_until,
)

from resus.cli.serve import command
from resus.errors import ArtifactError, ConfigError

pytestmark = pytest.mark.integration

ITEMS = ["1", "2", "3"]
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Options for a store of each kind: the file next to the run, which is the default, and a real Redis."""
    if request.param == "sqlite":
        return ()
    server: RedisProcess = request.getfixturevalue("server")
    return "--store", server.url


@pytest.fixture(scope="module")
def workers_run(store: tuple[str, ...], exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the two workers serve."""
    return Path(shutil.copytree(exported, tmp_path_factory.mktemp("workers") / "run"))


@pytest.fixture(scope="module")
def two_workers(workers_run: Path, store: tuple[str, ...]) -> Iterator[Serving]:
    with serving(workers_run, *store, "--workers", 2) as service:
        service.client.headers["Connection"] = "close"
        service.two_workers()
        yield service


@pytest.fixture(scope="module")
def guarded_run(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(exported, tmp_path_factory.mktemp("guarded") / "run"))


@pytest.fixture(scope="module")
def guarded(guarded_run: Path) -> Iterator[Serving]:
    """One process that demands a token, keeps two events per user, and got a SIGHUP before it was ready."""
    file = guarded_run.with_name("token")
    file.write_text(TOKEN)
    options = ("--host", "0.0.0.0", "--token-file", file, "--remember", 2)
    with serving(guarded_run, *options, token=TOKEN, early=signal.SIGHUP) as service:
        yield service


def put(run: Path, new: Path) -> None:
    """Replace a served folder by a copy of another."""
    shutil.rmtree(run)
    shutil.copytree(new, run)


def model_of(service: Serving) -> str:
    return str(service.client.get("/v1/model").json()["sha256"])


def counted(service: Serving, line: str) -> float:
    """The value of a metric; 0 before it was first counted."""
    lines = service.client.get("/metrics").text.splitlines()
    return sum(float(found.rpartition(" ")[2]) for found in lines if found.startswith(line))


def test_a_user_has_as_many_events_as_the_option_says(guarded: Serving) -> None:
    guarded.events(*(event(number, user="short") for number in (1, 2, 3)))
    assert guarded.predict(user="short", items=ITEMS)["support"] == 2
    assert guarded.client.get("/v1/model").json()["bounds"]["events_per_user"] == 2


def test_the_token_is_demanded_and_not_on_the_command_line(guarded: Serving) -> None:
    assert guarded.events(event(1, user="token")) == ["added"]
    for wrong in ("", "Bearer wrong", f"Basic {TOKEN}"):
        assert guarded.client.get("/v1/model", headers={"Authorization": wrong}).status_code == 401
    assert TOKEN not in Path(f"/proc/{guarded.process.pid}/cmdline").read_text()


def test_sighup_refuses_a_bad_artifact_and_loads_a_new_one(guarded: Serving, guarded_run: Path, another: Path) -> None:
    guarded.events(event(1, user="reloaded"))
    old = model_of(guarded)
    facts = (guarded_run / "artifact.json").read_text()
    (guarded_run / "artifact.json").write_text(facts[:-40])
    guarded.process.send_signal(signal.SIGHUP)
    wait_until(lambda: counted(guarded, 'resus_reloads_total{outcome="refused"}') == 1, "a refusal")
    assert model_of(guarded) == old
    put(guarded_run, another)
    guarded.process.send_signal(signal.SIGHUP)
    wait_until(lambda: model_of(guarded) != old, "a reload")
    assert guarded.predict(user="reloaded", items=ITEMS)["support"] == 1


def test_sigterm_answers_open_requests_and_shows_no_token(guarded: Serving) -> None:
    """The last test of this service."""
    body = b'{"items": ["1"]}'
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nExpect: 100-continue"
    with socket.create_connection(("127.0.0.1", guarded.port)) as slow:
        slow.settimeout(PATIENCE)
        slow.sendall(f"{head}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert slow.recv(1000).startswith(b"HTTP/1.1 100"), "the service waits for the body"
        guarded.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(guarded), "the end of new connections")
        slow.sendall(body)
        answer = slow.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"probability"' in answer
    assert guarded.process.wait(PATIENCE) in (0, -signal.SIGTERM)
    assert "reloaded" in guarded.output()
    assert TOKEN not in guarded.output()


def refuses(service: Serving) -> bool:
    try:
        socket.create_connection(("127.0.0.1", service.port), timeout=1).close()
    except OSError:
        return True
    return False


def test_two_workers_answer_as_one(two_workers: Serving) -> None:
    """Each worker takes in events, and the other one, with the first stopped, knows them."""
    service, user = two_workers, "both"
    one, other = children_of(service.process.pid)
    before = counted(service, 'resus_events_total{status="added"}')
    for number in range(4):
        with stopped(other):
            assert service.events(event(number, user=user, label=number % 2, item=number)) == ["added"]
            mine = service.predict(user=user, items=ITEMS)
        with stopped(one):
            theirs = service.predict(user=user, items=ITEMS)
        assert mine["support"] == theirs["support"] == number + 1
        for told, known in zip(mine["answers"], theirs["answers"], strict=True):
            assert told["residual"] == pytest.approx(known["residual"], abs=1e-5)
        one, other = other, one
    with stopped(one):
        assert service.client.delete(f"/v1/users/{user}").json() == {"deleted": True}
    with stopped(other):
        assert service.predict(user=user, items=ITEMS)["support"] == 0
        assert counted(service, 'resus_events_total{status="added"}') == before + 4


def test_two_workers_share_the_connections(two_workers: Serving) -> None:
    workers = two_workers.two_workers()
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            client = stack.enter_context(httpx.Client(base_url=two_workers.client.base_url, timeout=PATIENCE))
            assert client.get("/healthz").status_code == 200
        counts = [connections_of(worker, two_workers.port) for worker in workers]
    assert sum(counts) == 16
    assert min(counts) >= 6


def connections_of(process: int, port: int) -> int:
    """How many connections of clients a process has open."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    of_port = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"}
    files = (str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir())
    return sum(file in of_port for file in files)


def test_a_dead_worker_is_replaced_while_another_hangs(two_workers: Serving) -> None:
    hanging, victim = two_workers.two_workers()
    with stopped(hanging):
        kill(victim)
        wait_until(lambda: len({*children_of(two_workers.process.pid)} - {hanging, victim}) == 1, "a replacement")
        assert two_workers.predict(items=ITEMS)["support"] == 0
    assert hanging in two_workers.two_workers()


def test_a_killed_worker_is_replaced_and_nothing_is_lost(two_workers: Serving) -> None:
    service, user = two_workers, "written"
    acknowledged: list[str] = []
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                answer = service.client.post("/v1/events", json={"events": [event(number, user=user)]})
            except httpx.TransportError:  # the worker was killed before it answered
                continue
            if answer.status_code == 200:
                acknowledged.append(f"e{number}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: len(acknowledged) > 5, "writing")
        victim = children_of(service.process.pid)[0]
        kill(victim)
        wait_until(
            lambda: victim not in (now := children_of(service.process.pid)) and len(now) == 2,
            "a replacement",
        )
        written = len(acknowledged)
        wait_until(lambda: len(acknowledged) > written + 5, "writing after the kill")
    finally:
        stop.set()
        writer.join(PATIENCE)
    stored = [one["id"] for one in service.client.get(f"/v1/users/{user}").json()["events"]]
    assert len(stored) == len(set(stored))
    assert set(acknowledged[-150:]) <= set(stored)


def serves(service: Serving, worker: int, sha256: str) -> bool:
    model = service.ask_only(worker, "/v1/model")
    return model is not None and model["sha256"] == sha256


def test_a_reload_reaches_every_worker(two_workers: Serving, workers_run: Path, another: Path) -> None:
    old = model_of(two_workers)
    workers = two_workers.two_workers()
    put(workers_run, another)
    new = two_workers.client.post("/v1/reload").json()["sha256"]
    assert new != old
    for worker in workers:
        wait_until(lambda worker=worker: serves(two_workers, worker, new), "a reload in each worker")


def test_a_worker_that_cannot_answer_hears_of_a_reload_later(
    two_workers: Serving, workers_run: Path, exported: Path
) -> None:
    busy, idle = two_workers.two_workers()
    old = model_of(two_workers)
    put(workers_run, exported)
    with stopped(busy):
        two_workers.process.send_signal(signal.SIGHUP)
        wait_until(lambda: model_of(two_workers) != old, "a reload in one worker")
        time.sleep(2)  # twice as long as the supervisor waits for an answer
    new = two_workers.ask_only(idle, "/v1/model")["sha256"]
    wait_until(lambda: serves(two_workers, busy, new), "a reload in the other one")


def test_a_killed_supervisor_leaves_no_worker_and_loses_nothing(
    two_workers: Serving, workers_run: Path, store: tuple[str, ...]
) -> None:
    """The last test of this service. Another one on the same port has all events, and ends with its workers."""
    workers = two_workers.two_workers()
    sent = [event(number, user="kept", label=number % 2, item=number % 3) for number in range(20)]
    assert two_workers.events(*sent) == ["added"] * 20
    before = two_workers.predict(user="kept", items=ITEMS)
    two_workers.end(signal.SIGKILL)
    try:
        wait_until(lambda: not any(is_running(worker) for worker in workers), "the end of the workers")
    finally:
        for worker in filter(is_running, workers):
            kill(worker)
    with serving(workers_run, *store, "--port", two_workers.port, "--workers", 2) as service:
        workers = service.two_workers()
        assert service.events(*sent, event(99, user="kept")) == ["known"] * 20 + ["added"]
        assert service.client.delete("/v1/users/kept/events/e99").json() == {"deleted": True}
        after = service.predict(user="kept", items=ITEMS)
        assert service.end() == 0
    assert not any(is_running(worker) for worker in workers)
    assert (before["support"], after["support"]) == (20, 20)
    assert [a["probability"] for a in after["answers"]] == pytest.approx([a["probability"] for a in before["answers"]])


def test_a_port_in_use_is_one_sentence(exported: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with keeping_hangup():
            words = ("serve", exported, "--store", tmp_path / "events", "--port", taken.getsockname()[1])
            done = resus_here(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("resus: port ")
    assert len(done.stderr.splitlines()) == 1


@contextlib.contextmanager
def keeping_hangup() -> Iterator[None]:
    """The command ignores SIGHUP until it serves."""
    ours = signal.getsignal(signal.SIGHUP)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, ours)


def start_with(run: Path, **options: Any) -> None:
    """The command in this process, for what happens before it serves."""
    usual: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "store": None, "token_file": None, "workers": 1}
    with keeping_hangup():
        command(run, **usual | options)


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESUS_TOKEN", raising=False)


def test_a_service_that_needs_a_score_says_so_when_it_starts(
    scored_export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("resus.serving.http.workers.run_one", lambda _, listener: listener.close())
    start_with(scored_export, store=str(tmp_path / "events"))
    assert "model_score, which clients send with each event and candidate" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "token", "told"),
    [
        ({"host": "0.0.0.0"}, None, "token"),
        ({"host": "203.0.113.7"}, "a-token-of-some-length", "cannot listen"),
        ({"token_file": Path("absent")}, None, "absent"),
        ({}, "short", "RESUS_TOKEN"),
        ({"store": "ftp://somewhere"}, None, "store"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    exported: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    token: str | None,
    told: str,
) -> None:
    if token is not None:
        monkeypatch.setenv("RESUS_TOKEN", token)
    with pytest.raises(ConfigError, match=told):
        start_with(exported, **{"store": str(tmp_path / "events")} | options)


def test_a_missing_run_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="nowhere"):
        start_with(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("kind", ["exported", "another", "third"], ids=["ridge", "nearest", "plus"])
def test_serving_imports_no_torch_no_training_and_the_engine_no_http(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = [sys.executable, "-c", LOAD, request.getfixturevalue(kind), tmp_path / "events"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    engine, service = (set(json.loads(line)) for line in done.stdout.splitlines())
    assert not {"fastapi", "starlette", "uvicorn", "resus.serving.http"} & engine

    ours = {name for name in service if name.startswith("resus.")}
    rooms = Counter(name.split(".")[1] for name in ours)
    assert not {"training", "report", "paper", "baselines", "estimator", "scoring", "cluster", "cli"} & rooms.keys()
    assert {name for name in ours if name.startswith("resus.evaluation.")} == {
        "resus.evaluation.metrics",
        "resus.evaluation.results",
    }
    assert "resus.serving.export" not in ours
    assert len(ours) - rooms["serving"] <= 80, rooms  # what the service needs of the rest
    assert not {"torch", "onnxruntime", "lightgbm", "sklearn", "scipy", "pandas", "matplotlib", "ray"} & service
