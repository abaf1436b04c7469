"""`resus serve` as a process: killed, drained, reloaded, guarded, and several workers that answer as one."""

import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis_process import redis_process
from service_process import (
    COMMAND,
    PATIENCE,
    Serving,
    children_of,
    environment,
    event,
    is_running,
    kill,
    make_scored_export,
    serving,
    stopped,
    wait_until,
)

from resus.cli.serve import command
from resus.errors import ArtifactError, ConfigError

pytestmark = pytest.mark.integration

ITEMS = ["1", "2", "3"]


@pytest.fixture
def run(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "run"))


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """Options for a store of each kind: the file beside the run, which takes none, and a real Redis."""
    if request.param == "sqlite":
        yield ()
        return
    with tempfile.TemporaryDirectory() as folder, redis_process(Path(folder)) as server:
        yield "--store", server.url


def test_acknowledged_events_outlive_a_killed_server(run: Path, store: tuple[str, ...]) -> None:
    with serving(run, *store) as service:
        assert service.events(event(1), event(2, label=0, item=2)) == ["added", "added"]
        before = service.predict(user="u", items=ITEMS)
        assert service.end(signal.SIGKILL) == -signal.SIGKILL
    with serving(run, *store) as service:
        assert service.events(event(1), event(2, label=0, item=2)) == ["known", "known"]
        after = service.predict(user="u", items=ITEMS)
    assert before["support"] == 2
    assert [a["probability"] for a in after["answers"]] == pytest.approx([a["probability"] for a in before["answers"]])


def test_a_service_that_needs_a_score_says_so_when_it_starts(tmp_path: Path) -> None:
    with serving(make_scored_export(tmp_path)) as service:
        pass
    assert "model_score, which clients send with each event and candidate" in service.written


def test_sigterm_answers_what_was_asked_and_ends(run: Path) -> None:
    with serving(run) as service:
        body = b'{"items": ["1"]}'
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
        with socket.create_connection((str(service.client.base_url.host), service.client.base_url.port or 0)) as slow:
            slow.settimeout(PATIENCE)
            slow.sendall(f"{head}\r\nContent-Type: application/json\r\n\r\n".encode() + body[:4])
            service.client.get("/healthz")  # the server has met the slow request by now
            service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: refuses(service), "the end of new connections")
            slow.sendall(body[4:])
            answer = slow.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"probability"' in answer
        assert service.process.wait(PATIENCE) in (0, -signal.SIGTERM)


def refuses(service: Serving) -> bool:
    url = service.client.base_url
    try:
        socket.create_connection((str(url.host), url.port or 0), timeout=1).close()
    except OSError:
        return True
    return False


def test_sighup_loads_a_new_artifact_and_refuses_a_bad_one(run: Path, another: Path) -> None:
    with serving(run) as service:
        service.events(event(1))
        old = service.client.get("/v1/model").json()["sha256"]
        facts = (run / "artifact.json").read_text()
        (run / "artifact.json").write_text(facts[:-40])
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: 'outcome="refused"} 1.0' in service.client.get("/metrics").text, "a refusal")
        assert service.client.get("/v1/model").json()["sha256"] == old
        shutil.rmtree(run)
        shutil.copytree(another, run)
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: service.client.get("/v1/model").json()["sha256"] != old, "a reload")
        assert service.predict(user="u", items=ITEMS)["support"] == 1


def test_an_early_sighup_does_no_harm(run: Path) -> None:
    with serving(run, early=signal.SIGHUP) as service:
        assert service.predict(items=ITEMS)["support"] == 0


def test_a_user_is_remembered_as_far_as_asked(run: Path) -> None:
    with serving(run, "--remember", 2) as service:
        service.events(*(event(number) for number in (1, 2, 3)))
        assert service.predict(user=event(1)["user"], items=ITEMS)["support"] == 2
        assert service.client.get("/v1/model").json()["bounds"]["events_per_user"] == 2


def test_the_token_is_demanded_and_never_shown(run: Path, tmp_path: Path) -> None:
    token, file = "a-token-of-some-length", tmp_path / "token"
    file.write_text(token)
    with serving(run, "--host", "0.0.0.0", "--token-file", file, token=token) as service:
        assert service.events(event(1)) == ["added"]
        for wrong in ("", "Bearer wrong", f"Basic {token}"):
            assert service.client.get("/v1/model", headers={"Authorization": wrong}).status_code == 401
        command = Path(f"/proc/{service.process.pid}/cmdline").read_text()
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: 'outcome="loaded"} 1.0' in service.client.get("/metrics").text, "a reload")
    assert "reloaded" in service.written
    assert token not in command + service.written


def test_two_workers_answer_as_one(run: Path, store: tuple[str, ...]) -> None:
    """Each takes in an event and the other one, with the first stopped, knows it."""
    with serving(run, *store, "--workers", 2) as service:
        service.client.headers["Connection"] = "close"
        one, other = service.two_workers()
        for number in range(6):
            with stopped(other):
                assert service.events(event(number, label=number % 2, item=number)) == ["added"]
                mine = service.predict(user="u", items=ITEMS)
            with stopped(one):
                theirs = service.predict(user="u", items=ITEMS)
            assert mine["support"] == theirs["support"] == number + 1
            for told, known in zip(mine["answers"], theirs["answers"], strict=True):
                assert told["residual"] == pytest.approx(known["residual"], abs=1e-5)
            one, other = other, one
        with stopped(one):
            assert service.client.delete("/v1/users/u").json() == {"deleted": True}
        with stopped(other):
            assert service.predict(user="u", items=ITEMS)["support"] == 0
            assert 'resus_events_total{status="added"} 6.0' in service.client.get("/metrics").text


def test_a_killed_worker_is_replaced_and_nothing_is_lost(run: Path, store: tuple[str, ...]) -> None:
    with serving(run, *store, "--workers", 2) as service:
        service.client.headers["Connection"] = "close"
        wait_until(lambda: len(children_of(service.process.pid)) == 2, "the start of two workers")
        acknowledged: list[str] = []
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    answer = service.client.post("/v1/events", json={"events": [event(number)]})
                except httpx.TransportError:  # the worker was killed before it answered
                    continue
                if answer.status_code == 200:
                    acknowledged.append(f"e{number}")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(2):
                written = len(acknowledged)
                wait_until(lambda so_far=written: len(acknowledged) > so_far + 5, "writing")
                victim = children_of(service.process.pid)[0]
                kill(victim)
                wait_until(
                    lambda gone=victim: gone not in (now := children_of(service.process.pid)) and len(now) == 2,
                    "a replacement",
                )
        finally:
            stop.set()
            writer.join(PATIENCE)
        stored = [one["id"] for one in service.client.get("/v1/users/u").json()["events"]]
    assert len(stored) == len(set(stored))
    assert set(acknowledged[-150:]) <= set(stored)


def serves(service: Serving, worker: int, sha256: str) -> bool:
    model = service.ask_only(worker, "/v1/model")
    return model is not None and model["sha256"] == sha256


def test_a_reload_reaches_every_worker(run: Path, another: Path) -> None:
    with serving(run, "--workers", 2) as service:
        service.client.headers["Connection"] = "close"
        workers = service.two_workers()
        old = service.client.get("/v1/model").json()["sha256"]
        shutil.rmtree(run)
        shutil.copytree(another, run)
        new = service.client.post("/v1/reload").json()["sha256"]
        assert new != old
        for worker in workers:
            wait_until(lambda worker=worker: serves(service, worker, new), "a reload in each worker")
        assert service.end() == 0
    assert not any(is_running(worker) for worker in workers)


def test_a_worker_that_cannot_answer_hears_of_a_reload_later(run: Path, another: Path) -> None:
    with serving(run, "--workers", 2) as service:
        service.client.headers["Connection"] = "close"
        busy, idle = service.two_workers()
        old = service.client.get("/v1/model").json()["sha256"]
        shutil.rmtree(run)
        shutil.copytree(another, run)
        with stopped(busy):
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: service.client.get("/v1/model").json()["sha256"] != old, "a reload in one worker")
            time.sleep(2)  # twice as long as the supervisor waits for an answer
        new = service.ask_only(idle, "/v1/model")["sha256"]
        wait_until(lambda: serves(service, busy, new), "a reload in the other one")


def test_a_killed_supervisor_leaves_no_worker_and_loses_nothing(run: Path) -> None:
    with serving(run, "--workers", 2) as service:
        service.client.headers["Connection"] = "close"
        workers = service.two_workers()
        assert service.events(*(event(number) for number in range(20))) == ["added"] * 20
        service.end(signal.SIGKILL)
        try:
            wait_until(lambda: not any(is_running(worker) for worker in workers), "the end of the workers")
        finally:
            for worker in filter(is_running, workers):
                kill(worker)
    with serving(run, "--port", service.port) as service:
        assert service.events(*(event(number) for number in range(20))) == ["known"] * 20


def test_a_port_in_use_is_one_sentence(run: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run(
            [*COMMAND, "serve", str(run), "--port", str(taken.getsockname()[1])],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("resus: port ")
    assert len(done.stderr.splitlines()) == 1


def start_with(run: Path, **options: Any) -> None:
    """The command in this process, for mistakes that end it before it serves."""
    usual: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "store": None, "token_file": None, "workers": 1}
    ours = signal.getsignal(signal.SIGHUP)
    try:
        command(run, **usual | options)
    finally:
        signal.signal(signal.SIGHUP, ours)


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
    run: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], token: str | None, told: str
) -> None:
    monkeypatch.delenv("RESUS_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("RESUS_TOKEN", token)
    with pytest.raises(ConfigError, match=told):
        start_with(run, **options)


def test_a_missing_run_is_one_sentence_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESUS_TOKEN", raising=False)
    with pytest.raises(ArtifactError, match="nowhere"):
        start_with(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
