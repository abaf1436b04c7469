"""Answers that explore: by the joint posterior, with propensities, and repeatable by their seed."""

import json
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted_models import events, log_of
from resus_process import refused_here, succeed_here
from service_process import InProcess, event, post, refused

import resus
from resus.arrays import Floats
from resus.errors import DataError
from resus.serving.engine import Engine
from resus.serving.explored import rank
from resus.serving.exploring import RULES, exploring_of
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictAnswer, PredictRequest, RecommendAnswer, RecommendRequest
from resus.serving.store import EventStore, open_store

KNOWN = [{"label": n % 2, "item": str(n), "features": {"tags": ["morning", "phone"]}} for n in range(4)]


@pytest.fixture(scope="module")
def loaded(third: Path) -> LoadedModel:
    return LoadedModel.load(third)


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


def recommend(engine: Engine, **request: Any) -> RecommendAnswer:
    return engine.recommend(RecommendRequest.model_validate({"user": "u", **request}))


def predict(engine: Engine, **request: Any) -> PredictAnswer:
    return engine.predict(PredictRequest.model_validate({"user": "u", "items": items_of(engine), **request}))


def order(answer: RecommendAnswer | PredictAnswer) -> list[str | None]:
    return [one.item for one in answer.answers]


@pytest.mark.parametrize("rule", RULES)
def test_the_same_seed_repeats_an_answer_bit_by_bit(
    engine: Engine, loaded: LoadedModel, store: EventStore, rule: str
) -> None:
    asked = {"user": "u", "items": items_of(engine), "explore": rule, "draws": 50}
    first = engine.score(PredictRequest.model_validate(asked)).as_json()
    told = json.loads(first)["exploration"]
    again = engine.score(PredictRequest.model_validate({**asked, "seed": told["seed"]})).as_json()
    assert first == again
    another_worker = predict(Engine(loaded, store, capacity=6), explore=rule, draws=50, seed=told["seed"])
    logits = [one["ranked_by"] for one in json.loads(first)["answers"]]
    assert [one.ranked_by for one in another_worker.answers] == pytest.approx(logits, abs=1e-5)
    ranked = recommend(engine, explore=rule, draws=50)
    assert ranked.exploration is not None
    assert recommend(engine, explore=rule, draws=50, seed=ranked.exploration.seed) == ranked
    if rule == "thompson":
        seeds = [json.loads(engine.score(PredictRequest.model_validate(asked)).as_json()) for _ in range(5)]
        assert len({answer["exploration"]["seed"] for answer in seeds}) == 5
        assert len({str(answer["answers"]) for answer in seeds}) > 1


def test_the_wire_says_what_the_message_says(engine: Engine) -> None:
    request = PredictRequest.model_validate(
        {
            "user": "u",
            "items": items_of(engine),
            "explore": "thompson",
            "seed": 3,
            "draws": 20,
            "top": 4,
            "explain": True,
        }
    )
    on_the_wire = json.loads(engine.score(request).as_json())
    assert on_the_wire == engine.predict(request).model_dump(mode="json", exclude_unset=True)
    assert len(on_the_wire["answers"]) == len(on_the_wire["exploration"]["greedy"]) == 4


@pytest.mark.parametrize("rule", RULES)
def test_without_width_the_order_is_that_of_greedy(engine: Engine, rule: str) -> None:
    greedy = predict(engine, top=20)
    still = predict(engine, explore=rule, width=0, draws=3)
    assert order(still) == order(greedy)
    assert still.exploration is not None
    assert still.exploration.greedy == [one.candidate for one in greedy.answers]
    assert {one.propensity for one in still.answers} == {1.0}
    assert order(recommend(engine, explore=rule, width=0, draws=3, top=16)) == order(recommend(engine, top=16))


def test_an_answer_that_does_not_explore_says_nothing_of_it(engine: Engine) -> None:
    wire = engine.score(PredictRequest.model_validate({"user": "u", "items": items_of(engine)})).as_json()
    assert not any(word in wire for word in (b"explor", b"propensity", b"ranked_by", b"greedy"))
    assert b"explor" not in recommend(engine).model_dump_json(exclude_unset=True).encode()


def test_one_draw_ranks_candidates_and_the_whole_catalogue(engine: Engine) -> None:
    """Whatever is asked for, and for stored and inline events."""
    ranked = recommend(engine, explore="thompson", seed=11, draws=5, top=20, exclude_seen=False)
    by_item = {one.item: one.ranked_by for one in ranked.answers}
    for some in (items_of(engine)[3:9], items_of(engine)[::2]):
        predicted = predict(engine, items=some, explore="thompson", seed=11, draws=2)
        found = {one.item: one.ranked_by for one in predicted.answers}
        assert found == pytest.approx({item: by_item[item] for item in some}, abs=1e-5)
    inline = engine.recommend(
        RecommendRequest.model_validate(
            {"events": KNOWN, "explore": "thompson", "seed": 11, "draws": 5, "top": 20, "exclude_seen": False}
        )
    )
    assert order(inline) == order(ranked)


def test_ucb_ranks_by_the_mean_and_its_deviation(engine: Engine) -> None:
    answer = predict(engine, explore="ucb", width=1.5, deviation=True)
    bounds = [one.basis + one.residual + 1.5 * (one.deviation or 0) for one in answer.answers]
    assert [one.ranked_by for one in answer.answers] == pytest.approx(bounds, abs=1e-4)
    assert bounds == sorted(bounds, reverse=True)
    assert {one.propensity for one in answer.answers} == {1.0}
    whole = recommend(engine, explore="ucb", width=1.5, top=20, exclude_seen=False)
    assert order(whole) == order(answer)
    assert answer.exploration is not None
    assert answer.exploration.draws == 0


def test_propensities_are_how_often_an_item_is_ranked_there(engine: Engine) -> None:
    """Over many seeds, items come first as often as their propensities say, and these sum to 1 over the items."""
    request = {"explore": "thompson", "width": 0.5, "items": items_of(engine)[:5], "top": 2}
    count, draws = 500, 2000
    answers = [predict(engine, **request, draws=1, seed=seed) for seed in range(count)]
    for place in range(2):
        shown = Counter(answer.answers[place].item for answer in answers)
        told: dict[str | None, float] = {}
        for item, times in shown.items():
            seed = next(n for n, answer in enumerate(answers) if answer.answers[place].item == item)
            one = predict(engine, **request, draws=draws, seed=seed).answers[place]
            assert one.item == item
            assert one.propensity is not None
            told[item] = one.propensity
            error = np.sqrt(one.propensity * (1 - one.propensity) * (1 / count + 1 / draws))
            assert abs(times / count - one.propensity) < 5 * error + 1 / count
        assert sum(told.values()) == pytest.approx(1, abs=0.04)
        assert len(told) > 2


def test_candidates_alike_are_explored_alike(engine: Engine) -> None:
    """One draw of the user's function: the same candidate twice gets the same logit, not two draws."""
    one, two = predict(engine, items=["7", "7"], explore="thompson", seed=4, draws=10).answers
    assert one.ranked_by == two.ranked_by
    assert (one.candidate, two.candidate) == (0, 1)
    assert one.propensity == two.propensity == 1


def test_a_large_catalogue_gets_fewer_draws_in_tiles(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"explore": "thompson", "seed": 5, "top": 7, "exclude_seen": False}
    whole = recommend(engine, draws=40, **asked)
    monkeypatch.setattr("resus.serving.explored.TILE", 3 * 41)
    in_tiles = recommend(engine, draws=40, **asked)
    assert order(in_tiles) == order(whole)
    assert [one.propensity for one in in_tiles.answers] == [one.propensity for one in whole.answers]
    monkeypatch.setattr("resus.serving.explored.SCORES", len(items_of(engine)) * 9)
    fewer = recommend(engine, draws=40, **asked)
    assert fewer.exploration is not None
    assert fewer.exploration.draws == 8
    assert order(fewer) == order(whole), "the draw that is shown is the same"


def test_only_allowed_items_are_explored_page_by_page(engine: Engine) -> None:
    asked: dict[str, Any] = {"explore": "thompson", "seed": 6, "draws": 30, "describe": True}
    whole = recommend(engine, top=8, **asked)
    assert not {"0", "1", "2", "3"} & set(order(whole))
    pages = [recommend(engine, top=4, offset=offset, **asked) for offset in (0, 4)]
    assert [one for page in pages for one in page.answers] == whole.answers
    greedy = order(recommend(engine, top=20))
    assert [greedy.index(one.item) + 1 for one in whole.answers] == [one.rank for one in whole.answers]
    assert whole.exploration is not None
    assert whole.exploration.greedy == greedy[:8]
    few = recommend(engine, filter={"item": ["7", "9"]}, **asked)
    assert set(order(few)) == {"7", "9"}
    none = recommend(engine, filter={"item": "never seen"}, **asked)
    assert none.answers == []
    found = recommend(engine, search="1", **asked)
    assert all("1" in one.item for one in found.answers)


def test_mistakes_are_one_sentence(engine: Engine, exported: Path, another: Path, store: EventStore) -> None:
    for request, told in (
        ({"explore": "epsilon"}, "explore is 'epsilon': use thompson or ucb, or leave it out"),
        ({"seed": 3}, "seed is a setting of explore: add explore \\(thompson or ucb\\), or leave it out"),
        ({"width": 1.0}, "width is a setting of explore"),
    ):
        for ask in (predict, recommend):
            with pytest.raises(DataError, match=told):
                ask(engine, **request)
    for folder in (exported, another):
        other = Engine(LoadedModel.load(folder), store)
        for ask in (predict, recommend):
            with pytest.raises(DataError, match="cannot: leave explore out, or serve a RESUS\\+ model"):
                ask(other, explore="ucb")
    for name, value in (("seed", -1), ("seed", 2**53), ("width", float("nan")), ("draws", 0), ("draws", 1.5)):
        given: dict[str, Any] = {"seed": None, "width": None, "draws": None, name: value}
        with pytest.raises(DataError, match=f"{name} is .*: give a "):
            exploring_of("ucb", **given)


def test_over_the_wire(client: InProcess) -> None:
    """The client's model is RESUS-RR, which has no posterior."""
    post(client, event(1, user="w"))
    for address in ("/v1/predict", "/v1/recommend"):
        asked = {"user": "w", "explore": "thompson"} | ({"items": ["1"]} if "predict" in address else {})
        assert refused(client, json.dumps(asked).encode(), address)[0] == 422
        status, told = refused(client, json.dumps({**asked, "explore": "best"}).encode(), address)
        assert (status, told) == (422, "explore is 'best': use thompson or ucb, or leave it out")
        assert refused(client, json.dumps({**asked, "seed": "a"}).encode(), address)[0] == 422
        assert refused(client, json.dumps({**asked, "draws": 10**6}).encode(), address)[0] == 422


def test_offline_and_live_explore_alike(third: Path, tmp_path: Path, store: EventStore) -> None:
    """A table's first user has the seed itself, the next one the next; the command says the same."""
    log = log_of(events()).save(tmp_path / "log")
    model, live = resus.load(third), Engine(LoadedModel.load(third), store)
    table = events().filter(pl.col("user").is_in([1, 2])).group_by("user", maintain_order=True).head(5)
    table.write_csv(tmp_path / "support.csv")
    asked: dict[str, Any] = {"explore": "thompson", "draws": 40, "top": 6}
    offline = model.recommend(table, log, seed=9, **asked)
    assert offline.columns[-5:] == ["ranked_by", "propensity", "greedy", "seed", "draws"]
    words = ["recommend", third, "--support", "support.csv", "--data", "log", "--top", 6, "--out", "out.parquet"]
    succeed_here(*words, "--explore", "thompson", "--seed", 9, "--draws", 40, cwd=tmp_path)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(offline)
    assert "explore is 'best': use thompson or ucb" in refused_here(*words, "--explore", "best", cwd=tmp_path)
    for number, ((user,), rows) in enumerate(table.group_by("user", maintain_order=True)):
        sent = [
            {"label": row["click"], "item": str(row["item"]), "features": {"tags": row["tags"].split("|")}}
            for row in rows.iter_rows(named=True)
        ]
        request = {"events": sent, "context": sent[-1]["features"], "seed": 9 + number, **asked}
        answer = live.recommend(RecommendRequest.model_validate(request))
        own = offline.filter(pl.col("user") == str(user))
        assert own["seed"].unique().to_list() == [9 + number]
        assert own["item"].to_list() == order(answer)
        assert own["ranked_by"].to_list() == pytest.approx([one.ranked_by for one in answer.answers], abs=1e-5)
        assert own["propensity"].to_list() == [one.propensity for one in answer.answers]
        assert answer.exploration is not None
        assert own["greedy"].to_list() == answer.exploration.greedy


def test_a_long_ranking_keeps_only_the_best_of_each_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that come in tiles cost no memory per tile."""

    class Noise:
        def sample(self, seed: int, draws: int) -> Callable[[Floats], Floats]:
            noise = np.random.default_rng(seed)
            return lambda codes: noise.standard_normal((len(codes), draws), dtype=np.float32)

    draws, top, tiles = 99, 50, 40
    monkeypatch.setattr("resus.serving.explored.TILE", (1 + draws) * top)
    exploring = exploring_of("thompson", seed=1, width=None, draws=draws)
    assert exploring is not None
    spread: Any = Noise()
    tracemalloc.start()
    found = rank(
        exploring, spread, np.zeros(tiles * top, np.float32), lambda tile: np.zeros((len(tile), 1), np.float32), top
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(set(found.order.tolist())) == top
    assert peak < tiles * top * draws * (4 + 8) / 3
