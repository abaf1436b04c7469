"""Recommendations are the best of all items, as predictions rank them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_models import events, log_of, tiny
from pydantic import ValidationError
from resus_process import succeed_here
from service_process import InProcess, event, post, refused, sealed

import resus
from resus.data.log.log import InteractionLog
from resus.errors import DataError, ResusError
from resus.serving.catalogue import CATALOGUE, Catalogue
from resus.serving.engine import Engine
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictRequest, RecommendRequest
from resus.serving.ranking import best_of, ranks_of
from resus.serving.shelf import Shelf
from resus.serving.store import EventStore, open_store

CONTEXT: dict[str, Any] = {"tags": ["evening", "desktop"]}


@pytest.fixture(scope="module", params=["exported", "another", "third"], ids=["ridge", "nearest", "plus"])
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    return LoadedModel.load(Path(request.getfixturevalue(request.param)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    opened = open_store(str(tmp_path / "events"), capacity=6)
    yield opened
    opened.close()


@pytest.fixture
def engine(loaded: LoadedModel, store: EventStore) -> Engine:
    made = Engine(loaded, store, capacity=6)
    made.observe([PostedEvent.model_validate(event(n, label=n % 2, item=n)) for n in range(4)])
    return made


def items_of(engine: Engine) -> list[str]:
    assert engine.loaded.catalogue is not None
    return list(engine.loaded.catalogue.items)


@pytest.mark.parametrize("context", [{}, CONTEXT], ids=str)
@pytest.mark.parametrize("kept", [1 << 20, 1], ids=["kept", "in tiles"])
def test_recommendations_are_the_best_predictions(
    engine: Engine, context: dict[str, Any], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.loaded.catalogue is not None
    monkeypatch.setattr("resus.serving.kept.TILE", 7)
    engine.shelf = Shelf(engine.loaded.model, engine.loaded.features, engine.loaded.catalogue, context_bytes=kept)
    items = items_of(engine)
    users: list[tuple[dict[str, Any], set[str]]] = [
        ({"user": "u"}, {"0", "1", "2", "3"}),
        ({"user": "nobody"}, set()),
        ({"events": [{"label": 0, "item": "5"}]}, {"5"}),
        ({}, set()),
    ]
    for who, known in users:
        predicted = engine.predict(PredictRequest.model_validate({"items": items, "context": context, **who}))
        for _ in range(2):  # the second time from what is kept
            for exclude in (True, False):
                request = {"top": 8, "context": context, "exclude_seen": exclude, **who}
                answer = engine.recommend(RecommendRequest.model_validate(request))
                left = [one for one in predicted.answers if not (exclude and one.item in known)]
                best = sorted(left, key=lambda one: -(one.basis + one.residual))[:8]
                assert answer.support == predicted.support
                assert answer.ranked == len(left)
                assert [one.probability for one in answer.answers] == pytest.approx(
                    [one.probability for one in best], abs=1e-6
                )
                for one in answer.answers:
                    twin = predicted.answers[items.index(one.item)]
                    assert (one.basis, one.residual) == pytest.approx((twin.basis, twin.residual), abs=1e-5)


def test_a_filter_keeps_the_items_with_the_wanted_values(engine: Engine) -> None:
    rows = {str(row["item"]): row for row in events().unique("item").iter_rows(named=True)}
    category = str(rows["3"]["category"])
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"category": category}, lambda row: str(row["category"]) == category),
        ({"category": [category, "never seen"]}, lambda row: str(row["category"]) == category),
        ({"category": "never seen"}, lambda _: False),
        ({"item": ["3", 4]}, lambda row: row["item"] in (3, 4)),
        ({"price": {"at_least": 6, "at_most": 12}}, lambda row: 6 <= (row["price"] or 0) <= 12),
        ({"price": {"at_most": 9}, "item": ["3", "4", "9"]}, lambda row: row["item"] == 4),
        ({"price": [3, "4.5", 7.5]}, lambda row: row["price"] in (3, 7.5)),
    ]
    for wanted, holds in cases:
        answer = engine.recommend(RecommendRequest.model_validate({"filter": wanted, "top": 20}))
        assert {one.item for one in answer.answers} == {item for item, row in rows.items() if holds(row)}, wanted


def test_mistakes_are_one_sentence(engine: Engine, scored_export: Path, store: EventStore) -> None:
    mistakes = [
        ({"filter": {"colour": "red"}}, "filter: 'colour' is not a field of the items: use "),
        ({"filter": {"tags": "morning"}}, "'tags' is not a field of the items"),
        ({"filter": {"category": {"at_least": 1}}}, "filter.category: a range fits only a numeric field"),
        ({"filter": {"price": "cheap"}}, "filter.price: 'cheap' is not a number"),
        ({"context": {"price": 3}}, "are fields of the items: leave them out, or use filter"),
    ]
    for request, told in mistakes:
        with pytest.raises(DataError, match=told):
            engine.recommend(RecommendRequest.model_validate(request))
    wrongs: list[Any] = [{"top": 0}, {"filter": {"price": {"more": 1}}}, {"user": "u", "events": []}, {"filter": []}]
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            RecommendRequest.model_validate(wrong)
    with pytest.raises(DataError, match="'model_score', which each candidate must bring"):
        Engine(LoadedModel.load(scored_export), store).recommend(RecommendRequest())


def test_over_the_wire(client: InProcess) -> None:
    post(client, event(1, user="w"), event(2, user="w", label=0, item=3))
    answer = client.post("/v1/recommend", json={"user": "w", "top": 3, "context": CONTEXT})
    assert answer.status_code == 200, answer.text
    assert answer.json()["support"] == 2
    assert len(answer.json()["answers"]) == 3
    assert not {"1", "3"} & {one["item"] for one in answer.json()["answers"]}
    status, sentence = refused(client, json.dumps({"filter": {"price": {"more": 1}}}).encode(), "/v1/recommend")
    assert (status, sentence.startswith("filter.price: a range of numbers is")) == (422, True)
    assert refused(client, b'{"filter": {"colour": 1}}', "/v1/recommend")[0] == 422


@pytest.mark.parametrize("learner", ["ridge", "plus"])
def test_online_and_offline_recommend_the_same(learner: str, tmp_path: Path) -> None:
    log_of(events()).save(tmp_path / "log")
    log = InteractionLog.open(tmp_path / "log")
    model = tiny(learner=learner).fit(tmp_path / "log", folder=tmp_path / "run")
    Catalogue.of(log, model.config.user_split(log.n_users)).save(tmp_path / "run")
    loaded = LoadedModel.load(sealed(tmp_path / "run", CATALOGUE))
    engine = Engine(loaded, open_store(str(tmp_path / "events"), capacity=6))
    table = events().filter(pl.col("user").is_in([1, 2])).group_by("user", maintain_order=True).head(5)
    table.write_csv(tmp_path / "support.csv")
    offline = model.recommend(table, log, top=4, filter={"price": {"at_most": 20}})
    again = resus.load(tmp_path / "run").recommend(table.to_pandas(), top=4, filter={"price": {"at_most": 20}})
    assert again["item"].tolist() == offline["item"].to_list()
    words = ("recommend", "run", "--support", "support.csv", "--top", "4", "--filter", "price=..20")
    printed = succeed_here(*words, cwd=tmp_path).splitlines()
    assert [line.split(",")[:3] for line in printed[1:]] == [
        [str(user), str(rank), item] for user, rank, item in offline.select("user", "rank", "item").iter_rows()
    ]
    for (user,), rows in table.group_by("user", maintain_order=True):
        sent = [
            {"label": row["click"], "item": str(row["item"]), "features": {"tags": row["tags"].split("|")}}
            for row in rows.iter_rows(named=True)
        ]
        context = sent[-1]["features"]
        wanted = {"price": {"at_most": 20}}
        request = {"events": sent, "context": context, "top": 4, "filter": wanted}
        online = engine.recommend(RecommendRequest.model_validate(request))
        own = offline.filter(pl.col("user") == str(user))
        assert [one.item for one in online.answers] == own["item"].to_list()
        assert [one.probability for one in online.answers] == pytest.approx(own["probability"].to_list(), abs=1e-5)
        other = model.recommend(rows, log, top=30, context={"tags": ["morning"]}, exclude_seen=False)
        assert other.height == len(items_of(engine))
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"context": {"price": 1}}, "context: 'price' is not a field of the situation"),
        ({"top": 0}, "top is 0"),
    ]
    for wrong, told in mistakes:
        with pytest.raises(ResusError, match=told):
            model.recommend(table, log, **wrong)
    engine.store.close()


@given(scores=st.lists(st.integers(0, 5), min_size=1, max_size=30), top=st.integers(1, 35), data=st.data())
def test_the_best_are_those_of_a_full_sort(scores: list[int], top: int, data: st.DataObject) -> None:
    allowed = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    expected = sorted((n for n in range(len(scores)) if allowed[n]), key=lambda n: -scores[n])[:top]
    assert best_of(np.array(scores, dtype=np.float32), np.array(allowed), top).tolist() == expected


def test_pages_of_a_ranking_are_one_ranking(engine: Engine) -> None:
    def ask(**request: Any) -> Any:
        return engine.recommend(RecommendRequest.model_validate({"user": "u", **request}))

    whole = [one.item for one in ask(top=20).answers]
    pages = [one.item for offset in range(0, 24, 6) for one in ask(top=6, offset=offset).answers]
    assert pages == whole
    assert ask(offset=2**31).answers == []


@pytest.mark.parametrize("exclude", [True, False])
def test_ranks_are_places_in_the_whole_ranking(engine: Engine, exclude: bool) -> None:
    def ask(**request: Any) -> Any:
        return engine.recommend(RecommendRequest.model_validate({"user": "u", "exclude_seen": exclude, **request}))

    whole = ask(top=20)
    alone = sorted(whole.answers, key=lambda one: -one.basis)  # ties stay in the order of the catalogue
    described = ask(top=20, describe=True).answers
    assert [one.rank for one in described] == list(range(1, whole.ranked + 1))
    for one in described:
        assert alone[one.rank_without_events - 1].basis == one.basis
    found = ask(search="1", top=20, describe=True)
    assert found.ranked == whole.ranked
    assert found.found == len(found.answers) == sum("1" in one.item for one in whole.answers)
    assert [(one.item, one.rank) for one in found.answers] == [
        (one.item, one.rank) for one in described if "1" in one.item
    ]


@given(
    scores=st.lists(st.integers(-2, 2), min_size=1, max_size=12),
    hidden=st.sets(st.integers(0, 11)),
)
def test_ranks_agree_with_the_order_of_the_best(scores: list[int], hidden: set[int]) -> None:
    values = np.array(scores, dtype=np.float32)
    allowed = np.array([place not in hidden for place in range(len(scores))])
    best = best_of(values, allowed, len(scores))
    assert ranks_of(best, values, allowed) == list(range(1, len(best) + 1))


def test_a_described_item_has_the_fields_of_its_events(engine: Engine) -> None:
    answer = engine.recommend(RecommendRequest.model_validate({"describe": True, "top": 20}))
    rows = {str(row["item"]): row for row in events().unique("item").iter_rows(named=True)}
    for one in answer.answers:
        known = {"category": str(rows[one.item]["category"]), "price": rows[one.item]["price"]}
        assert one.fields == {name: value for name, value in known.items() if value is not None}
    with pytest.raises(ValidationError, match="describe takes at most 100 answers: lower top, and go on with offset"):
        RecommendRequest.model_validate({"describe": True, "top": 101})
