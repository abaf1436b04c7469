"""The contract of each route."""

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest
from extending.metric import ACCURACY
from planted_models import events
from service_fixtures import CAPACITY
from service_process import PATIENCE, InProcess, event, in_process, post, predict, refused, sealed

from resus import Resus
from resus.evaluation.metrics import METRICS
from resus.files import write_json
from resus.serving.engine import Engine
from resus.serving.http.app import build_app
from resus.serving.http.guard import HEADERS, Access
from resus.serving.http.pages import PAGE, REFERENCE
from resus.serving.http.service import THREADS
from resus.serving.loaded import RESULTS, LoadedModel
from resus.serving.messages import ModelAnswer, UserAnswer
from resus.serving.store import open_store


def test_events_are_idempotent_and_the_next_score_knows_them(client: InProcess) -> None:
    before = predict(client, user="u", items=["1"])
    assert post(client, event(1), event(1), event(1, label=0)) == ["added", "known", "corrected"]
    after = predict(client, user="u", items=["1"])
    assert (before.support, after.support) == (0, 1)
    assert after.answers[0].basis == before.answers[0].basis
    assert after.answers[0].residual < before.answers[0].residual
    post(client, event(1))
    assert predict(client, user="u", items=["1"]).answers[0].residual > 0


def test_the_stage_is_that_of_the_evaluation_and_a_full_user_drops_the_oldest(client: InProcess) -> None:
    stages = []
    for number in range(10, 10 + CAPACITY):
        post(client, event(number))
        stages.append(client.get("/v1/users/u").json()["stage"])
    assert stages == ["I", "I", "II", "II", "III", "III", "warm", "warm"]
    assert post(client, event(1), event(99)) == ["too old", "added"]
    kept = UserAnswer.model_validate(client.get("/v1/users/u").json())
    assert [one.id for one in kept.events] == [f"e{n}" for n in [*range(11, 10 + CAPACITY), 99]]
    assert (kept.support, kept.stage) == (CAPACITY, "warm")


def test_any_id_can_be_read_and_deleted(client: InProcess) -> None:
    for user in ("plain", "with space", "a/b", "50%", "%2F", "näme", "?q=1#x", "\u0000", "😀" * 100):
        address = f"/v1/users/{quote(user, safe='')}"
        post(client, event(1, user=user) | {"id": user}, event(2, user=user), event(3, user="another"))
        assert client.get(address).json()["user"] == user
        assert client.delete(f"{address}/events/{quote(user, safe='')}").json() == {"deleted": True}
        assert [one["id"] for one in client.get(address).json()["events"]] == ["e2"]
        assert client.delete(address).json() == {"deleted": True}
        assert client.get(address).status_code == 404
        assert client.delete(address).json() == {"deleted": False}
        assert predict(client, user=user, items=["1"]).support == 0
        assert predict(client, user="another", items=["1"]).support == 1


def test_an_answer_is_explained_only_on_request(client: InProcess) -> None:
    post(client, event(1), event(2, label=0, item=3))
    plain = client.post("/v1/predict", json={"user": "u", "items": ["1", "2"]}).json()["answers"]
    assert all("because" not in answer and answer["deviation"] is None for answer in plain)
    explained = predict(client, user="u", items=["1", "2"], deviation=True, explain=True).answers
    assert all(answer.deviation for answer in explained)
    assert all({reason.event for reason in answer.because or []} == {"e1", "e2"} for answer in explained)


def test_the_model_tells_what_to_send(client: InProcess, served_run: Path) -> None:
    told = ModelAnswer.model_validate(client.get("/v1/model").json())
    loaded = LoadedModel.load(served_run)
    assert (told.name, told.item, told.sha256) == ("RESUS-RR", "item", loaded.sha256)
    roles = {field.name: field.role for field in told.fields}
    assert roles == {"item": "item", "category": "item", "price": "item", "tags": "context"}
    assert told.catalogue == loaded.catalogue_size > 0


def test_the_catalogue_is_searched(client: InProcess) -> None:
    every = client.get("/v1/catalogue", params={"limit": 1000}).json()
    assert len(every["items"]) == every["size"]
    assert [item["count"] for item in every["items"]] == sorted((i["count"] for i in every["items"]), reverse=True)
    found = client.get("/v1/catalogue", params={"query": "1", "limit": 3}).json()["items"]
    assert found
    assert all("1" in item["item"] for item in found)


def test_a_test_user_can_be_replayed(client: InProcess) -> None:
    events = client.get("/v1/test-users/random").json()["events"]
    assert len(events) > 1
    inline = [{"label": e["label"], "item": e["item"], "features": e["context"]} for e in events[:-1]]
    answer = predict(client, events=inline, context=events[-1]["context"], items=[events[-1]["item"]])
    assert answer.support == min(len(inline), CAPACITY)


def test_results_are_those_of_the_artifact_and_say_how_to_show_each_metric(
    client: InProcess, served_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = json.loads((served_run / RESULTS).read_text())
    for model in results["models"].values():
        for values in model["sizes"].values():
            values["accuracy"] = 0.25
    write_json(served_run / RESULTS, results)
    monkeypatch.setitem(METRICS, "accuracy", ACCURACY)
    assert client.post("/v1/reload").status_code == 200
    told = client.get("/v1/results").json()
    metrics = {metric["name"]: metric for metric in told.pop("metrics")}
    assert told == results
    assert list(metrics) == list(METRICS)
    assert metrics["logloss"]["direction"] == "lower is better"
    assert metrics["accuracy"]["title"] == ACCURACY.title
    assert metrics["accuracy"]["shown"][results["base"]]["0"] == "0.250"


def test_a_run_that_was_not_exported_says_what_is_missing(served_run: Path, tmp_path: Path) -> None:
    for name in ("catalogue.arrow", "test-users.json", "results.json"):
        (served_run / name).unlink()
    sealed(served_run)
    engine = Engine(LoadedModel.load(served_run), open_store(str(tmp_path / "events"), capacity=CAPACITY))
    with in_process(build_app(engine, served_run, Access("localhost", None))) as client:
        assert client.get("/v1/model").json()["catalogue"] == 0
        assert client.get("/v1/catalogue").json() == {"items": [], "size": 0}
        for address in ("/v1/test-users/random", "/v1/results"):
            refused = client.get(address)
            assert refused.status_code == 404
            assert "resus" in refused.json()["error"]
        assert predict(client, items=["1"]).answers


def test_health_metrics_docs_and_pages_answer(client: InProcess) -> None:
    post(client, event(1))
    predict(client, user="u", items=["1"])
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
    counted = client.get("/metrics").text
    for line in (
        'resus_events_total{status="added"} 1.0',
        'resus_predictions_total{stage="I",version="RESUS-RR@',
        "resus_users 1.0",
        'resus_request_seconds_count{route="/v1/predict",status="200"} 1.0',
    ):
        assert line in counted
    client.get("/v1/users/alice")
    assert "alice" not in client.get("/metrics").text
    docs = client.get("/docs")
    assert all(path in docs.text for path in client.get("/openapi.json").json()["paths"])
    assert "http" not in docs.text.replace("HTTP", "").lower()
    for name in ("/", "/curves", *(f"/page/{path.name}" for path in PAGE.iterdir() if path.name != REFERENCE)):
        page = client.get(name)
        assert page.status_code == 200
        assert {key.decode(): value.decode() for key, value in HEADERS}.items() <= page.headers.items()


def test_refused_requests_are_counted(client: InProcess) -> None:
    assert client.get("/v1/model", headers={"Host": "elsewhere"}).status_code == 403
    assert client.post("/v1/predict", content=b" " * (1 << 21)).status_code == 413
    counted = client.get("/metrics").text
    for status in (403, 413):
        assert f'resus_request_seconds_count{{route="unknown",status="{status}"}} 1.0' in counted


def test_a_row_is_scored_as_offline_whatever_the_catalogue_says(client: InProcess, served_run: Path) -> None:
    """With categories that no item has in the log of the catalogue."""
    table = events().head(8).with_columns(user=1, category=(pl.col("category") + pl.int_range(pl.len())) % 5)
    support, query = table.head(5), table.tail(3)
    offline = Resus.load(served_run).predict(support, query)
    inline = [{"label": row.pop("click"), "time": row.pop("time"), "features": row} for row in support.to_dicts()]
    online = predict(client, events=inline, candidates=query.drop("user", "time", "click").to_dicts())
    assert [answer.basis for answer in online.answers] == pytest.approx(offline["basis"].to_list(), abs=1e-5)
    assert [answer.residual for answer in online.answers] == pytest.approx(offline["residual"].to_list(), abs=1e-4)


@pytest.mark.parametrize("spelled", [1, 1.0, "1"])
def test_an_item_is_known_however_its_id_is_spelled(engine: Engine, spelled: Any) -> None:
    loaded = engine.loaded
    assert loaded.item_of({"item": spelled}) == "1"
    whole = loaded.rows([{"item": "1", "category": None}])
    assert np.array_equal(loaded.rows([{"item": spelled}]).ids, whole.ids)
    assert not np.array_equal(whole.ids[0, 1:], loaded.rows([{"item": "unknown"}]).ids[0, 1:])
    assert loaded.item_of({"item": True}) == "true"


@pytest.mark.parametrize(
    ("owner", "name", "method", "address", "body"),
    [
        ("store", "add_traced", "POST", "/v1/events", {"events": [event(1)]}),
        ("store", "delete", "DELETE", "/v1/users/u", None),
        ("store", "forget", "DELETE", "/v1/users/u/events/e1", None),
        ("model", "load", "POST", "/v1/reload", None),
    ],
)
def test_slow_writes_do_not_delay_scores(
    client: InProcess,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
    name: str,
    method: str,
    address: str,
    body: Any,
) -> None:
    begun, may_end = threading.Semaphore(0), threading.Event()
    slow: Any = engine.store if owner == "store" else LoadedModel
    usual = getattr(slow, name)

    def waiting(*given: Any) -> Any:
        begun.release()
        assert may_end.wait(PATIENCE)
        return usual(*given)

    monkeypatch.setattr(slow, name, waiting)

    async def scenario() -> None:
        writes = [asyncio.create_task(client.ask(method, address, json=body)) for _ in range(2 * THREADS)]
        try:
            while not begun.acquire(blocking=False):
                await asyncio.sleep(0.01)
            for asked in (client.ask("POST", "/v1/predict", json={"items": ["1"]}), client.ask("GET", "/readyz")):
                assert (await asyncio.wait_for(asked, 10)).status_code == 200
            assert not any(write.done() for write in writes)
        finally:
            may_end.set()
            answers = await asyncio.gather(*writes)
        assert all(answer.status_code == 200 for answer in answers)

    client.run(scenario())


def test_logs_hold_nothing_of_users(client: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="resus"):
        post(client, event(1, user="alice") | {"id": "secret-event"})
        predict(client, user="alice", items=["1"])
        client.get("/v1/users/alice")
        refused(client, b'{"user": "alice", "items": [1.5]}')
        client.post("/v1/reload")
        client.delete("/v1/users/alice")
    told = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("resus"))
    assert "reloaded" in told
    assert "alice" not in told
    assert "secret-event" not in told
