"""People who only click: in tables, in the library and in the service they get the same answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_models import KEEP, events, tiny
from service_process import sealed

import resus
from resus import Resus, TableSchema, build_log
from resus.artifact import NEGATIVES
from resus.errors import ArtifactError, DataError
from resus.scoring.scorer import Scorer
from resus.scoring.stream import predict_file
from resus.serving.catalogue import CATALOGUE, Catalogue
from resus.serving.engine import Engine
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictRequest, RecommendRequest
from resus.serving.store import EventStore, open_store

SCHEMA = TableSchema.model_validate(
    {
        "user": "user",
        "item": "item",
        "time": "time",
        "negatives": {"per_event": 2, "by": "popularity"},
        "fields": {"category": "categorical", "price": "numeric", "tags": "multi"},
    }
)
CLICKS = events().filter(click=1).drop("click")
OWN = {
    str(item): {"category": str(category), "price": price}
    for item, category, price in CLICKS.select("item", "category", "price").unique().rows()
}
ITEMS = sorted(OWN)[:8]
CAPACITY = 5
BESIDE_THE_FIT = ("choice of items", "same context", "number of events")


@pytest.fixture(scope="module", params=["plus", "ridge"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table of clicks, with a catalogue."""
    folder = tmp_path_factory.mktemp("clicks")
    log = build_log(CLICKS, SCHEMA, KEEP, name="clicks").save(folder / "log")
    model = tiny(learner=request.param, seed=1).fit(folder / "log", folder=folder / "run")
    Catalogue.of(log, model.config.user_split(log.n_users)).save(folder / "run")
    return sealed(folder / "run", CATALOGUE)


@pytest.fixture(scope="module")
def model(run: Path) -> Resus:
    return resus.load(run)


@pytest.fixture(scope="module")
def loaded(run: Path) -> LoadedModel:
    return LoadedModel.load(run)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    opened = open_store(str(tmp_path / "events"), capacity=CAPACITY)
    yield opened
    opened.close()


def click(number: int, item: str, tags: str = "morning|phone", label: int = 1) -> PostedEvent:
    features = {"tags": tags.split("|")}
    return PostedEvent(id=f"e{number}", user="u", time=float(number), label=label, item=item, features=features)


def table(items: list[str], tags: list[str]) -> pl.DataFrame:
    rows = [{"user": "u", "item": item, "tags": tag, **OWN[item]} for item, tag in zip(items, tags, strict=True)]
    return pl.DataFrame(rows, schema={"user": str, "item": str, "tags": str, "category": str, "price": float})


def asked(**changes: Any) -> PredictRequest:
    chosen = {"user": "u", "items": ITEMS, "context": {"tags": ["evening", "desktop"]}}
    return PredictRequest.model_validate(chosen | changes)


HISTORIES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(ITEMS), st.sampled_from(["morning|phone", "evening|tv"])),
    min_size=1,
    max_size=8,
    unique_by=lambda event: event[0],
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_one_answer_in_tables_and_live_in_whatever_order_events_arrive(
    model: Resus, loaded: LoadedModel, store: EventStore, history: list[tuple[int, str, str]]
) -> None:
    store.delete("u")
    engine = Engine(loaded, store, capacity=CAPACITY)
    for number, item, tags in history:
        engine.observe([click(number, item, tags)])
        live = engine.predict(asked())
    kept = [event for event in sorted(history) if f"e{event[0]}" in {one.id for one in store.read("u").events}]
    support = table([item for _, item, _ in kept], [tags for *_, tags in kept])
    query = table(ITEMS, ["evening|desktop"] * len(ITEMS))
    offline = model.predict(support, query)
    assert live.support == len(kept) == offline["support"][0]
    for answer, probability, residual in zip(live.answers, offline["probability"], offline["residual"], strict=True):
        assert answer.probability == pytest.approx(probability, abs=1e-5)
        assert answer.residual == pytest.approx(residual, abs=1e-5)
    inline = [{"item": item, "label": 1, "features": {"tags": tags.split("|")}} for _, item, tags in kept]
    sent = engine.predict(asked(user=None, events=inline))
    assert [one.residual for one in sent.answers] == pytest.approx([one.residual for one in live.answers], abs=1e-5)


def test_clicks_alone_count_as_in_training(model: Resus) -> None:
    """The answer is that of the same model for a table in which the drawn negatives are rows."""
    scorer = model.scorer
    support = table(ITEMS[:3], ["morning|phone"] * 3)
    query = table(ITEMS, ["evening|tv"] * len(ITEMS))
    assert scorer.negatives is not None
    ids, weights = scorer.encode(support, "the support")
    whole = scorer.negatives.complete(ids, weights, np.ones(3), np.zeros(3, dtype=np.int64))
    assert len(whole.labels) == 9
    assert whole.weights is not None
    decoded = [scorer.features.decode(*row) for row in zip(whole.ids, whole.weights, strict=True)]
    written = pl.DataFrame(decoded).with_columns(user=pl.lit("u"), label=pl.Series(whole.labels))
    roles = SCHEMA.model_copy(update={"label": "label", "negatives": None})
    labelled = Scorer(scorer.model, scorer.features, roles)
    expected, _ = labelled.predict(written.with_columns(pl.col("tags").list.join("|")), query)
    found, _ = scorer.predict(support, query)
    np.testing.assert_allclose(found.residual, expected.residual, atol=1e-5)
    assert set(found.support) == {3}
    assert np.abs(found.residual).max() > 1e-4


def test_files_of_any_size_get_the_same_answer(model: Resus, tmp_path: Path) -> None:
    support, query = table(ITEMS[:3], ["morning|phone"] * 3), table(ITEMS, ["evening|tv"] * len(ITEMS))
    support.write_parquet(tmp_path / "support.parquet")
    query.write_parquet(tmp_path / "query.parquet")
    files = (tmp_path / f"{name}.parquet" for name in ("support", "query", "scores"))
    predict_file(model.scorer, *files, model="it", block_rows=2)
    streamed = pl.read_parquet(tmp_path / "scores.parquet")
    np.testing.assert_allclose(streamed["residual"], model.predict(support, query)["residual"], atol=1e-5)


def test_a_dislike_counts_and_then_nothing_is_drawn(loaded: LoadedModel, store: EventStore) -> None:
    engine = Engine(loaded, store, capacity=CAPACITY)
    engine.observe([click(1, ITEMS[0]), click(2, ITEMS[1])])
    assert len(loaded.live_user(CAPACITY, store.read("u").events).support) == 6
    engine.predict(asked())
    engine.observe([click(2, ITEMS[1], label=0)])
    after = engine.predict(asked())
    fresh = Engine(loaded, store, capacity=CAPACITY).predict(asked())
    assert [one.residual for one in after.answers] == pytest.approx([one.residual for one in fresh.answers], abs=1e-5)
    assert len(loaded.live_user(CAPACITY, store.read("u").events).support) == 2
    engine.forget("u", "e2")
    assert engine.predict(asked()).support == 1
    assert len(loaded.live_user(CAPACITY, store.read("u").events).support) == 3


def test_reasons_name_events_of_the_user_alone_and_still_sum(
    model: Resus, loaded: LoadedModel, store: EventStore
) -> None:
    engine = Engine(loaded, store, capacity=CAPACITY)
    engine.observe([click(number, ITEMS[number]) for number in range(3)])
    answered = engine.predict(asked(explain=True))
    for answer in answered.answers:
        assert answer.because is not None
        assert {reason.event for reason in answer.because} == {"e0", "e1", "e2"}
        if answered.parts == "shares":
            causes = {cause.cause: cause.part for cause in answer.causes or []}
            beside = sum(causes.get(name, 0.0) for name in BESIDE_THE_FIT)
            assert sum(reason.part for reason in answer.because) + beside == pytest.approx(answer.residual, abs=1e-5)
    support = table(ITEMS[:3], ["morning|phone"] * 3)
    query = table(ITEMS, ["evening|desktop"] * len(ITEMS))
    told = model.predict(support, query, explain=True)
    for row, answer in zip(told.iter_rows(named=True), answered.answers, strict=True):
        parts = {reason["item"]: reason["part"] for reason in json.loads(row["because"])}
        assert parts == pytest.approx({reason.item: reason.part for reason in answer.because or []}, abs=1e-4)
        assert all(reason["label"] == 1 for reason in json.loads(row["because"]))


def test_the_library_recommends_what_the_service_recommends(
    run: Path, model: Resus, loaded: LoadedModel, store: EventStore
) -> None:
    engine = Engine(loaded, store, capacity=CAPACITY)
    engine.observe([click(number, ITEMS[number]) for number in range(3)])
    request = RecommendRequest.model_validate({"user": "u", "top": 5, "context": {"tags": ["morning", "phone"]}})
    served = engine.recommend(request)
    table_of = model.recommend(table(ITEMS[:3], ["morning|phone"] * 3), top=5)
    assert table_of["item"].to_list() == [answer.item for answer in served.answers]
    assert table_of["residual"].to_list() == pytest.approx([answer.residual for answer in served.answers], abs=1e-5)
    assert set(table_of["support"]) == {3}


def test_the_items_to_draw_are_a_checked_file_of_the_run(run: Path, tmp_path: Path) -> None:
    content = (run / NEGATIVES).read_bytes()
    try:
        (run / NEGATIVES).write_bytes(content[:-1])
        with pytest.raises(ArtifactError, match=NEGATIVES):
            LoadedModel.load(run)
    finally:
        (run / NEGATIVES).write_bytes(content)


def test_results_say_that_negatives_were_drawn(run: Path, model: Resus) -> None:
    results = model.evaluate(run.parent / "log", draws=0)
    assert results.log.negatives.startswith("negatives were drawn: 2 items per event that the user has not had")


def test_a_model_of_ones_own_cannot_score_what_is_drawn() -> None:
    with pytest.raises((DataError, resus.ConfigError), match="draws negatives"):
        Resus(predictor=lambda frame: np.zeros(frame.height)).fit(CLICKS, schema=SCHEMA)
    log = build_log(
        CLICKS.with_columns(model_score=pl.col("time") * 0.1),
        SCHEMA.model_copy(update={"fields": {**SCHEMA.fields, "model_score": resus.FieldSchema(kind="numeric")}}),
        KEEP,
    )
    with pytest.raises(resus.ConfigError, match="no score of their own"):
        tiny(predictor="logits:model_score").fit(log)
