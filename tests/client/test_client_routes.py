"""Every route of a real service, through both kinds of client."""

import inspect
import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_process import Serving

from resus import AsyncClient, Client
from resus.client import ConflictError, NotAllowedError, NotFoundError
from resus.client.messages import ScoredCandidate

pytestmark = pytest.mark.integration


def test_events_change_the_next_scores(opened: Any) -> None:
    client = opened()
    before = client.predict(user="ada", items=[1, 2])
    stored = client.add_events(
        [
            {"user": "ada", "item": 1, "label": True, "time": datetime(2024, 1, 31, 10, tzinfo=UTC)},
            {"user": "ada", "item": np.int64(2), "label": np.bool_(False), "time": "2024-01-31T11:00:00Z"},
            {"user": "ada", "item": "3", "label": 1},
        ]
    )
    assert [result.status for result in stored.results] == ["added"] * 3
    assert stored.warnings is None
    after = client.predict(user="ada", items=[1, 2], explain=True)
    assert (before.support, after.support) == (0, 3)
    assert isinstance(after.answers[0], ScoredCandidate)
    assert [one.item for one in after.answers] == ["1", "2"]
    assert after.answers[0].residual != 0 == before.answers[0].residual
    assert {reason.event for reason in after.answers[0].because or ()} == {result.id for result in stored.results}
    known = client.read_user("ada")
    assert [event.item for event in known.events] == ["1", "2", "3"]
    assert known.events[0].time == datetime(2024, 1, 31, 10, tzinfo=UTC).timestamp()
    assert client.delete_event("ada", stored.results[0].id).deleted
    assert client.read_user("ada").support == 2
    assert client.delete_user("ada").deleted
    with pytest.raises(NotFoundError, match=r"this user has no events and no profile: check the id \(404\)") as refused:
        client.read_user("ada")
    assert refused.value.sentence == "this user has no events and no profile: check the id"
    assert (refused.value.status, refused.value.tries) == (404, 1)


def test_a_recommendation_is_of_the_whole_catalogue(opened: Any) -> None:
    client = opened()
    liked = [{"item": 1, "label": True}]
    answer = client.recommend(events=liked, top=3, exclude_seen=False)
    assert len(answer.answers) == 3
    assert answer.ranked == client.read_model().catalogue == client.search_catalogue(limit=1).size
    assert answer.answers[0].probability >= answer.answers[1].probability
    assert client.recommend(events=liked).ranked == answer.ranked - 1
    assert client.recommend(context={"nonsense": 1}).warnings == ["'nonsense' is not a field of the model"]


def test_items_and_profiles_change(opened: Any) -> None:
    client = opened()
    assert client.put_item("new/one", title="New", fields={}).status == "stored"
    assert [item.title for item in client.search_catalogue(query="new/one").items] == ["New"]
    assert client.delete_item("new/one").status == "removed"
    assert client.put_profile("eve", fields={"tags": "evening"}).profile == {"tags": "evening"}


@pytest.mark.parametrize("user", ["..", ".", "a/b", "a%2Fb", "ü?#&", " "])
def test_an_id_may_hold_any_character(opened: Any, user: str) -> None:
    client = opened()
    client.add_events([{"user": user, "item": 1, "label": 1}])
    assert client.read_user(user).user == user
    assert client.delete_user(user).deleted


def test_the_model_its_results_and_the_state_of_the_service(opened: Any) -> None:
    client = opened()
    model = client.read_model()
    assert client.reload().sha256 == model.sha256
    assert {metric.name for metric in client.read_results().metrics} >= {"auc", "logloss"}
    assert client.read_test_user().events
    assert client.healthz().status == client.readyz().status == "ok"
    assert "resus_request_seconds" in client.metrics()


def test_a_model_that_is_refused_is_a_conflict(opened: Any, service: Serving) -> None:
    folder = Path(service.said.strip().rpartition("events in ")[2].removesuffix(".events.sqlite"))
    moved = (folder / "artifact.json").rename(folder / "elsewhere.json")
    try:
        with pytest.raises(ConflictError) as refused:
            opened().reload()
        assert refused.value.status == 409
    finally:
        moved.rename(folder / "artifact.json")


def test_a_wrong_token_is_not_tried_again(opened: Any, waits: list[float]) -> None:
    with pytest.raises(NotAllowedError, match="the token is missing or wrong") as refused:
        opened(token="another-token-for-tests").predict(items=[1])
    assert refused.value.tries == 1
    assert waits == []


def test_the_token_may_come_from_the_environment(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    token = opened()
    monkeypatch.setenv("RESUS_TOKEN", "another-token-for-tests")
    assert token.readyz().status == "ok"
    with pytest.raises(NotAllowedError):
        opened(token=None).read_model()


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "generate_client.py"))


def test_the_generated_files_are_in_step_with_the_service(generator: dict[str, Any]) -> None:
    for file, source in generator["sources"](generator["description"]()).items():
        assert file.read_text(encoding="utf-8") == source, f"{file.name}: run 'python scripts/generate_client.py'"


def test_a_change_of_the_service_changes_the_files(generator: dict[str, Any]) -> None:
    changed = generator["description"]()
    changed["components"]["schemas"]["PredictRequest"]["properties"]["explore"] = {
        "anyOf": [{"type": "string", "enum": ["thompson", "ucb"]}, {"type": "null"}]
    }
    changed["paths"]["/v1/rollback"] = {"post": {**changed["paths"]["/v1/reload"]["post"], "operationId": "rollback"}}
    routes = generator["sources"](changed)[generator["HOME"] / "routes.py"]
    assert 'explore: Literal["thompson", "ucb"] | None = None' in routes
    assert "explore=explore" in routes
    assert 'Call("POST", "/v1/rollback", Reloaded, repeatable=False, slow=True)' in routes


def test_both_clients_have_a_method_for_every_route(generator: dict[str, Any]) -> None:
    paths = generator["description"]()["paths"].values()
    names = {route["operationId"] for methods in paths for route in methods.values()}
    for name in names:
        sync, asynchronous = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(asynchronous)
        assert inspect.signature(sync) == inspect.signature(asynchronous)
