"""Bad requests get one sentence that names the place of the mistake, and no request gets a 5xx."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_models import complete_events, log_of, tiny
from pydantic import ValidationError
from service_fixtures import CAPACITY
from service_process import InProcess, event, in_process, post, predict, refused, sealed

from resus.data.split import split_users
from resus.errors import DataError
from resus.serving.catalogue import CATALOGUE, Catalogue
from resus.serving.engine import Engine
from resus.serving.http.app import build_app, without_places
from resus.serving.http.guard import REQUEST_BYTES, Access
from resus.serving.limits import (
    MAX_CANDIDATES,
    MAX_FIELDS,
    MAX_TEXT,
    MAX_VALUES,
    BadValueError,
    checked_field_values,
)
from resus.serving.loaded import LoadedModel
from resus.serving.messages import EventsRequest, InlineEvent, PredictRequest
from resus.serving.store import Event, open_store


@pytest.fixture
def scored(scored_export: Path, tmp_path: Path) -> Iterator[InProcess]:
    """A service whose clients send the shared score as `model_score`; its item field is `movie_id`."""
    engine = Engine(LoadedModel.load(scored_export), open_store(str(tmp_path / "scored"), capacity=CAPACITY))
    with in_process(build_app(engine, scored_export, Access("localhost", None))) as opened:
        yield opened


def test_a_mistake_gets_one_sentence_with_its_place(client: InProcess) -> None:
    mistakes = [
        (b"", 422, "send a JSON object"),
        (b"{", 400, "not JSON"),
        (b"\xff", 400, "JSON"),
        (b"[" * 100_000, 400, "JSON"),
        (b'{"items": ["1"], "context": {"price": NaN}}', 422, "context.price: a value is"),
        (b'{"items": ["1"], "context": {"price": -Infinity}}', 422, "context.price"),
        (b'{"items": ["1"], "context": {"price": 1e999}}', 422, "context.price"),
        (b'{"items": ["1"], "context": {"price": 1e30}}', 422, "'price'"),
        (b'{"candidates": [{"item": "1"}, {"price": "cheap"}]}', 422, "row 2, field 'price': 'cheap' is not a number"),
        (b'{"items": ["1"], "context": {"price": 1' + b"0" * 400 + b"}}", 422, "context.price"),
        (b'{"items": ["1"], "context": {"price": 1' + b"0" * 5000 + b"}}", 400, "JSON"),
        (b'{"items": ["1"], "context": {"tags": {"a": {}}}}', 422, "context.tags: a value is"),
        (b'{"items": ["1"], "context": {"tags": ["\\ud800"]}}', 422, "context.tags"),
        (b'{"items": "1"}', 422, "items: "),
        (b'{"items": [1.5]}', 422, "items[0]: give a text"),
        (b'{"items": [true]}', 422, "items[0]: "),
        (b'{"items": []}', 422, "items: give at least 1, not 0"),
        (b'{"items": ["1"], "candidates": [{}]}', 422, "either items or candidates"),
        (b'{"candidates": [{}, {"features": {"item": "1"}}]}', 422, "candidates[1].features: put the fields directly"),
        (b"{}", 422, "either items or candidates"),
        (b'{"items": ["1"], "user": "u", "events": []}', 422, "not both"),
        (b'{"items": ["1"], "top": 0}', 422, "top: give a number of at least 1"),
        (b'{"items": ["1"], "top": 1.5}', 422, "top: give a whole number"),
        (b'{"items": ["1"], "topp": 1}', 422, "topp: unknown key; correct it, or leave it out"),
        (b'{"items": ["1"], "explain": "yes"}', 422, "explain: give true or false"),
        (b'{"items": ["1"], "itmes": []}', 422, "itmes"),
        (b'{"items": ["1"], "events": [{"item": "1"}]}', 422, "events[0].label: "),
        (b'{"items": ["1"], "events": [{"label": 2}]}', 422, "events[0].label: a label is 0 or 1"),
        (b'{"items": ["1"], "events": [{"label": "true"}]}', 422, "events[0].label: "),
        (json.dumps({"items": ["1"] * (MAX_CANDIDATES + 1)}).encode(), 422, "items: "),
        (json.dumps({"items": ["1"] * MAX_CANDIDATES, "explain": True}).encode(), 422, "explain takes at most"),
        (json.dumps({"items": ["x" * 201]}).encode(), 422, "items[0]: "),
        (b'{"items": ["1"], "context": {"a": "' + b"x" * (1 << 20) + b'"}}', 413, "larger"),
    ]
    for body, status, told in mistakes:
        code, sentence = refused(client, body)
        assert code == status, (body[:100], sentence)
        assert told in sentence
        assert len(sentence) < 500


def test_an_event_without_any_known_field_is_refused(client: InProcess) -> None:
    empty = {"id": "e1", "user": "u", "time": 1, "label": 1, "features": {"nobody reads": 1}}
    code, sentence = refused(client, json.dumps({"events": [empty]}).encode(), "/v1/events")
    assert (code, "'e1' has no item and no field" in sentence) == (422, True)


def scored_event(number: int, **features: Any) -> dict[str, Any]:
    return event(number) | {"features": {"device": "phone", **features}}


@pytest.mark.parametrize("features", [{}, {"model_score": None}, {"model_score": " "}], ids=str)
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
    body = b'{"candidates": [{"item": "1", "model_score": 1}, {"item": "2", "model_score": null}]}'
    assert refused(scored, body) == (
        422,
        "candidates[1], field 'model_score': the value is missing; it is the shared model: fill it in",
    )
    assert scored.get("/v1/model").json()["score"] == "model_score"


def test_a_score_that_belongs_to_the_item_comes_from_the_catalogue(tmp_path: Path) -> None:
    log = log_of(complete_events())
    tiny(predictor="logits:price").fit(log, folder=tmp_path / "run")
    Catalogue.of(log, split_users(log.n_users, ratios=(7, 2, 1), order="random", seed=1)).save(tmp_path / "run")
    loaded = LoadedModel.load(sealed(tmp_path / "run", CATALOGUE))
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
    prices = [event(2) | {"features": {"price": price}} for price in (1e300, "cheap")]
    for bad in (event(2) | {"label": 0.5}, event(2) | {"id": ""}, *prices):
        code, _ = refused(client, json.dumps({"events": [good, bad]}).encode(), "/v1/events")
        assert code == 422
    assert client.get("/v1/users/u").status_code == 404


def test_wrong_addresses_get_one_sentence(client: InProcess) -> None:
    wrong = {("GET", "/nowhere"): 404, ("PUT", "/v1/predict"): 405, ("GET", "/page/..%2Fapp.py"): 404}
    for (method, address), status in wrong.items():
        answer = client.request(method, address)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_a_503_names_the_store_and_no_folder(
    client: InProcess, engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine.store.close()
    answer = client.post("/v1/events", json={"events": [event(1)]})
    assert (answer.status_code, list(answer.json())) == (503, ["error"])
    assert str(tmp_path) not in answer.text
    assert str(tmp_path) in caplog.text


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("cannot use the store /a/b c/d.sqlite: full; free /tmp", "cannot use the store d.sqlite: full; free tmp"),
        ("Redis at unix:/run/redis.sock refused", "Redis at unix:redis.sock refused"),
        ("Redis at redis://host:1/0 refused", "Redis at redis://host:1/0 refused"),
        ("(IndexError at /usr/lib/x.py:7)", "(IndexError at x.py:7)"),
        ("'C:\\data\\x.db' or ~/x.db and/or runs/x.db", "'x.db' or x.db"),
    ],
)
def test_callers_see_no_absolute_path(sentence: str, told: str) -> None:
    assert without_places(sentence).startswith(told)
    assert not re.search(r"(^|[\s'(:])[~/\\](?!/)", without_places(sentence))


def test_a_slash_at_the_end_does_not_redirect(client: InProcess) -> None:
    assert client.get("/v1/model/", headers={"host": "localhost"}).status_code == 404


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


LONGEST = "x" * MAX_TEXT


@pytest.mark.parametrize(
    "value", [None, True, 0, -(2**63), 2**63 - 1, 1e308, "", "é💩", LONGEST, [], [1, "a", None], ["x"] * MAX_VALUES]
)
def test_a_value_passes_as_it_is(value: Any) -> None:
    given = {"a": value}
    assert checked_field_values(given) is given


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        float("nan"),
        float("inf"),
        LONGEST + "x",
        "\ud800",
        {},
        [[]],
        [{}],
        ["x"] * (MAX_VALUES + 1),
        b"x",
    ],
)
def test_a_bad_value_is_refused_and_its_field_named(value: Any) -> None:
    with pytest.raises(BadValueError, match="a value is a text") as raised:
        checked_field_values({"good": 1, "bad": value})
    assert raised.value.field == "bad"


@pytest.mark.parametrize("given", [None, [], "x", {"\udc00": 1}, {f"f{number}": 1 for number in range(MAX_FIELDS + 1)}])
def test_an_object_that_is_not_a_row_is_refused(given: Any) -> None:
    with pytest.raises(BadValueError) as raised:
        checked_field_values(given)
    assert raised.value.field is None


@pytest.mark.parametrize("place", ["context", "candidates", "features"])
def test_the_worst_body_that_fits_is_refused_quickly(place: str) -> None:
    """A body full of mistakes: pydantic makes an object for each error, so there must be few."""
    row: dict[str, Any] = {f"{number}": [{}] * MAX_VALUES for number in range(3300)}
    narrow: dict[str, Any] = {f"{number}": {} for number in range(MAX_FIELDS)}
    bodies: dict[str, Any] = {
        "context": {"items": ["1"], "context": row},
        "candidates": {"candidates": [narrow] * 450},
        "features": {"events": [{"id": "1", "user": "u", "time": 0.0, "label": 1, "features": narrow}] * 430},
    }
    body = json.dumps(bodies[place], separators=(",", ":"))
    assert REQUEST_BYTES * 0.7 < len(body) < REQUEST_BYTES
    began = time.process_time()
    with pytest.raises(ValidationError) as raised:
        (EventsRequest if place == "features" else PredictRequest).model_validate_json(body)
    assert raised.value.error_count() <= 1000
    assert time.process_time() - began < 1
