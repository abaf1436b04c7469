"""An extension is one file and one registry line. Each toy in tests/extending is registered and used end to end."""

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from extending.architecture import SumOfFields, SumOfFieldsSettings
from extending.baseline import CLICK_RATE
from extending.data_set import LIKES
from extending.field_kind import DecadeField
from extending.learner import MeanSettings
from extending.metric import ACCURACY
from extending.source import LinesOfFile
from extending.store import MemoryStore
from planted_models import events, log_of, tiny
from resus_process import SHORT, SMALL, succeed_here

from resus import InteractionLog, Results, Resus, load
from resus.baselines import BASELINES
from resus.data.datasets import DATA_SETS
from resus.data.fields import KINDS
from resus.evaluation.metrics import METRICS
from resus.ingest.consumer import Consumer
from resus.ingest.sources import SOURCES, open_source
from resus.model.encoders import ENCODERS
from resus.model.learners import LEARNERS
from resus.serving import Engine, LoadedModel, open_store
from resus.serving.messages import PostedEvent, PredictRequest
from resus.serving.store import STORES

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]
TOYS = ROOT / "tests" / "extending"
EVENTS = events()
SUPPORT, QUERY = EVENTS.filter(pl.col("time") < 4), EVENTS.filter(pl.col("time") >= 4)


@pytest.fixture(autouse=True)
def registries() -> Any:
    """After each test, the registries are as before."""
    registries: list[dict[str, Any]] = [METRICS, KINDS, DATA_SETS, STORES, SOURCES, BASELINES]
    registries += [ENCODERS._classes, LEARNERS._classes]
    before = [dict(registry) for registry in registries]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)


def scored_live(run: Path, user: str, item: str) -> float:
    """The residual that the service gives after one event of the user."""
    engine = Engine(LoadedModel.load(run), open_store(str(run.with_suffix(".sqlite")), capacity=10))
    engine.observe([PostedEvent(id="e1", user=user, time=1, label=1, item=item)])
    return engine.predict(PredictRequest(user=user, items=[item])).answers[0].residual


def test_an_architecture(workplace: Path, tmp_path: Path) -> None:
    ENCODERS.add(SumOfFieldsSettings)
    parts = ("--learner", "ridge", "--encoder", "sum-of-fields", "--predictor", "sum-of-fields")
    words = (*parts, "--set", "encoder.width=3")
    epochs = ("--set", "predictor.epochs=1", "--set", "training.epochs=1", "--set", "evaluation.max_size=6")
    succeed_here("train", "log", *words, *epochs, "--out", tmp_path / "run", cwd=workplace)
    assert "sum of fields" in succeed_here("evaluate", tmp_path / "run", "--draws", "0", cwd=workplace)
    assert load(tmp_path / "run").config.encoder == SumOfFieldsSettings(width=3)
    assert scored_live(tmp_path / "run", "ada", "7") != 0


def test_an_architecture_handed_over_in_python(tmp_path: Path) -> None:
    log = log_of(EVENTS)
    short = {"predictor.epochs": 1, "training.epochs": 1, "evaluation.max_size": 6}
    model = Resus(encoder=SumOfFields, learner="ridge", settings=short).fit(log)
    model.save(tmp_path / "run")
    again = load(tmp_path / "run", encoder=SumOfFields)
    answer = model.predict(SUPPORT, QUERY)
    assert again.predict(SUPPORT, QUERY).equals(answer)
    assert (answer["residual"] != 0).any()
    assert model.evaluate(log, draws=0) == again.evaluate(log, draws=0)


def test_a_learner(workplace: Path, tmp_path: Path) -> None:
    LEARNERS.add(MeanSettings)
    succeed_here("train", "log", "--learner", "mean", *SHORT, "--out", tmp_path / "run", cwd=workplace)
    assert "RESUS-mean" in succeed_here("evaluate", tmp_path / "run", "--draws", "0", cwd=workplace)
    assert scored_live(tmp_path / "run", "ada", "7") > 0


def test_a_metric(workplace: Path, tmp_path: Path) -> None:
    METRICS["accuracy"] = ACCURACY
    assert "Accuracy" in succeed_here("evaluate", "run", "--out", tmp_path, cwd=workplace)
    oracle = Results.read(tmp_path / "results.json").models["oracle"].stages["I"]
    assert 0.5 < (oracle.accuracy or 0) < 1
    succeed_here("report", tmp_path, cwd=workplace)
    assert "Accuracy" in (tmp_path / "report.html").read_text()


def test_a_field_kind(tmp_path: Path) -> None:
    KINDS["decade"] = DecadeField
    table = EVENTS.select("user", "item", "time", "click", year=1950 + 3 * pl.col("item"))
    table.write_csv(tmp_path / "events.csv")
    (tmp_path / "schema.yaml").write_text("{user: user, item: item, time: time, label: click, fields: {year: decade}}")
    words = ("prepare", "events.csv", "--schema", "schema.yaml", "--set", "duplicates=keep", "--out", "log")
    succeed_here(*words, cwd=tmp_path)
    succeed_here("train", "log", *SMALL, "--out", "run", cwd=tmp_path)
    model, loaded = load(tmp_path / "run"), LoadedModel.load(tmp_path / "run")
    rows = table.head(30)
    decades = InteractionLog.open(tmp_path / "log").features.fields[-1]
    assert decades.values == tuple(str(decade) for decade in range(1950, 2010, 10))
    assert model.predict(rows.clear(), rows.with_columns(pl.col("year") // 10 * 10)).equals(
        model.predict(rows.clear(), rows)
    )
    asked = rows.select("item", "year").cast({"item": pl.String}).to_dicts()
    basis = loaded.live_user(capacity=10).score(loaded.rows(asked)).basis
    np.testing.assert_allclose(basis, model.predict(rows.clear(), rows)["basis"].to_numpy(), atol=1e-6)


def test_a_data_set(tmp_path: Path) -> None:
    DATA_SETS["likes"] = LIKES
    EVENTS.select(who="user", what="item", liked="click").write_csv(tmp_path / "likes.csv")
    words = ("likes", "--path", ".", "--set", "duplicates=keep")
    assert f"{EVENTS.height} events" in succeed_here("prepare", *words, cwd=tmp_path)
    assert "RESUS-RR" in succeed_here("train", "likes", *SMALL, "--out", "run", cwd=tmp_path)


def test_a_store(tmp_path: Path) -> None:
    STORES["memory"] = MemoryStore
    tiny().fit(log_of(EVENTS)).save(tmp_path / "run")
    engine = Engine(LoadedModel.load(tmp_path / "run"), open_store("memory:here", capacity=2))
    posted = [PostedEvent(id=f"e{time}", user="ada", time=time, label=time % 2, item="7") for time in range(3)]
    assert [result.status for result in engine.observe([*posted, posted[2]]).results] == [
        "added",
        "added",
        "added",
        "known",
    ]
    answer = engine.predict(PredictRequest(user="ada", items=["7"]))
    assert (answer.support, answer.answers[0].residual != 0) == (2, True)


def test_a_source(workplace: Path, tmp_path: Path) -> None:
    """Its events go into a store of one's own, and a consumer that comes later reads only what is new."""
    SOURCES["lines"] = LinesOfFile
    STORES["memory"] = MemoryStore
    engine = Engine(LoadedModel.load(workplace / "run"), open_store("memory:here", capacity=9))
    for number in range(2):
        event = PostedEvent(id=f"e{number}", user="ada", time=number, label=1, item="7")
        with (tmp_path / "events.jsonl").open("a") as file:
            file.write(event.model_dump_json() + "\n")
        source = open_source(f"lines:?path={tmp_path / 'events.jsonl'}", group="resus", consumer="one")
        consumer, stopping = Consumer(source, engine, print), threading.Event()
        thread = threading.Thread(target=consumer.run, args=[stopping])
        thread.start()
        while not consumer.counts["messages"]:
            time.sleep(0.01)
        stopping.set()
        thread.join()
        assert consumer.counts["added"] == 1
    assert [event.id for event in engine.store.read("ada").events] == ["e0", "e1"]


def test_a_baseline(workplace: Path, tmp_path: Path) -> None:
    BASELINES["click-rate"] = CLICK_RATE
    words = ("warm-up", "run", "--part", "validation", "--up-to", "5", "--out", tmp_path)
    succeed_here("train", "log", *SMALL, "--set", "split.ratios=[1,1,1]", "--out", tmp_path / "run", cwd=workplace)
    succeed_here(words[0], tmp_path / "run", *words[2:], "--rivals", "click-rate", cwd=workplace)
    curve = json.loads((tmp_path / "warm-up.json").read_text())["models"]["click rate"]
    assert curve["0"]["auc"] == 0.5
    assert curve["5"]["auc"] > 0.5


def test_contributing_quotes_the_toys() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    quoted = dict(re.findall(r"\(tests/extending/(\w+\.py)\).*?\n```python\n(.*?)```", text, re.DOTALL))
    assert quoted.keys() == {path.name for path in TOYS.glob("*.py")} - {"__init__.py"}
    for name, code in quoted.items():
        assert code in (TOYS / name).read_text(encoding="utf-8"), name
