"""The access log and logs as JSON: a line per request without ids of users, unless asked, and bounded."""

import io
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import CAPACITY
from service_process import event, in_process, post

from resus.serving import Engine, LoadedModel, open_store
from resus.serving.http import access_log
from resus.serving.http.access_log import AccessLog
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.http.log_settings import JsonLine, LogSettings


def lines_of(served_run: Path, store: Path, settings: LogSettings, capture: pytest.CaptureFixture[str]) -> list[str]:
    """What a service logs while it stores an event, is asked for its user, and refuses a stranger."""
    engine = Engine(LoadedModel.load(served_run), open_store(str(store), capacity=CAPACITY))
    with in_process(build_app(engine, served_run, Access("localhost", None), logs=settings)) as client:
        post(client, event(1, user="alice"))
        assert client.get("/v1/users/alice").status_code == 200
        client.get("/v1/users/alice", headers={"Host": "elsewhere", "Authorization": "Bearer secret-token"})
    return capture.readouterr().err.splitlines()


def test_each_request_is_a_line_without_ids(
    served_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(served_run, tmp_path / "events", LogSettings(access=True), capsys)
    assert [line.split(" ", 3)[3].rsplit(" ", 2)[0] for line in lines] == [
        "POST /v1/events 200",
        "GET /v1/users/{user} 200",
        "GET unknown 403",
    ]
    assert not any("alice" in line or "secret" in line for line in lines)


def test_json_lines_hold_paths_only_if_asked(
    served_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = LogSettings(as_json=True, access=True, ids=True)
    told: list[dict[str, Any]] = [
        json.loads(line) for line in lines_of(served_run, tmp_path / "events", settings, capsys)
    ]
    assert [(one["method"], one["path"], one["status"]) for one in told] == [
        ("POST", "/v1/events", 200),
        ("GET", "/v1/users/alice", 200),
        ("GET", "/v1/users/alice", 403),
    ]
    assert all(one["milliseconds"] > 0 and one["time"].endswith("Z") for one in told)
    assert "secret" not in str(told)


def test_no_line_without_asking(served_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(served_run, tmp_path / "events", LogSettings(), capsys) == []


class Stuck(io.StringIO):
    """Nobody reads what is written to it, until `read_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.read_on = threading.Event()

    def write(self, text: str) -> int:
        assert self.read_on.wait(60)
        return super().write(text)


def test_a_log_that_nobody_reads_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stuck()
    log = AccessLog(LogSettings(access=True), stream)
    monkeypatch.setattr(access_log, "PER_SECOND", 10**6)
    for _ in range(access_log.WAITING + 1000):
        log.note("GET", "/healthz", "/healthz", 200, 0.001)
    log.flush(seconds=0)
    stream.read_on.set()
    log.flush(seconds=60)
    log._second = 0  # the next second begins
    log.note("GET", "/healthz", "/healthz", 200, 0.001)
    log.flush(seconds=60)
    written = stream.getvalue().splitlines()
    left_out = next(int(line.split()[3].replace(",", "")) for line in written if "further requests" in line)
    assert left_out >= 999
    assert len(written) - 1 + left_out == access_log.WAITING + 1001


def test_lines_of_a_second_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "PER_SECOND", 3)
    monkeypatch.setattr(time, "time", lambda: 1000.5)
    stream = io.StringIO()
    log = AccessLog(LogSettings(as_json=True, access=True), stream)
    for _ in range(10):
        log.note("GET", "/healthz", "/healthz", 200, 0.001)
    monkeypatch.setattr(time, "time", lambda: 1001.5)
    log.note("GET", "/healthz", "/healthz", 200, 0.001)
    log.flush(seconds=60)
    told = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["request"] * 3 + ["7 further requests were not logged", "request"]


def test_a_record_as_json_shows_no_message_of_an_exception() -> None:
    try:
        raise ValueError("alice liked m7")
    except ValueError as error:
        record = logging.LogRecord(
            "resus.serving", logging.ERROR, __file__, 1, "bad\n%s", ("luck",), (ValueError, error, error.__traceback__)
        )
    told = json.loads(JsonLine().format(record))
    assert (told["level"], told["message"], told["logger"]) == ("ERROR", "bad\nluck", "resus.serving")
    assert told["error"].startswith("ValueError at ")
    assert "alice" not in str(told)
