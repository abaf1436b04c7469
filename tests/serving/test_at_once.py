"""Scores that are answered in the connection: when they are, that they are those of the usual way, and its checks."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_fixtures import Place
from service_process import event
from uvicorn.server import ServerState

from resus.serving.at_once import MOST_CANDIDATES, NotAtOnceError
from resus.serving.engine import Engine
from resus.serving.http.app import build_app
from resus.serving.http.guard import HEADERS, MAX_IN_FLIGHT, Access
from resus.serving.http.httptools_protocol import HttpToolsConnection
from resus.serving.http.log_settings import LogSettings
from resus.serving.http.workers import _settings
from resus.serving.items import ItemChange, ItemChanges
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictRequest
from resus.serving.store import Event, EventStore, open_store
from resus.serving.store.sqlite import SqliteStore

CAPACITY = 6
ITEMS = [f"{number}" for number in range(8)]
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module", params=["exported", "another", "third"], ids=["ridge", "nearest", "plus"])
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    return LoadedModel.load(request.getfixturevalue(request.param))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    opened = open_store(str(tmp_path / "events"), capacity=CAPACITY)
    yield opened
    opened.close()


@pytest.fixture
def engine(loaded: LoadedModel, store: EventStore) -> Engine:
    return Engine(loaded, store, capacity=CAPACITY)


def posted(number: int, **changes: Any) -> PostedEvent:
    return PostedEvent.model_validate(event(number, **changes))


def asked(**changes: Any) -> PredictRequest:
    return PredictRequest.model_validate({"items": ITEMS} | changes)


def residuals(engine: Engine, *, at_once: bool = False, **changes: Any) -> list[float]:
    residual: list[float] = engine.score(asked(**changes), at_once=at_once).scores.residual.tolist()
    return residual


STEPS = st.sampled_from(["mine", "two of mine", "others", "correct", "forget", "delete", "profile", "ask"])


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(STEPS, st.integers(0, 9), st.integers(0, 1)), max_size=12))
def test_an_answer_at_once_is_that_of_a_fresh_engine(
    loaded: LoadedModel, store: EventStore, steps: list[tuple[str, int, int]]
) -> None:
    mine, other = (Engine(loaded, store, capacity=CAPACITY) for _ in range(2))
    mine.delete("u")
    for step, number, label in steps:
        new = posted(number, label=label, item=number)
        if step == "mine":
            mine.observe([new])
        elif step == "two of mine":
            mine.observe([new, posted(number + 1, label=label, item=number)])
        elif step == "others":
            other.observe([new])
        elif step == "correct":
            mine.observe([posted(number, label=1 - label, time=5.0, item=number)])
        elif step == "forget":
            mine.forget("u", f"e{number}")
        elif step == "delete":
            other.delete("u")
        elif step == "profile":
            other.set_profile("u", {"tags": ["evening"]} if label else {})
        else:
            mine.score(asked(user="u"))
        fresh = residuals(Engine(loaded, store, capacity=CAPACITY), user="u")
        try:
            assert residuals(mine, at_once=True, user="u") == pytest.approx(fresh, abs=1e-5)
        except NotAtOnceError:
            continue
        assert residuals(mine, user="u") == pytest.approx(fresh, abs=1e-5)


def test_it_is_given_for_a_live_user_in_a_context_that_is_kept(engine: Engine) -> None:
    engine.observe([posted(1)])
    for user in ("u", None, "nobody"):
        engine.score(asked(user=user))
        assert engine.score(asked(user=user), at_once=True).support == (user == "u")
    engine.observe([posted(2)])
    assert engine.score(asked(user="u"), at_once=True).support == 2, "one event of this process is taken in"


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "stored"},
        {"context": {"tags": ["new"]}},
        {"items": ["9"]},
        {"items": ITEMS * (1 + MOST_CANDIDATES // len(ITEMS))},
        {"items": None, "candidates": [{"item": "1"}]},
        {"events": [{"label": 1, "item": "1"}]},
        {"explain": True},
        {"deviation": True},
    ],
    ids=str,
)
def test_what_takes_waiting_or_work_is_left_to_a_thread(engine: Engine, changes: dict[str, Any]) -> None:
    engine.observe([posted(1, user="stored")])
    engine.score(asked())
    assert engine.score(asked(), at_once=True)
    with pytest.raises(NotAtOnceError):
        engine.score(asked(**changes), at_once=True)
    assert "stored" not in engine.live_users
    engine.score(asked(**changes))


def test_events_of_others_and_changes_of_items_are_left_to_a_thread(
    engine: Engine, loaded: LoadedModel, store: EventStore, tmp_path: Path
) -> None:
    engine.follow(ItemChanges(tmp_path / "items.jsonl"))
    engine.observe([posted(1)])
    engine.score(asked(user="u"))
    Engine(loaded, store, capacity=CAPACITY).observe([posted(2)])
    with pytest.raises(NotAtOnceError):
        engine.score(asked(user="u"), at_once=True)
    assert engine.score(asked(user="u")).support == 2
    ItemChanges(tmp_path / "items.jsonl").add(ItemChange(item="1", title="another title"))
    with pytest.raises(NotAtOnceError):
        engine.score(asked(user="u"), at_once=True)
    engine.score(asked(user="u"))
    assert engine.score(asked(user="u"), at_once=True).support == 2


def test_a_changed_item_is_scored_anew(engine: Engine, tmp_path: Path) -> None:
    engine.follow(ItemChanges(tmp_path / "items.jsonl"))
    engine.observe([posted(1)])
    basis = engine.score(asked(user="u")).scores.basis.tolist()
    engine.change_item(ItemChange(item="3", fields={"category": "another"}))
    after = engine.score(asked(user="u")).scores.basis.tolist()
    assert [one == two for one, two in zip(basis, after, strict=True)] == [item != "3" for item in ITEMS]
    fresh = Engine(engine.loaded, engine.store, capacity=CAPACITY)
    fresh.follow(ItemChanges(tmp_path / "items.jsonl"))
    assert residuals(engine, user="u") == pytest.approx(residuals(fresh, user="u"), abs=1e-5)


def test_an_event_after_a_question_is_taken_in_before_the_next_one(engine: Engine) -> None:
    engine.observe([posted(1)])
    engine.score(asked(user="u"))
    engine.observe([posted(2)])
    kept = engine.live_users._cached("u")
    assert kept.version == engine.store.version("u")
    engine.observe([posted(3)])
    assert kept.version < engine.store.version("u"), "nobody asked in between, so the work may be in vain"
    assert engine.score(asked(user="u")).support == 3


def test_a_store_says_a_version_at_once_or_not_at_all(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "events"), capacity=CAPACITY)
    store.add([("u", Event("e1", 1.0, 1.0, {"item": "1"}))])
    assert store.version_at_once("u") == store.version("u") > 0
    assert store.version_at_once("nobody") == 0
    with store._reading:
        assert store.version_at_once("u") is None
    assert store._group.alone(lambda: store.version_at_once("u")) is None, "while something is committed"
    store.close()


def test_redis_is_never_asked_without_a_thread(place: Place, loaded: LoadedModel) -> None:
    store = open_store(place(), capacity=CAPACITY)
    engine = Engine(loaded, store, capacity=CAPACITY)
    engine.observe([posted(1)])
    engine.score(asked(user="u"))
    if isinstance(store, SqliteStore):
        assert engine.score(asked(user="u"), at_once=True)
    else:
        with pytest.raises(NotAtOnceError):
            engine.score(asked(user="u"), at_once=True)
    store.close()


class Wire(asyncio.Transport):
    """Takes what a connection sends."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 8000)})
        self.sent = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Dialled:
    """A connection to an application inside the test. What is answered without the loop was answered at once."""

    def __init__(self, app: Any, *, token: str | None = None) -> None:
        self.config = _settings(app, LogSettings())
        self.config.load()
        self.app, self.token = app, token

    async def opened(self) -> None:
        self.lifespan = self.app.router.lifespan_context(self.app)
        state = await self.lifespan.__aenter__()
        server = ServerState()
        server.default_headers = [(b"date", b"today")]
        self.connection: Any = HttpToolsConnection(config=self.config, server_state=server, app_state=state)
        self.wire = Wire()
        self.connection.connection_made(self.wire)

    async def closed(self) -> None:
        self.connection.connection_lost(None)
        await self.lifespan.__aexit__(None, None, None)

    def request(self, *lines: str, host: str = "127.0.0.1", **changes: Any) -> bytes:
        body = asked(**changes).model_dump_json(exclude_unset=True).encode()
        words = ["POST /v1/predict HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
        if self.token:
            words.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*words, f"Content-Length: {len(body)}", *lines, "", ""]).encode() + body

    async def at_once(self, *pieces: bytes) -> bytes:
        """What was answered before the loop ran; then the loop answers the rest."""
        self.wire.sent = b""
        for piece in pieces:
            self.connection.data_received(piece)
        sent = self.wire.sent
        await self.answered()
        return sent

    async def answered(self) -> None:
        async with asyncio.timeout(60):
            while not self.connection.cycle.response_complete or self.connection.pipeline:
                await asyncio.sleep(0.001)


def dialled(exported: Path, tmp_path: Path, scenario: Any, *, token: str | None = None) -> None:
    engine = Engine(LoadedModel.load(exported), open_store(str(tmp_path / "events"), capacity=CAPACITY))
    engine.observe([posted(1)])
    engine.score(asked(user="u"))

    async def run() -> None:
        client = Dialled(build_app(engine, exported, Access("127.0.0.1", token)), token=token)
        await client.opened()
        try:
            await scenario(client)
        finally:
            await client.closed()

    asyncio.run(run())


def parted(response: bytes) -> tuple[list[bytes], Any]:
    head, _, body = response.partition(b"\r\n\r\n")
    return sorted(head.split(b"\r\n")), json.loads(body)


def test_both_ways_send_the_same_response(exported: Path, tmp_path: Path) -> None:
    async def scenario(client: Dialled) -> None:
        at_once = await client.at_once(client.request(user="u"))
        assert not await client.at_once(client.request("Expect: nothing", user="u", context={"tags": ["new"]}))
        assert client.wire.sent.startswith(b"HTTP/1.1 200")
        client.connection.app_state = {}  # the usual way
        assert not await client.at_once(client.request(user="u"))
        assert parted(at_once) == parted(client.wire.sent)
        assert all(b"%b: %b" % header in at_once for header in HEADERS)

    dialled(exported, tmp_path, scenario)


def test_a_request_that_comes_in_pieces_is_answered_once(exported: Path, tmp_path: Path) -> None:
    async def scenario(client: Dialled) -> None:
        whole = client.request(user="u")
        for cut in (10, whole.index(b"\r\n\r\n") + 4, len(whole) - 1):
            await client.at_once(whole[:cut], whole[cut:])
            assert client.wire.sent.count(b"HTTP/1.1 200") == 1
            assert client.connection._held is None
        assert await client.at_once(whole), "and the next whole one at once"

    dialled(exported, tmp_path, scenario)


def test_of_pipelined_requests_only_the_first_is_answered_at_once(exported: Path, tmp_path: Path) -> None:
    async def scenario(client: Dialled) -> None:
        requests = [client.request(user="u", top=top) for top in (1, 2, 3)]
        assert (await client.at_once(b"".join(requests))).count(b"HTTP/1.1 200") == 1
        bodies = [part.partition(b"\r\n\r\n")[2] for part in client.wire.sent.split(b"HTTP/1.1 200 OK")[1:]]
        assert [len(json.loads(body)["answers"]) for body in bodies] == [1, 2, 3]

    dialled(exported, tmp_path, scenario)


def test_the_idle_time_after_an_answer_is_that_of_the_usual_way(exported: Path, tmp_path: Path) -> None:
    async def scenario(client: Dialled) -> None:
        await client.at_once(client.request(user="u"))
        assert client.connection._head_timer is None
        assert client.connection.timeout_keep_alive_task is not None
        client.connection.data_received(b"POST /v1")
        assert client.connection._head_timer is not None

    dialled(exported, tmp_path, scenario)


@pytest.mark.parametrize(
    ("status", "lines", "host"),
    [
        (403, [], "evil.example"),
        (403, ["Origin: http://evil.example"], "127.0.0.1"),
        (403, ["Sec-Fetch-Site: cross-site"], "127.0.0.1"),
        (400, ["Host: localhost"], "127.0.0.1"),
        (400, ["Authorization: Bearer other"], "127.0.0.1"),
    ],
)
def test_the_gate_is_the_same(exported: Path, tmp_path: Path, status: int, lines: list[str], host: str) -> None:
    async def scenario(client: Dialled) -> None:
        assert await client.at_once(client.request(user="u"))
        assert not await client.at_once(client.request(*lines, host=host, user="u"))
        assert client.wire.sent.startswith(b"HTTP/1.1 %d" % status)

    dialled(exported, tmp_path, scenario, token=TOKEN)


def test_a_wrong_token_and_too_many_requests_are_refused(exported: Path, tmp_path: Path) -> None:
    async def scenario(client: Dialled) -> None:
        assert await client.at_once(client.request(user="u"))
        client.token = "another-token-of-a-length"
        assert not await client.at_once(client.request(user="u"))
        assert client.wire.sent.startswith(b"HTTP/1.1 401")
        client.token = TOKEN
        gate = client.connection.app_state["at once"]._gate
        gate.in_flight = MAX_IN_FLIGHT
        assert not await client.at_once(client.request(user="u"))
        assert client.wire.sent.startswith(b"HTTP/1.1 429")

    dialled(exported, tmp_path, scenario, token=TOKEN)


def test_each_answer_is_counted_and_logged(exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Engine(LoadedModel.load(exported), open_store(str(tmp_path / "events"), capacity=CAPACITY))
    engine.score(asked())
    app = build_app(engine, exported, Access("localhost", None), logs=LogSettings(access=True))

    async def run() -> str:
        client = Dialled(app)
        await client.opened()
        assert await client.at_once(client.request(), client.request())
        await client.at_once(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        told = client.wire.sent.decode()
        await client.closed()
        return told

    told = asyncio.run(run())
    assert 'resus_request_seconds_count{route="/v1/predict",status="200"} 2.0' in told
    assert 'resus_predictions_total{stage="new"} 2.0' in told
    assert capsys.readouterr().err.count("POST /v1/predict 200") == 2
