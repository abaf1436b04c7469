"""After any changes of the store, by any engine, every answer is that of a fresh engine on the same store."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_models import SCHEMA, events
from pydantic import ValidationError
from service_process import event

from resus import Resus
from resus.errors import DataError, StorageError
from resus.model.inference.model import Scores
from resus.serving.engine import Engine
from resus.serving.live.user import LiveUser
from resus.serving.live.users import LiveUsers, text_of_features
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictAnswer, PredictRequest
from resus.serving.shelf import Shelf
from resus.serving.store import Added, Event, EventStore, open_store

BESIDE_THE_FIT = ("choice of items", "same context", "number of events")
CAPACITY = 6
ITEMS = [f"{number}" for number in range(8)] + ["never seen"]
CONTEXT: dict[str, Any] = {"tags": ["evening", "desktop"]}


@pytest.fixture(scope="module", params=["exported", "another", "third"], ids=["ridge", "nearest", "plus"])
def run(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def loaded(run: Path) -> LoadedModel:
    return LoadedModel.load(run)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    opened = open_store(str(tmp_path / "events"), capacity=CAPACITY)
    yield opened
    opened.close()


@pytest.fixture
def engine(loaded: LoadedModel, store: EventStore) -> Engine:
    return Engine(loaded, store, capacity=CAPACITY)


@pytest.fixture
def plus_engine(third: Path, store: EventStore) -> Engine:
    return Engine(LoadedModel.load(third), store, capacity=CAPACITY)


def posted(number: int, **changes: Any) -> PostedEvent:
    return PostedEvent.model_validate(event(number, **changes))


def asked(**changes: Any) -> PredictRequest:
    return PredictRequest.model_validate({"context": CONTEXT, "items": ITEMS, "deviation": True} | changes)


def assert_same(one: PredictAnswer, other: PredictAnswer) -> None:
    assert (one.support, one.model) == (other.support, other.model)
    for mine, theirs in zip(one.answers, other.answers, strict=True):
        assert mine.item == theirs.item
        assert mine.basis == pytest.approx(theirs.basis, abs=1e-5)
        assert mine.residual == pytest.approx(theirs.residual, abs=1e-5)
        assert mine.probability == pytest.approx(theirs.probability, abs=1e-5)
        assert (mine.deviation is None) == (theirs.deviation is None)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("observe"), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 1)),
        st.tuples(st.just("forget"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("delete"), st.just(0), st.just(0)),
        st.tuples(st.just("predict"), st.just(0), st.just(0)),
    ),
    max_size=15,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from([0, 1]), STEPS.map(tuple)), max_size=4))
def test_two_engines_on_one_store_answer_as_a_fresh_one(loaded: LoadedModel, store: EventStore, steps: Any) -> None:
    store.delete("u")
    engines = [Engine(loaded, store, capacity=CAPACITY) for _ in range(2)]
    for worker, sequence in steps:
        for verb, which, label in sequence:
            if verb == "observe":  # times repeat and go back
                batch = [posted(n, label=label, time=float(n * 7 % 4), item=n % 5 + label) for n in which]
                engines[worker].observe(batch)
            elif verb == "forget":
                engines[worker].forget("u", f"e{which}")
            elif verb == "delete":
                engines[worker].delete("u")
            for engine in engines:
                fresh = Engine(loaded, store, capacity=CAPACITY).predict(asked(user="u"))
                assert_same(engine.predict(asked(user="u")), fresh)


def test_stored_inline_and_offline_answers_are_one(run: Path, engine: Engine) -> None:
    batch = [event(number, label=number % 2, item=number) for number in range(5)]
    engine.observe([PostedEvent.model_validate(one) for one in batch])
    stored = engine.predict(asked(user="u"))
    inline = engine.predict(asked(events=[{k: v for k, v in one.items() if k != "user"} for one in batch]))
    assert_same(stored, inline)

    def table(items: list[str], tags: str, **columns: Any) -> pl.DataFrame:
        rows = [{"item": item, "category": own[item]["category"], "price": own[item]["price"]} for item in items]
        return pl.DataFrame(rows).with_columns(user=pl.lit("u"), tags=pl.lit(tags), **columns)

    own = own_fields()
    known = [item for item in ITEMS if item in own]
    labels = pl.Series([float(one["label"]) for one in batch])
    support = table([one["item"] for one in batch], "morning|phone", **{str(SCHEMA.label): labels})
    offline = Resus.load(run).predict(support, table(known, "evening|desktop"))
    online = {answer.item: answer for answer in stored.answers}
    for item, probability, residual in zip(known, offline["probability"], offline["residual"], strict=True):
        assert online[item].probability == pytest.approx(probability, abs=1e-5)
        assert online[item].residual == pytest.approx(residual, abs=1e-5)


def own_fields() -> dict[str, dict[str, Any]]:
    """The planted items' fields, from the table that the model was trained on."""
    rows = events().select(pl.col("item").cast(pl.String), pl.col("category").cast(pl.String), "price").unique()
    return {row["item"]: row for row in rows.iter_rows(named=True)}


def test_parts_are_what_the_answer_says_and_the_own_item_comes_first(engine: Engine) -> None:
    engine.observe([posted(number, label=number % 2, item=number) for number in range(4)])
    predicted = engine.predict(asked(user="u", explain=True))
    without = {}
    for number in range(4):
        engine.forget("u", f"e{number}")
        without[f"e{number}"] = engine.predict(asked(user="u")).answers
        engine.observe([posted(number, label=number % 2, item=number)])
    for answer in predicted.answers:
        assert answer.because is not None
        if predicted.parts == "shares":
            beside = [c.part for c in answer.causes or [] if c.cause in BESIDE_THE_FIT]
            labels = answer.residual - sum(beside)
            assert sum(reason.part for reason in answer.because) == pytest.approx(labels, abs=1e-5)
        else:
            left = [answer.residual - reason.part for reason in answer.because]
            expected = [without[reason.event][answer.candidate].residual for reason in answer.because]
            assert left == pytest.approx(expected, abs=1e-5)
        others = [abs(reason.part) for reason in answer.because if reason.item != answer.item]
        assert sorted(others, reverse=True) == others
        own = {f"{n}" for n in range(4)} & {answer.item}
        assert {reason.item for reason in answer.because[: len(own)]} >= own
        assert {(reason.event, reason.item) for reason in answer.because} == {(f"e{n}", f"{n}") for n in range(4)}


def test_causes_sum_to_the_residual_largest_first(plus_engine: Engine) -> None:
    plus_engine.observe([posted(number, label=number % 2, item=number) for number in range(4)])
    for answer in plus_engine.predict(asked(user="u", explain=True)).answers:
        assert answer.causes is not None
        parts = [cause.part for cause in answer.causes]
        assert sum(parts) == pytest.approx(answer.residual, abs=1e-5)
        assert sorted(map(abs, parts), reverse=True) == list(map(abs, parts))
        repeated = "this very item" in {cause.cause for cause in answer.causes}
        assert repeated == (answer.item in {f"{n}" for n in range(4)})
    assert plus_engine.predict(asked(user="nobody", explain=True)).answers[0].causes == []


def test_only_a_learner_that_knows_causes_gives_them(engine: Engine) -> None:
    engine.observe([posted(1)])
    knows = engine.loaded.config.learner.kind == "plus"
    for answer in engine.predict(asked(user="u", explain=True)).answers:
        assert ("causes" in answer.model_dump(exclude_unset=True)) == knows


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("top", [None, 3])
def test_the_wire_says_what_the_message_says(engine: Engine, explain: bool, top: int | None) -> None:
    engine.observe([posted(1), posted(2, label=0, item=3)])
    for who in ({"user": "u"}, {"user": "nobody"}, {"events": [{"label": 1, "item": "2"}]}):
        request = asked(**who, explain=explain, top=top)
        message = engine.predict(request).model_dump(exclude_unset=True)
        assert json.loads(engine.score(request).as_json()) == message
    unnamed = PredictRequest(candidates=[{"price": 3}])  # a deviation is computed only if it is asked for
    assert json.loads(engine.score(unnamed).as_json()) == engine.predict(unnamed).model_dump(exclude_unset=True)
    assert engine.predict(unnamed).answers[0].deviation is None


def test_a_context_that_is_asked_for_again_has_the_same_answer(loaded: LoadedModel, store: EventStore) -> None:
    """Whatever is kept: few items, all of them, or nothing because it takes too many bytes."""
    assert loaded.catalogue is not None
    kept = Engine(loaded, store, capacity=CAPACITY)
    for context in (CONTEXT, {}, {"tags": ["morning"]}, {"tags": ["never seen"], "unread": 1}, CONTEXT):
        for items in (ITEMS[:3], ITEMS, list(reversed(ITEMS)), [*loaded.catalogue.items, "2.0"]):
            fresh = Engine(loaded, store, capacity=CAPACITY)
            fresh.shelf = None  # every row is encoded by itself
            small = Engine(loaded, store, capacity=CAPACITY)
            small.shelf = Shelf(loaded.model, loaded.features, loaded.catalogue, context_bytes=1)
            request = asked(items=items, context=context, events=[{"label": 1, "item": "2"}])
            expected = fresh.predict(request)
            assert_same(kept.predict(request), expected)
            assert_same(small.predict(request), expected)


def test_top_is_the_best_of_all(engine: Engine) -> None:
    every = engine.predict(asked()).answers
    best = engine.predict(asked(top=3)).answers
    assert best == sorted(every, key=lambda answer: -answer.probability)[:3]
    assert [(answer.candidate, answer.item) for answer in every] == list(enumerate(ITEMS))


def test_a_user_without_events_gets_the_shared_answer(engine: Engine) -> None:
    for answer in (engine.predict(asked()), engine.predict(asked(user="nobody")), engine.predict(asked(events=[]))):
        assert answer.support == 0
        sure = engine.loaded.model.learner.has_posterior
        assert all(one.residual == 0 and (one.deviation is None) != sure for one in answer.answers)


def test_inline_events_follow_the_rules_of_the_store(engine: Engine) -> None:
    batch = [event(number % 9, label=number % 2, time=float(number % 5), item=number) for number in range(14)]
    engine.observe([PostedEvent.model_validate(one) for one in batch])
    kept = {one.id for one in engine.store.read("u").events}
    inline = engine.predict(
        asked(events=[{k: v for k, v in one.items() if k != "user"} for one in batch], explain=True)
    )
    assert inline.answers[0].because is not None
    assert {reason.event for reason in inline.answers[0].because} == kept


def test_candidates_by_features_are_the_items_they_describe(engine: Engine) -> None:
    own = own_fields()
    known = [item for item in ITEMS if item in own]
    by_item = engine.predict(asked(items=known))
    by_features = engine.predict(asked(items=None, candidates=[own[item] for item in known]))
    assert_same(by_item, by_features)


def test_a_small_cache_changes_nothing(loaded: LoadedModel, store: EventStore) -> None:
    small = Engine(loaded, store, capacity=CAPACITY)
    small.live_users = LiveUsers(loaded, store, capacity=CAPACITY, limit=1)
    small.observe([posted(number, user=f"u{number % 3}", item=number) for number in range(9)])
    for user in ("u0", "u1", "u2", "u0"):
        assert_same(small.predict(asked(user=user)), Engine(loaded, store, capacity=CAPACITY).predict(asked(user=user)))


def test_what_is_kept_is_bounded_by_its_bytes(engine: Engine, loaded: LoadedModel) -> None:
    """However long the texts of a request are, and whatever the model does not read of them."""
    assert loaded.catalogue is not None
    shelf = Shelf(loaded.model, loaded.features, loaded.catalogue, context_bytes=1 << 20)
    for number in range(200):
        shelf.encode(np.arange(3), shelf.context({"tags": [f"{number} {place} {'x' * 900}" for place in range(20)]}))
    assert sum(len(key) for key in shelf._contexts) < 1 << 20
    assert shelf.context({"tags": ["evening"], "unread": "x" * 1000}) is shelf.context({"tags": ["evening"]})
    thin, fat = ({"features": {"tags": [text]}} for text in ("x", "x" * 900))
    sizes = []
    for user, more in (("thin", thin), ("fat", fat)):
        engine.observe([PostedEvent.model_validate(event(number, user=user) | more) for number in range(CAPACITY)])
        before = engine.live_users.nbytes
        engine.predict(asked(user=user))
        sizes.append(engine.live_users.nbytes - before)
    assert sizes[1] - sizes[0] >= CAPACITY * 2 * 899


def test_a_user_who_cannot_be_read_is_not_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.observe([posted(1)])

    def lost(user: str) -> None:
        raise StorageError(user)

    with monkeypatch.context() as patched:
        patched.setattr(engine.store, "read", lost)
        with pytest.raises(StorageError):
            engine.predict(asked(user="u"))
    assert "u" not in engine.live_users
    assert engine.predict(asked(user="u")).support == 1


def test_a_live_user_follows_events_of_this_process_without_reading_the_others(
    engine: Engine, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.observe([posted(number, label=number % 2, item=number) for number in range(CAPACITY)])
    engine.predict(asked(user="u"))
    with monkeypatch.context() as patched:
        patched.setattr(engine.store, "read", None)
        engine.observe([posted(CAPACITY, item=3), posted(2, label=1, time=99.0, item=2)])  # pushes out, corrects
        followed = engine.predict(asked(user="u"))
    assert_same(followed, Engine(loaded, engine.store, capacity=CAPACITY).predict(asked(user="u")))
    assert followed.support == CAPACITY


def test_the_first_event_of_a_user_is_not_followed_as_its_profile_is_not_known(engine: Engine) -> None:
    """Redis says that it leads from version 0, while another thread may be about to read the user."""
    engine.observe([posted(1)])
    kept, stored = engine.live_users._cached("u"), engine.store.read("u")
    added = Added("added", before=0, after=stored.version)
    engine.live_users.follow("u", stored.events[0], None, added, read_by=engine.loaded)
    assert not kept.come


def test_events_tell_what_the_model_does_not_know(engine: Engine) -> None:
    assert engine.observe([posted(1)]).warnings is None
    strange = posted(2, item="never seen").model_copy(update={"features": {"colour": "red", "category": "new"}})
    told = engine.observe([strange]).warnings
    assert told is not None
    assert len(told) == 3
    assert all(any(name in sentence for sentence in told) for name in ("item", "category", "colour"))


def test_only_fields_that_the_model_reads_are_stored(engine: Engine) -> None:
    sent = PostedEvent.model_validate(event(1) | {"features": {"tags": ["morning"], "diary": "dear diary"}})
    engine.observe([sent])
    assert engine.store.read("u").events[0].features == {"tags": ["morning"], "item": "1"}


@pytest.mark.parametrize(
    "sent", [{"label": 1, "item": "?"}, {"label": 0, "item": "never seen", "features": {"category": "new"}}]
)
def test_values_the_model_never_saw_are_no_error(engine: Engine, sent: dict[str, Any]) -> None:
    assert engine.predict(asked(events=[sent])).support == 1


def test_an_event_has_a_bounded_size(engine: Engine) -> None:
    large = posted(2).model_copy(update={"features": {"tags": ["é" * 100] * 7}})
    with pytest.raises(DataError, match=r"'e2': its features take more than 4,096 bytes"):
        engine.observe([posted(1), large])
    assert not engine.store.version("u"), "all of a batch or nothing"
    engine.observe([large.model_copy(update={"features": {"tags": ["é" * 100] * 6}})])


def test_nothing_of_a_deleted_user_stays_in_a_process_that_asks_again(loaded: LoadedModel, store: EventStore) -> None:
    mine, other = (Engine(loaded, store, capacity=CAPACITY) for _ in range(2))
    for gone in (partial(mine.delete, "u"), partial(mine.forget, "u", "e1")):
        mine.observe([posted(1)])
        for engine in (mine, other):
            assert engine.predict(asked(user="u")).support == 1
            assert "u" in engine.live_users
        assert gone()
        assert "u" not in mine.live_users
        assert other.predict(asked(user="u")).support == 0
        assert "u" not in other.live_users


def test_events_have_ids_all_of_them_or_none() -> None:
    with pytest.raises(ValidationError, match="every inline event an id, or none"):
        asked(events=[{"label": 1, "item": "1"}, {"id": "0", "label": 0, "item": "2"}])


def test_a_score_that_is_not_finite_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    score = LiveUser.score_encoded
    engine.observe([posted(1)])

    def overflowing(live: LiveUser, *encoded: Any, **options: Any) -> Scores:
        return replace(score(live, *encoded, **options), deviation=np.full(len(ITEMS), np.inf, dtype=np.float32))

    monkeypatch.setattr(LiveUser, "score_encoded", overflowing)
    with pytest.raises(DataError, match="too large to score"):
        engine.predict(asked(user="u"))


@pytest.mark.parametrize(("one", "other", "same"), [([1], [True], False), ([1], [1.0], False), ([1], [1], True)])
def test_values_that_are_equal_in_python_may_differ_for_a_model(one: Any, other: Any, same: bool) -> None:
    mine, theirs = (Event("e1", 0.0, 1.0, {"tags": tags}) for tags in (one, other))
    assert (text_of_features(mine) == text_of_features(theirs)) == same


def test_a_user_whose_question_is_refused_counts_in_memory(run: Path, store: EventStore) -> None:
    """Else users who are asked wrongly would fill the memory."""
    engine = Engine(LoadedModel.load(run), store, capacity=CAPACITY)
    engine.observe([PostedEvent.model_validate(event(1))])
    with pytest.raises(DataError):
        engine.predict(PredictRequest(user="u", candidates=[{"item": "1", "price": [1]}]))
    assert "u" in engine.live_users
    assert engine.live_users.nbytes > 0
