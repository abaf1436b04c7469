"""Items that change while a model is served: answers are those of an export that was made after the change."""

import contextlib
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_process import InProcess, event, in_process, post, predict, refused

from resus.errors import StorageError
from resus.serving.catalogue import Catalogue
from resus.serving.engine import Engine
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.items import ItemChange, ItemChanges, latest
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictRequest, RecommendRequest
from resus.serving.store import open_store

CONTEXT: dict[str, Any] = {"tags": ["evening", "desktop"]}
ROUTE = "/v1/items"


@pytest.fixture(params=["exported", "third"], ids=["ridge", "plus"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.getfixturevalue(request.param), tmp_path / "run"))


def engine_of(folder: Path, store: str = "events") -> Engine:
    made = Engine(LoadedModel.load(folder), open_store(str(folder.with_name(store)), capacity=8), capacity=8)
    made.follow(changes_of(folder))
    return made


def changes_of(folder: Path) -> ItemChanges:
    return ItemChanges(folder.with_name(f"{folder.name}.items.jsonl"))


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    made = engine_of(folder)
    yield made
    made.store.close()


@pytest.fixture
def items(engine: Engine, folder: Path) -> Iterator[InProcess]:
    with in_process(build_app(engine, folder, Access("localhost", None))) as opened:
        yield opened


def put(client: InProcess, item: str, **body: Any) -> None:
    answer = client.request("PUT", f"{ROUTE}/{item}", json=body)
    assert answer.status_code == 200, answer.text


def of_catalogue(engine: Engine) -> Catalogue:
    assert engine.loaded.catalogue is not None
    return engine.loaded.catalogue


def test_a_changed_item_is_scored_by_its_new_fields(engine: Engine, items: InProcess) -> None:
    sent = [{"label": 1, "item": "2"}, {"label": 0, "item": "4"}]
    before = predict(items, items=["1", "2"], context=CONTEXT, events=sent).answers  # keeps the old logits
    items.post("/v1/recommend", json={"context": CONTEXT})
    category = of_catalogue(engine).items and engine.loaded.features.fields[1].values[0]
    put(items, "1", fields={"price": 28.5, "category": category})
    after = predict(items, items=["1", "2"], context=CONTEXT, events=sent).answers
    described = [{"item": "1", "price": 28.5, "category": category}]
    expected = predict(items, candidates=described, context=CONTEXT, events=sent).answers[0]
    assert after[0].probability == pytest.approx(expected.probability, abs=1e-6)
    assert after[0].probability != pytest.approx(before[0].probability, abs=1e-6)
    assert after[1].probability == pytest.approx(before[1].probability, abs=1e-6)
    ranked = engine.recommend(RecommendRequest(context=CONTEXT, top=100)).answers
    every = engine.predict(PredictRequest(items=[one.item for one in ranked], context=CONTEXT)).answers
    assert [one.probability for one in ranked] == pytest.approx([one.probability for one in every], abs=1e-6)


def test_a_changed_item_counts_in_the_events_of_live_users(engine: Engine, folder: Path) -> None:
    asked = PredictRequest(user="u", items=["1", "2", "3"], context=CONTEXT)
    category = engine.loaded.features.fields[1].values[0]
    engine.observe([PostedEvent.model_validate(event(number, item=number, label=number % 2)) for number in (1, 2)])
    before = engine.predict(asked)
    engine.change_item(ItemChange(item="2", fields={"price": 28.5, "category": category}))
    after = engine.predict(asked)
    fresh = engine_of(folder)
    expected = fresh.predict(asked)
    assert [one.residual for one in after.answers] == pytest.approx(
        [one.residual for one in expected.answers], abs=1e-6
    )
    assert [one.residual for one in after.answers] != pytest.approx([one.residual for one in before.answers], abs=1e-6)
    fresh.store.close()


def test_a_new_item_is_an_unknown_one_with_known_fields(engine: Engine, items: InProcess) -> None:
    predict(items, items=["brand new"], context=CONTEXT)
    size = items.get("/v1/catalogue").json()["size"]
    put(items, "brand new", title="Brand new", fields={"price": 4.5})
    put(items, "brand%20new%20too", title="Brand new, too")
    found = items.get("/v1/catalogue?query=brand").json()
    assert found["size"] == size + 2
    assert [(one["item"], one["title"], one["count"]) for one in found["items"]][1] == (
        "brand new too",
        "Brand new, too",
        0,
    )
    answer = predict(items, items=["brand new"], context=CONTEXT).answers[0]
    described = [{"item": "brand new", "price": 4.5}]
    assert answer.item == "brand new"
    assert answer.probability == pytest.approx(
        predict(items, candidates=described, context=CONTEXT).answers[0].probability, abs=1e-6
    )
    ranked = items.post("/v1/recommend", json={"top": 100, "context": CONTEXT}).json()["answers"]
    assert {"brand new", "brand new too"} <= {one["item"] for one in ranked}
    post(items, {**event(1), "item": "brand new"})
    seen = items.post("/v1/recommend", json={"top": 100, "user": "u"}).json()["answers"]
    assert "brand new" not in {one["item"] for one in seen}


def test_a_removed_item_is_neither_found_nor_recommended(items: InProcess) -> None:
    assert items.delete(f"{ROUTE}/3").json() == {"item": "3", "status": "removed"}
    assert items.delete(f"{ROUTE}/never-seen").status_code == 200
    ranked = items.post("/v1/recommend", json={"top": 100}).json()
    assert "3" not in {one["item"] for one in ranked["answers"]}
    assert ranked["ranked"] == items.get("/v1/catalogue").json()["size"]
    assert "3" not in {one["item"] for one in items.get("/v1/catalogue?limit=1000").json()["items"]}
    assert predict(items, items=["3"]).answers[0].item == "3", "whoever asks for it gets a score"
    put(items, "3")
    assert "3" in {one["item"] for one in items.post("/v1/recommend", json={"top": 100}).json()["answers"]}


def test_pages_of_the_catalogue_are_the_whole(items: InProcess) -> None:
    whole = items.get("/v1/catalogue?limit=1000").json()["items"]
    pages = [
        items.get(f"/v1/catalogue?limit=7&offset={start}").json()["items"] for start in range(0, len(whole) + 7, 7)
    ]
    assert [one for page in pages for one in page] == whole
    assert pages[-1] == []


def test_other_workers_restarts_and_reloads_know_the_changes(folder: Path, engine: Engine) -> None:
    other = engine_of(folder, "others")
    engine.change_item(ItemChange(item="7", fields={"price": 1.5}))
    engine.change_item(ItemChange(item="new", fields={"price": 3}))
    engine.change_item(ItemChange(item="5", removed=True))
    request = RecommendRequest(top=100, context=CONTEXT)
    expected = engine.recommend(request)
    assert other.recommend(request) == expected
    again = engine_of(folder, "third")
    assert again.recommend(request) == expected
    with changes_of(folder)._path.open("ab") as file:
        file.write(b'{"item": "torn')
    engine.change_item(ItemChange(item="5"))
    assert other.recommend(request).ranked == expected.ranked + 1
    for one in (other, again):
        one.store.close()


def test_the_time_at_which_a_worker_reads_the_changes_does_not_matter(folder: Path, engine: Engine) -> None:
    """Removed and added again, known before or not: whoever read each change at once, and who reads all of them."""
    late = changes_of(folder)
    for change in (
        ItemChange(item="7", fields={"price": 1.5}),
        ItemChange(item="new", title="New", fields={"price": 3}),
        ItemChange(item="7", removed=True),
        ItemChange(item="new", removed=True),
        ItemChange(item="never put", removed=True),
        ItemChange(item="gone", fields={"price": 2}),
        ItemChange(item="gone", removed=True),
        ItemChange(item="7", title="Again"),
        ItemChange(item="new", fields={"category": "x"}),
    ):
        engine.change_item(change)
    expected = of_catalogue(engine)
    again = engine_of(folder, "others")
    assert of_catalogue(again).items == expected.items
    assert of_catalogue(again).titles == expected.titles
    assert of_catalogue(again).removed == expected.removed
    np.testing.assert_array_equal(of_catalogue(again).ids, expected.ids)
    request = RecommendRequest(top=100, context=CONTEXT)
    assert again.recommend(request) == engine.recommend(request)
    assert [change.item for change in late.news()][-2:] == ["7", "new"]
    again.store.close()


def test_a_long_file_of_changes_is_shortened(
    folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Prices that change every day do not fill it, and each worker notices that it is another file."""
    monkeypatch.setattr("resus.serving.items.SHORTEN_BYTES", 500)
    monkeypatch.setattr("resus.serving.items.MAX_BYTES", 1000)
    other, path = engine_of(folder, "others"), changes_of(folder)._path
    request = RecommendRequest(top=100, context=CONTEXT)
    for turn in range(120):
        engine.change_item(ItemChange(item=str(turn % 3), fields={"price": turn}))
        engine.change_item(ItemChange(item="3", removed=turn % 2 == 0))
        if turn % 7 == 0:
            assert other.recommend(request) == engine.recommend(request)
        assert path.stat().st_size < 1000
    again = engine_of(folder, "third")
    assert again.recommend(request) == other.recommend(request) == engine.recommend(request)
    for number in range(60):
        with contextlib.suppress(StorageError):
            engine.change_item(ItemChange(item=f"new {number}"))
    with pytest.raises(StorageError, match="more than 1,000 bytes"):
        engine.change_item(ItemChange(item="one more"))
    for one in (other, again):
        one.store.close()


def test_changes_that_cannot_be_read_are_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = changes_of(folder)._path
    path.write_text(
        '{"item": "1", "fields": {"price": "cheap"}}\n{"item": "2", "fields": {"price": 2}}\nnonsense\n'
        '{"item": "3", "fields": {"colour": "red"}, "removed": true}\n'
    )
    logging.getLogger("resus").propagate = True
    served = engine_of(folder)
    assert of_catalogue(served).removed == {of_catalogue(served).places["3"]}
    assert "changes of 1 items have values that this model cannot read" in caplog.text
    assert "a line of the changed items cannot be read" in caplog.text
    served.store.close()
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError, match="it is a folder"):
        engine_of(folder)


def test_mistakes_are_one_sentence_and_change_nothing(engine: Engine, items: InProcess, folder: Path) -> None:
    mistakes: list[tuple[Any, str]] = [
        ({"fields": {"colour": "red"}}, "fields: 'colour' is not a field that describes an item: use category, price"),
        ({"fields": {"item": "4"}}, "fields: 'item' is not a field"),
        ({"fields": {"price": "cheap"}}, "'cheap' is not a number"),
        ({"fields": {"price": {}}}, "fields.price: a value is"),
        ({"price": 3}, "price: "),
        ({"title": "x" * 1001}, "title: "),
    ]
    for body, told in mistakes:
        answer = items.request("PUT", f"{ROUTE}/1", json=body)
        assert (answer.status_code, told in answer.json()["error"]) == (422, True), answer.text
    assert not changes_of(folder).has_news()
    assert refused(items, json.dumps({"offset": -1}).encode())[0] == 422
    assert items.get("/v1/catalogue?offset=-1").status_code == 422
    engine.loaded = replace(engine.loaded, catalogue=None)
    assert "no catalogue" in items.request("PUT", f"{ROUTE}/1", json={}).json()["error"]


def test_the_latest_change_counts() -> None:
    changes = [
        ItemChange(item="1", fields={"price": 1, "category": "a"}, title="One"),
        ItemChange(item="2", fields={"category": "b"}),
        ItemChange(item="2", removed=True),
        ItemChange(item="1", fields={"price": 2}),
        ItemChange(item="2", fields={"price": 3}),
        ItemChange(item="1", removed=True),
    ]
    assert latest(changes) == {
        "1": {"removed": True, "fields": {"price": 2, "category": "a"}, "title": "One"},
        "2": {"removed": False, "fields": {"category": "b", "price": 3}},
    }


def test_an_updated_catalogue_keeps_all_other_rows(engine: Engine) -> None:
    old = of_catalogue(engine)
    made, changed = old.updated(engine.loaded.features, {"1": {"removed": False, "fields": {"price": 2}}})
    same = np.arange(len(old.items)) != changed[0]
    assert made.items == old.items
    np.testing.assert_array_equal(made.ids[same], old.ids[same])
    assert made.titles == old.titles
