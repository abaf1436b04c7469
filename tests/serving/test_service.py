"""The contract of each route, and that no request gets a 5xx."""

import asyncio
import json
import logging
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_models import KEEP, events, log_of, tiny
from service_process import PATIENCE, InProcess, event, in_process, wait_until

from resus import Resus, TableSchema, build_log
from resus.artifact import FACTS, rebuild
from resus.data.split import split_users
from resus.errors import ArtifactError, DataError
from resus.serving.catalogue.catalogue import CATALOGUE, Catalogue
from resus.serving.catalogue.histories import TEST_USERS
from resus.serving.engine import Engine
from resus.serving.http.app import THREADS, build_app
from resus.serving.http.guard import HEADERS, Access
from resus.serving.http.pages import PAGE, REFERENCE
from resus.serving.limits import MAX_CANDIDATES
from resus.serving.loaded import LoadedModel
from resus.serving.messages import (
    EventsAnswer,
    InlineEvent,
    ModelAnswer,
    PredictAnswer,
    PredictRequest,
    UserAnswer,
)
from resus.serving.store import Event, open_store

CAPACITY = 8


@pytest.fixture(scope="module")
def evaluated(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(exported, tmp_path_factory.mktemp("evaluated") / "run"))
    Resus.load(folder).evaluate(log_of(events())).write(folder / "results.json")
    return folder


@pytest.fixture
def run(evaluated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(evaluated, tmp_path / "run"))


@pytest.fixture
def engine(run: Path, tmp_path: Path) -> Engine:
    store = open_store(str(tmp_path / "events"), capacity=CAPACITY)
    return Engine(LoadedModel.load(run), store, capacity=CAPACITY)


@pytest.fixture
def client(engine: Engine, run: Path) -> Iterator[InProcess]:
    with in_process(build_app(engine, run, Access("localhost", None))) as opened:
        yield opened


@pytest.fixture
def scored(scored_export: Path, tmp_path: Path) -> Iterator[InProcess]:
    """A service whose clients send the shared score as `model_score`; its item field is `movie_id`."""
    engine = Engine(LoadedModel.load(scored_export), open_store(str(tmp_path / "scored"), capacity=CAPACITY))
    with in_process(build_app(engine, scored_export, Access("localhost", None))) as opened:
        yield opened


def post(client: InProcess, *events: dict[str, Any]) -> list[str]:
    answer = client.post("/v1/events", json={"events": list(events)})
    assert answer.status_code == 200, answer.text
    return [result.status for result in EventsAnswer.model_validate(answer.json()).results]


def predict(client: InProcess, **request: Any) -> PredictAnswer:
    answer = client.post("/v1/predict", json=request)
    assert answer.status_code == 200, answer.text
    return PredictAnswer.model_validate(answer.json())


def test_events_are_idempotent_and_the_next_score_knows_them(client: InProcess) -> None:
    before = predict(client, user="u", items=["1"])
    assert post(client, event(1), event(1), event(1, label=0)) == ["added", "known", "corrected"]
    after = predict(client, user="u", items=["1"])
    assert (before.support, after.support) == (0, 1)
    assert after.answers[0].basis == before.answers[0].basis
    assert after.answers[0].residual < before.answers[0].residual
    post(client, event(1))
    assert predict(client, user="u", items=["1"]).answers[0].residual > 0


def test_a_full_user_drops_the_oldest_and_takes_in_nothing_older(client: InProcess) -> None:
    post(client, *(event(number) for number in range(10, 10 + CAPACITY)))
    assert post(client, event(1), event(99)) == ["too old", "added"]
    kept = UserAnswer.model_validate(client.get("/v1/users/u").json())
    assert [one.id for one in kept.events] == [f"e{n}" for n in [*range(11, 10 + CAPACITY), 99]]
    assert (kept.support, kept.stage) == (CAPACITY, "warm")


@pytest.mark.parametrize(("count", "stage"), [(1, "I"), (2, "I"), (3, "II"), (5, "III"), (7, "warm")])
def test_the_stage_is_that_of_the_evaluation(client: InProcess, count: int, stage: str) -> None:
    post(client, *(event(number) for number in range(count)))
    assert client.get("/v1/users/u").json()["stage"] == stage


USER_IDS = ["plain", "with space", "a/b", "50%", "%2F", "näme", "?q=1#x", "\u0000", "😀" * 100]


@pytest.mark.parametrize("user", USER_IDS)
def test_any_id_can_be_read_and_deleted(client: InProcess, user: str) -> None:
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
    assert all(
        answer.keys() == {"candidate", "item", "probability", "basis", "residual", "deviation"} for answer in plain
    )
    for answer in predict(client, user="u", items=["1", "2"], explain=True).answers:
        assert answer.because is not None
        assert sum(reason.part for reason in answer.because) == pytest.approx(answer.residual, abs=1e-5)


def test_the_model_tells_what_to_send(client: InProcess, run: Path) -> None:
    told = ModelAnswer.model_validate(client.get("/v1/model").json())
    loaded = LoadedModel.load(run)
    assert (told.name, told.item, told.sha256) == ("RESUS-RR", "item", loaded.sha256)
    assert {field.name: field.role for field in told.fields} == {
        "item": "item",
        "category": "item",
        "price": "item",
        "tags": "context",
    }
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


def test_results_are_those_of_the_artifact(client: InProcess, run: Path) -> None:
    assert client.get("/v1/results").json() == json.loads((run / "results.json").read_text())


def test_a_run_that_was_not_exported_says_what_is_missing(run: Path, tmp_path: Path) -> None:
    for name in ("catalogue.arrow", "test-users.json", "results.json"):
        (run / name).unlink()
    engine = Engine(LoadedModel.load(run), open_store(str(tmp_path / "events"), capacity=CAPACITY))
    with in_process(build_app(engine, run, Access("localhost", None))) as client:
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
        'resus_predictions_total{stage="I"} 1.0',
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


def test_a_row_is_scored_as_offline_whatever_the_catalogue_says(client: InProcess, run: Path) -> None:
    """With categories that no item has in the log of the catalogue."""
    table = events().head(8).with_columns(user=1, category=(pl.col("category") + pl.int_range(pl.len())) % 5)
    support, query = table.head(5), table.tail(3)
    offline = Resus.load(run).predict(support, query)
    inline = [{"label": row.pop("click"), "time": row.pop("time"), "features": row} for row in support.to_dicts()]
    online = predict(client, events=inline, candidates=query.drop("user", "time", "click").to_dicts())
    assert [answer.basis for answer in online.answers] == pytest.approx(offline["basis"].to_list(), abs=1e-5)
    assert [answer.residual for answer in online.answers] == pytest.approx(offline["residual"].to_list(), abs=1e-4)


@pytest.mark.parametrize("spelled", [1, 1.0, True, "1"])
def test_an_item_is_known_however_its_id_is_spelled(engine: Engine, spelled: Any) -> None:
    loaded = engine.loaded
    assert loaded.item_of({"item": spelled}) == "1"
    whole = loaded.rows([{"item": "1", "category": None}])
    assert torch.equal(loaded.rows([{"item": spelled}]).ids, whole.ids)
    assert not torch.equal(whole.ids[0, 1:], loaded.rows([{"item": "unknown"}]).ids[0, 1:])


@pytest.mark.parametrize(
    ("owner", "name", "method", "address", "body"),
    [
        ("store", "add", "POST", "/v1/events", {"events": [event(1)]}),
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


def refused(client: InProcess, body: bytes, address: str = "/v1/predict") -> tuple[int, str]:
    answer = client.post(address, content=body, headers={"content-type": "application/json"})
    assert list(answer.json()) == ["error"], answer.text
    return answer.status_code, answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"", 422, "required"),
        (b"{", 400, "not JSON"),
        (b"\xff", 400, "JSON"),
        (b"[" * 100_000, 400, "JSON"),
        (b'{"items": ["1"], "context": {"price": NaN}}', 422, "context.price: a value is"),
        (b'{"items": ["1"], "context": {"price": -Infinity}}', 422, "context.price"),
        (b'{"items": ["1"], "context": {"price": 1e999}}', 422, "context.price"),
        (b'{"items": ["1"], "context": {"price": 1e30}}', 422, "'price'"),
        (b'{"items": ["1"], "context": {"price": 1' + b"0" * 400 + b"}}", 422, "context.price"),
        (b'{"items": ["1"], "context": {"price": 1' + b"0" * 5000 + b"}}", 400, "JSON"),
        (b'{"items": ["1"], "context": {"tags": {"a": {}}}}', 422, "context.tags: a value is"),
        (b'{"items": ["1"], "context": {"tags": ["\\ud800"]}}', 422, "context.tags"),
        (b'{"items": "1"}', 422, "items: "),
        (b'{"items": [1]}', 422, "items[0]: "),
        (b'{"items": []}', 422, "items: "),
        (b'{"items": ["1"], "candidates": [{}]}', 422, "either items or candidates"),
        (b'{"candidates": [{}, {"features": {"item": "1"}}]}', 422, "candidates[1].features: put the fields directly"),
        (b"{}", 422, "either items or candidates"),
        (b'{"items": ["1"], "user": "u", "events": []}', 422, "not both"),
        (b'{"items": ["1"], "top": 0}', 422, "top: "),
        (b'{"items": ["1"], "explain": "yes"}', 422, "explain: "),
        (b'{"items": ["1"], "itmes": []}', 422, "itmes"),
        (b'{"items": ["1"], "events": [{"item": "1"}]}', 422, "events[0].label: "),
        (b'{"items": ["1"], "events": [{"label": 2}]}', 422, "events[0].label: a label is 0 or 1"),
        (b'{"items": ["1"], "events": [{"label": true}]}', 422, "events[0].label: "),
        (json.dumps({"items": ["1"] * (MAX_CANDIDATES + 1)}).encode(), 422, "items: "),
        (json.dumps({"items": ["1"] * MAX_CANDIDATES, "explain": True}).encode(), 422, "explain takes at most"),
        (json.dumps({"items": ["x" * 201]}).encode(), 422, "items[0]: "),
        (b'{"items": ["1"], "context": {"a": "' + b"x" * (1 << 20) + b'"}}', 413, "larger"),
    ],
)
def test_a_mistake_gets_one_sentence_with_its_place(client: InProcess, body: bytes, status: int, told: str) -> None:
    code, sentence = refused(client, body)
    assert code == status
    assert told in sentence
    assert len(sentence) < 500


def test_an_event_without_any_known_field_is_refused(client: InProcess) -> None:
    empty = {"id": "e1", "user": "u", "time": 1, "label": 1, "features": {"nobody reads": 1}}
    code, sentence = refused(client, json.dumps({"events": [empty]}).encode(), "/v1/events")
    assert (code, "'e1' has no item and no field" in sentence) == (422, True)


def scored_event(number: int, **features: Any) -> dict[str, Any]:
    return event(number) | {"features": {"device": "phone", **features}}


@pytest.mark.parametrize("features", [{}, {"model_score": None}, {"model_score": "abc"}], ids=str)
def test_an_event_without_the_shared_score_is_refused(scored: InProcess, features: dict[str, Any]) -> None:
    good, bad = scored_event(1, model_score=0.5), scored_event(2, **features)
    code, sentence = refused(scored, json.dumps({"events": [good, bad]}).encode(), "/v1/events")
    assert code == 422
    assert sentence.startswith("event 'e2', field 'model_score': the value is missing")
    assert scored.get("/v1/users/u").status_code == 404
    candidates = [{"item": "1", "model_score": 0.3}]
    inline = [{key: value for key, value in one.items() if key != "user"} for one in (good, bad)]
    assert refused(scored, json.dumps({"events": inline, "candidates": candidates}).encode()) == (422, sentence)
    assert post(scored, good, scored_event(2, model_score="0.25")) == ["added", "added"]
    answer = predict(scored, user="u", candidates=candidates)
    assert answer.support == 2
    assert answer.answers[0].basis == pytest.approx(0.3, abs=1e-6)


def test_an_event_that_was_stored_without_a_score_is_named(scored_export: Path, tmp_path: Path) -> None:
    """Another model on the same fields, with its own predictor, may have stored it."""
    store = open_store(str(tmp_path / "events"), capacity=CAPACITY)
    store.add([("u", Event(f"e{number}", number, 1.0, {"movie_id": "1"})) for number in range(2)])
    asked = PredictRequest(user="u", candidates=[{"item": "1", "model_score": 0.3}])
    with pytest.raises(DataError, match=r"^event 'e0', field 'model_score': .*if the event is stored, delete it first"):
        Engine(LoadedModel.load(scored_export), store, capacity=CAPACITY).predict(asked)
    store.close()


def test_a_candidate_without_the_shared_score_is_refused(scored: InProcess) -> None:
    by_item = refused(scored, b'{"items": ["1", "2"]}')
    assert by_item == (
        422,
        "items[0], field 'model_score', the score of the shared model: the value is missing; "
        "send candidates instead of items, each with its item and 'model_score'",
    )
    body = b'{"candidates": [{"item": "1", "model_score": 1}, {"item": "2", "model_score": "high"}]}'
    assert refused(scored, body) == (
        422,
        "candidates[1], field 'model_score': the value is missing; it is the shared model: fill it in",
    )
    assert scored.get("/v1/model").json()["score"] == "model_score"


def test_a_score_that_belongs_to_the_item_comes_from_the_catalogue(tmp_path: Path) -> None:
    log = log_of(events())
    tiny(predictor="logits:price").fit(log, folder=tmp_path / "run")
    Catalogue.of(log, split_users(log.n_users, ratios=(7, 2, 1), order="random", seed=1)).save(tmp_path / "run")
    loaded = LoadedModel.load(tmp_path / "run")
    assert loaded.score is None
    engine = Engine(loaded, open_store(str(tmp_path / "events"), capacity=CAPACITY))
    answers = engine.predict(PredictRequest(events=[InlineEvent(label=1, item="3")], items=["2", "4"])).answers
    assert [answer.basis for answer in answers] == pytest.approx([3.0, 6.0], abs=1e-5)
    with pytest.raises(DataError, match=r"items\[1\], field 'price', .*: the value is missing"):
        engine.predict(PredictRequest(items=["2", "never seen"]))
    engine.store.close()


def test_item_is_the_item_whatever_its_field_is_called(scored: InProcess) -> None:
    """In candidates, the context and an event's features, as in an event itself."""
    post(scored, scored_event(1, model_score=0.5))
    post(scored, {**scored_event(2, model_score=0.5, item="1"), "item": None})
    assert {one["item"] for one in scored.get("/v1/users/u").json()["events"]} == {"1"}
    rest = {"model_score": 0.3, "device": "phone"}
    ways: list[dict[str, Any]] = [
        {"candidates": [{"movie_id": "1", **rest}]},
        {"candidates": [{"item": "1", **rest}]},
        {"candidates": [{"item": 1, "movie_id": "7", **rest}]},
        {"candidates": [rest], "context": {"item": "1"}},
        {"candidates": [{"movie_id": "1", **rest}], "context": {"item": "7"}},
        {"items": ["1"], "context": rest},
    ]
    first, *others = (predict(scored, user="u", **way).answers for way in ways)
    assert all(other == first for other in others)
    assert first[0].item == "1"
    unknown = predict(scored, user="u", candidates=[{"item": "never seen", **rest}]).answers[0]
    assert unknown.residual != first[0].residual


def test_a_body_without_content_type_is_refused(client: InProcess) -> None:
    answer = client.post("/v1/predict", content=b'{"items": ["1"]}')
    assert answer.status_code == 422
    assert "content-type: application/json" in answer.json()["error"]


def test_a_wrong_batch_stores_nothing(client: InProcess) -> None:
    good = event(1)
    for bad in (event(2) | {"label": 0.5}, event(2) | {"id": ""}, event(2) | {"features": {"price": 1e300}}):
        code, _ = refused(client, json.dumps({"events": [good, bad]}).encode(), "/v1/events")
        assert code == 422
    assert client.get("/v1/users/u").status_code == 404


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/nowhere", 404),
        ("PUT", "/v1/predict", 405),
        ("GET", "/v1/events", 405),
        ("GET", "/page/..%2Fapp.py", 404),
    ],
)
def test_wrong_addresses_get_one_sentence(client: InProcess, method: str, address: str, status: int) -> None:
    answer = client.request(method, address)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=5) | JSON,
        "user": st.sampled_from(["u", "v"]) | JSON,
        "time": st.floats() | st.integers() | JSON,
        "label": st.sampled_from([0, 1, 1.0]) | JSON,
        "item": st.sampled_from(["1", "2"]) | JSON,
        "features": st.dictionaries(st.sampled_from(["item", "category", "price", "tags"]) | st.text(), JSON) | JSON,
    },
)
REQUEST = st.fixed_dictionaries(
    {},
    optional={
        "user": st.sampled_from(["u", "v"]) | JSON,
        "events": st.lists(EVENT, max_size=4) | JSON,
        "context": st.dictionaries(st.sampled_from(["item", "category", "price", "tags"]) | st.text(), JSON) | JSON,
        "items": st.lists(st.sampled_from(["1", "2", "none"]), min_size=1, max_size=4) | JSON,
        "candidates": st.lists(st.dictionaries(st.sampled_from(["item", "price", "tags"]), JSON), max_size=3) | JSON,
        "explain": st.booleans() | JSON,
        "top": st.integers(0, 4) | JSON,
    },
)
BODIES = st.one_of(
    st.tuples(st.just("/v1/events"), st.fixed_dictionaries({"events": st.lists(EVENT, max_size=4) | JSON})),
    st.tuples(st.just("/v1/predict"), REQUEST),
    st.tuples(st.sampled_from(["/v1/events", "/v1/predict", "/v1/reload"]), JSON),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=BODIES)
def test_no_body_is_answered_with_5xx(client: InProcess, asked: tuple[str, Any]) -> None:
    address, value = asked
    answer = client.post(address, content=json.dumps(value), headers={"content-type": "application/json"})
    assert answer.status_code < 500, answer.text
    assert answer.status_code == 200 or list(answer.json()) == ["error"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(), kind=st.sampled_from(["application/json", "text/plain", "multipart/form-data", ""]))
def test_no_bytes_are_answered_with_5xx(client: InProcess, body: bytes, kind: str) -> None:
    for address in ("/v1/events", "/v1/predict"):
        assert 400 <= client.post(address, content=body, headers={"content-type": kind}).status_code < 500


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4))
def test_no_address_is_answered_with_5xx(client: InProcess, words: list[bytes]) -> None:
    address = "/".join(quote(word, safe="") for word in words)
    for start in ("/", "/v1/users/", "/page/"):
        for method in ("GET", "DELETE"):
            assert client.request(method, start + address).status_code < 500


def replace_folder(run: Path, by: Path) -> None:
    """Replace a folder as an export does: rename the old one, then create the new one."""
    run.rename(run.with_name("old"))
    shutil.copytree(by, run)


def test_a_reload_loads_a_new_model(client: InProcess, run: Path, another: Path) -> None:
    post(client, event(1))
    old = client.get("/v1/model").json()["sha256"]
    before = predict(client, user="u", items=["1"])
    replace_folder(run, another)
    reloaded = client.post("/v1/reload")
    assert reloaded.status_code == 200
    assert reloaded.json()["name"] == "RESUS-NN"
    assert client.get("/v1/model").json()["sha256"] == reloaded.json()["sha256"] != old
    after = predict(client, user="u", items=["1"])
    assert (after.support, after.model) == (1, "RESUS-NN")
    assert after.answers[0].basis != before.answers[0].basis
    assert 'resus_reloads_total{outcome="loaded"} 1.0' in client.get("/metrics").text


def test_a_reload_reads_new_titles_and_results(client: InProcess, run: Path) -> None:
    """Titles and results may be new while the model is the same."""
    results = json.loads((run / "results.json").read_text())
    results["log"]["name"] = "evaluated anew"
    (run / "results.json").write_text(json.dumps(results))
    Catalogue.load(run).with_titles({"1": "The First"}).save(run)
    assert client.post("/v1/reload").status_code == 200
    assert client.get("/v1/results").json() == results
    assert [item["item"] for item in client.get("/v1/catalogue", params={"query": "first"}).json()["items"]] == ["1"]


def test_a_model_that_arrives_during_the_start_is_served(engine: Engine, run: Path, another: Path) -> None:
    app = build_app(engine, run, Access("localhost", None))
    replace_folder(run, another)
    with in_process(app) as client:
        assert client.get("/v1/model").json()["sha256"] == LoadedModel.load(another).sha256


@pytest.mark.parametrize("by", ["another", "evaluated"])
def test_a_folder_swapped_while_it_is_read_is_refused(
    run: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    new = request.getfixturevalue(by)

    def swapped_meanwhile(artifact: Any) -> Any:
        replace_folder(run, new)
        return rebuild(artifact)

    monkeypatch.setattr("resus.serving.loaded.rebuild", swapped_meanwhile)
    with pytest.raises(ArtifactError, match="changed while it was read"):
        LoadedModel.load(run)


def test_an_unexpected_error_refuses_a_reload(
    client: InProcess, run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = predict(client, items=["1"])

    def fail(folder: Path) -> LoadedModel:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(LoadedModel, "load", fail)
    os.kill(os.getpid(), signal.SIGHUP)
    wait_until(lambda: 'outcome="refused"} 1.0' in client.get("/metrics").text, "a refusal")
    answer = client.post("/v1/reload")
    assert answer.status_code == 409
    assert "ZeroDivisionError" in answer.json()["error"]
    assert 'outcome="refused"} 2.0' in client.get("/metrics").text
    assert predict(client, items=["1"]) == before
    told = [record.getMessage() for record in caplog.records if record.name == "resus.serving"]
    assert len(told) == 2
    assert all("ZeroDivisionError at " in line and "test_service.py" in line for line in told)
    assert "secret" not in " ".join(told)


def damage_facts(run: Path) -> None:
    (run / FACTS).write_text((run / FACTS).read_text()[:-50])


def damage_weights(run: Path) -> None:
    with (run / "model.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"\x00\x00\xc0\x7f")


def lose_catalogue(run: Path) -> None:
    (run / "catalogue.arrow").unlink()


def damage_catalogue(run: Path) -> None:
    (run / "catalogue.arrow").write_bytes(b"no catalogue")


def falsify_catalogue(run: Path) -> None:
    catalogue = Catalogue.load(run)
    replace(catalogue, ids=catalogue.ids + 1_000_000).save(run)


def remove(run: Path) -> None:
    shutil.rmtree(run)


def other_fields(run: Path) -> None:
    schema = TableSchema(user="user", item="item", time="time", label="click")
    shutil.rmtree(run)
    tiny().fit(build_log(events(), schema, KEEP, name="other"), folder=run)


@pytest.mark.parametrize(
    "damage", [damage_facts, damage_weights, damage_catalogue, falsify_catalogue, lose_catalogue, remove, other_fields]
)
def test_a_bad_artifact_is_refused_and_the_old_one_stays(client: InProcess, run: Path, damage: Any) -> None:
    before = predict(client, items=["1", "2"])
    damage(run)
    answer = client.post("/v1/reload")
    assert answer.status_code == 409
    assert list(answer.json()) == ["error"]
    assert predict(client, items=["1", "2"]) == before
    assert 'resus_reloads_total{outcome="refused"} 1.0' in client.get("/metrics").text


def test_a_model_that_cannot_score_is_refused(run: Path) -> None:
    falsify_catalogue(run)
    with pytest.raises(ArtifactError, match=r"cannot score \(IndexError\)"):
        LoadedModel.load(run)


@pytest.mark.parametrize("part", [CATALOGUE, TEST_USERS])
def test_a_part_of_another_model_is_refused(client: InProcess, run: Path, another: Path, part: str) -> None:
    shutil.copyfile(another / part, run / part)
    answer = client.post("/v1/reload")
    assert answer.status_code == 409
    assert f"{part} belongs to another model" in answer.json()["error"]


def test_logs_hold_nothing_of_users(client: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="resus"):
        post(client, event(1, user="alice") | {"id": "secret-event"})
        predict(client, user="alice", items=["1"])
        client.get("/v1/users/alice")
        refused(client, b'{"user": "alice", "items": [1]}')
        client.post("/v1/reload")
        client.delete("/v1/users/alice")
    told = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("resus"))
    assert "reloaded" in told
    assert "alice" not in told
    assert "secret-event" not in told
