"""Caches, failures of the store and the version of the model at /metrics and in the access log."""

import json
from pathlib import Path

import pytest
from service_fixtures import CAPACITY
from service_process import InProcess, event, in_process, post, predict

from resus.errors import StorageError
from resus.serving import Engine, LoadedModel, open_store
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.http.log_settings import LogSettings


def counted(client: InProcess, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def caches(client: InProcess, cache: str) -> tuple[float, float]:
    kept, computed = (
        counted(client, f'resus_cache_total{{cache="{cache}",outcome="{outcome}"}}') for outcome in ("kept", "computed")
    )
    return kept, computed


def test_what_is_kept_in_memory_is_counted(client: InProcess) -> None:
    predict(client, user="u", items=["1"])
    assert caches(client, "contexts") == (0, 1)
    assert caches(client, "users") == (0, 0), "nothing is kept of a user without events"
    post(client, event(1))
    for _ in range(3):
        predict(client, user="u", items=["1"])
    post(client, event(2, item=2))
    predict(client, user="u", items=["1"], context={"tags": ["evening"]})
    assert caches(client, "contexts") == (3, 2)
    assert caches(client, "users") == (3, 1), "an event of this process extends the user that is kept"


def test_failures_of_the_store_are_counted_by_kind(
    client: InProcess, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(batch: object) -> None:
        raise StorageError("cannot write /secret/place", public="the disk is full", kind="full")

    monkeypatch.setattr(engine.store, "add_traced", full)
    for _ in range(2):
        assert client.post("/v1/events", json={"events": [event(1)]}).status_code == 503
    assert counted(client, 'resus_store_errors_total{kind="full"}') == 2


def test_a_store_that_is_gone_says_so_in_its_kind(client: InProcess, tmp_path: Path) -> None:
    post(client, event(1))
    for file in tmp_path.glob("events*"):
        file.unlink()
    assert client.post("/v1/events", json={"events": [event(2)]}).status_code == 503
    assert counted(client, 'resus_store_errors_total{kind="gone"}') == 1


@pytest.mark.parametrize("hot", [True, False])
def test_the_access_log_names_the_model_that_answered(
    served_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, hot: bool
) -> None:
    engine = Engine(LoadedModel.load(served_run), open_store(str(tmp_path / "store"), capacity=CAPACITY))
    app = build_app(engine, served_run, Access("localhost", None), logs=LogSettings(as_json=True, access=True))
    kind = "application/json" if hot else "application/json; charset=utf-8"
    with in_process(app) as client:
        for path, body in (("predict", b'{"items": ["1"]}'), ("recommend", b"{}")):
            answer = client.post(f"/v1/{path}", content=body, headers={"content-type": kind})
            assert answer.json()["version"] == engine.loaded.version
        client.get("/healthz")
    told = [json.loads(line).get("model") for line in capsys.readouterr().err.splitlines()]
    assert told == [engine.loaded.version, engine.loaded.version, None]
