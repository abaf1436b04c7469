"""A second model beside the first: it changes no answer, answers its share of the users, and is compared."""

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from planted_models import KEEP, events, tiny
from resus_process import refused_here
from service_fixtures import CAPACITY
from service_process import (
    PATIENCE,
    InProcess,
    Serving,
    children_of,
    event,
    in_process,
    kill,
    post,
    predict,
    sealed,
    serving,
    wait_until,
)
from sklearn.metrics import log_loss

from resus import TableSchema, build_log
from resus.errors import DataError
from resus.serving import Engine, LoadedModel, open_store
from resus.serving.drift import REFERENCE, Reference, Spread
from resus.serving.experiment import trial
from resus.serving.experiment.predictions import shared_memory
from resus.serving.experiment.split import Split
from resus.serving.experiment.trial import WAITING, check_second
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.http.recent_scores import EVERY, ONE_IN
from resus.serving.http.service import Setup
from resus.serving.lineup import ModelFolders
from resus.serving.messages import PredictRequest, RecommendRequest

HALF = Split(0.5)
OURS, THEIRS = (next(f"u{n}" for n in range(99) if HALF.has(f"u{n}") is there) for there in (False, True))
ITEMS = [str(number) for number in range(1, 9)]


class Experiment:
    """A service with two models, and both models alone on the same store."""

    def __init__(self, runs: list[Path], store: str, split: Split | None) -> None:
        self.runs = runs
        opened = open_store(store, capacity=CAPACITY)
        self.engines = [Engine(LoadedModel.load(run), opened, capacity=CAPACITY) for run in runs]
        self.alone = [Engine(engine.loaded, opened, capacity=CAPACITY) for engine in self.engines]
        first, second = self.engines
        setup = Setup(ModelFolders(runs), second=second, split=split, memory=shared_memory(12))
        self.app = build_app(first, runs[0], Access("localhost", None), setup=setup)
        self.versions = [engine.loaded.version for engine in self.engines]

    def figures(self, client: InProcess, compared: int) -> dict[str, Any]:
        """What it says once so many requests are compared or left out."""

        def told() -> dict[str, Any]:
            return dict(client.get("/v1/experiment").json())

        wait_until(lambda: told()["compared"] + sum(told()["left_out"].values()) >= compared, "the comparison")
        return told()

    def logits(self, model: int, **request: Any) -> list[float]:
        found = self.alone[model].predict(PredictRequest(**request)).answers
        return [answer.basis + answer.residual for answer in found]


Begin = Callable[..., Experiment]


@pytest.fixture
def begin(served_run: Path, another: Path, tmp_path: Path) -> Begin:
    def made(split: Split | None = None) -> Experiment:
        second = Path(shutil.copytree(another, tmp_path / "second", dirs_exist_ok=True))
        return Experiment([served_run, second], str(tmp_path / "events"), split)

    return made


@pytest.fixture
def shadow(begin: Begin) -> Iterator[tuple[Experiment, InProcess]]:
    experiment = begin()
    with in_process(experiment.app) as client:
        yield experiment, client


class Clock:
    """Every look at it is a second later. It keeps the rests that were asked for."""

    def __init__(self) -> None:
        self.now, self.rests = 0.0, list[float]()

    def perf_counter(self) -> float:
        self.now += 1
        return self.now

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)


def test_a_shadow_rests_for_as_long_as_it_worked(
    shadow: tuple[Experiment, InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(trial, "time", clock)
    experiment, client = shadow
    for _ in range(3):
        predict(client, items=ITEMS)
    experiment.figures(client, 3)
    wait_until(lambda: len(clock.rests) == 3, "the rests")
    assert clock.rests == [1.0, 1.0, 1.0]


def test_a_shadow_changes_no_answer_and_is_compared(shadow: tuple[Experiment, InProcess]) -> None:
    experiment, client = shadow
    post(client, event(1), event(2, label=0, item=3))
    for request in ({"user": "u"}, {"events": [{"label": 1, "item": "2"}]}, {}):
        answer = predict(client, items=ITEMS, **request)
        assert answer == experiment.alone[0].predict(PredictRequest(items=ITEMS, **request))
    found = experiment.figures(client, 3)
    assert found["split"] is None
    assert [found[model]["version"] for model in ("first", "second")] == experiment.versions
    assert [found[model]["answered"] for model in ("first", "second")] == [3, 0]
    assert found["compared"] == 3
    assert 0 < found["difference"] < 1
    assert -1 <= found["rank_correlation"] <= 1
    assert found["joined"] == 0


def test_the_figures_are_those_of_both_models_alone(shadow: tuple[Experiment, InProcess]) -> None:
    """Events come after predictions; what each model had said is compared with their labels."""
    experiment, client = shadow
    logits: list[list[float]] = [[], []]
    labels = [1, 0, 0, 1, 0, 1]
    for number, label in enumerate(labels):
        item = ITEMS[number]
        predict(client, user="u", items=ITEMS)
        experiment.figures(client, number + 1)
        for model in (0, 1):
            logits[model] += experiment.logits(model, user="u", items=[item])
        assert post(client, event(number, label=label, item=int(item))) == ["added"]
        assert post(client, event(number, label=label, item=int(item))) == ["known"], "counts once"
    found = experiment.figures(client, len(labels))
    assert found["joined"] == len(labels)
    for name, scores in zip(("first", "second"), logits, strict=True):
        expected = log_loss(labels, 1 / (1 + np.exp(-np.array(scores))))
        assert found[name]["logloss"] == pytest.approx(expected, abs=1e-5)
    assert found["first"]["positive"] == pytest.approx(0.5)
    counted = client.get("/metrics").text
    assert f'resus_experiment_auc{{model="second"}} {found["second"]["auc"]}' in counted


def test_a_recommendation_is_compared_and_its_items_are_joined(shadow: tuple[Experiment, InProcess]) -> None:
    experiment, client = shadow
    post(client, event(1))
    answer = client.post("/v1/recommend", json={"user": "u", "top": 3, "describe": True}).json()
    found = experiment.figures(client, 1)
    assert (found["compared"], found["left_out"]) == (1, {})
    best = experiment.alone[1].recommend(RecommendRequest(user="u", top=1)).answers[0].item
    assert found["same_best"] == float(answer["answers"][0]["item"] == best)
    post(client, event(2, item=int(answer["answers"][2]["item"])))
    assert experiment.figures(client, 1)["joined"] == 1


def test_only_what_an_answer_held_is_joined(shadow: tuple[Experiment, InProcess]) -> None:
    experiment, client = shadow
    best = predict(client, user="u", items=ITEMS, top=1).answers[0].item
    experiment.figures(client, 1)
    post(client, *(event(int(item), item=int(item)) for item in ITEMS if item != best))
    assert experiment.figures(client, 1)["joined"] == 0
    assert best is not None
    post(client, event(int(best), item=int(best)))
    assert experiment.figures(client, 1)["joined"] == 1


def test_a_split_answers_its_users_with_the_second_model(begin: Begin) -> None:
    experiment = begin(HALF)
    with in_process(experiment.app) as client:
        for user, model in ((OURS, 0), (THEIRS, 1)):
            post(client, event(1, user=user))
            answer = predict(client, user=user, items=ITEMS)
            assert answer == experiment.alone[model].predict(PredictRequest(user=user, items=ITEMS))
            assert answer.version == experiment.versions[model]
            ranked = client.post("/v1/recommend", json={"user": user}).json()
            assert ranked["version"] == experiment.versions[model]
        assert predict(client, items=ITEMS).version == experiment.versions[0]
        assert experiment.figures(client, 5)["second"]["answered"] == 2
        post(client, event(2, user=THEIRS, item=2), event(2, user=OURS, item=2, label=0))
        found = experiment.figures(client, 5)
        assert [found[model]["events"] for model in ("first", "second")] == [1, 1]
        assert [found[model]["positive"] for model in ("first", "second")] == [0, 1]
        assert found["split"] == 0.5
        counted = client.get("/metrics").text
        assert f'resus_predictions_total{{stage="I",version="{experiment.versions[1]}"}} 2.0' in counted


def test_a_second_model_that_fails_changes_no_answer(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = begin(HALF)

    def fail(request: Any) -> Any:
        raise ZeroDivisionError("secret")

    for name in ("score", "recommend"):
        monkeypatch.setattr(experiment.engines[1], name, fail)
    with in_process(experiment.app) as client:
        for user in (OURS, THEIRS):
            assert predict(client, user=user, items=ITEMS).version == experiment.versions[0]
        assert client.post("/v1/recommend", json={"user": THEIRS}).status_code == 200
        found = experiment.figures(client, 3)
        assert (found["compared"], found["left_out"]) == (0, {"failed": 3})
        assert client.post("/v1/predict", json={"user": THEIRS, "candidates": [{"price": "dear"}]}).status_code == 422


def test_a_slow_second_model_delays_nothing_and_its_queue_is_bounded(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, may_go = begin(), threading.Event()
    usual = experiment.engines[1].score

    def slow(request: PredictRequest) -> Any:
        assert may_go.wait(PATIENCE)
        return usual(request)

    monkeypatch.setattr(experiment.engines[1], "score", slow)
    with in_process(experiment.app) as client:
        for _ in range(WAITING + 5):
            predict(client, items=["1"])
        may_go.set()
        found = experiment.figures(client, WAITING + 5)
    assert found["left_out"]["queue full"] in (4, 5)  # one may have left the queue
    assert found["compared"] + found["left_out"]["queue full"] == WAITING + 5


def test_a_model_that_knows_a_later_event_is_not_compared(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, may_go = begin(), threading.Event()
    usual = experiment.engines[1].score

    def late(request: PredictRequest) -> Any:
        assert may_go.wait(PATIENCE)
        return usual(request)

    monkeypatch.setattr(experiment.engines[1], "score", late)
    with in_process(experiment.app) as client:
        predict(client, user="u", items=ITEMS)
        post(client, event(1))
        may_go.set()
        found = experiment.figures(client, 1)
        assert found["left_out"] == {"events came meanwhile": 1}
        post(client, event(2, item=2))
        assert experiment.figures(client, 1)["joined"] == 0


def test_nothing_is_kept_of_a_deleted_user(shadow: tuple[Experiment, InProcess]) -> None:
    experiment, client = shadow
    post(client, event(1))
    predict(client, user="u", items=ITEMS)
    experiment.figures(client, 1)
    assert "u" in experiment.engines[1].live_users
    assert client.delete("/v1/users/u").json() == {"deleted": True}
    assert "u" not in experiment.engines[1].live_users
    post(client, event(2, item=2))
    assert experiment.figures(client, 1)["joined"] == 0


def test_a_changed_item_counts_in_both_models(begin: Begin) -> None:
    experiment = begin(HALF)
    with in_process(experiment.app) as client:
        assert client.request("PUT", "/v1/items/new", json={"fields": {"price": 3}}).status_code == 200
        for user in (OURS, THEIRS):
            found = client.post("/v1/recommend", json={"user": user, "top": 100}).json()["answers"]
            assert "new" in {answer["item"] for answer in found}


def test_a_reload_loads_both_models_or_none_and_a_rollback_brings_both_back(begin: Begin, third: Path) -> None:
    experiment = begin()
    with in_process(experiment.app) as client:
        predict(client, items=ITEMS)
        assert experiment.figures(client, 1)["compared"] == 1
        second = experiment.runs[1]
        shutil.rmtree(second)
        refused = client.post("/v1/reload")
        assert refused.status_code == 409
        assert "second does not exist" in refused.json()["error"]
        shutil.copytree(third, second)
        told = client.post("/v1/reload").json()
        assert (told["version"], told["second"]) == (experiment.versions[0], LoadedModel.load(third).version)
        assert client.get("/v1/experiment").json()["compared"] == 0, "another pair is counted anew"
        told = client.post("/v1/rollback").json()
        assert [told["version"], told["second"]] == experiment.versions
        assert client.get("/v1/experiment").json()["compared"] == 1
        info = client.get("/metrics").text
        assert all(f'version="{version}"}} 1.0' in info for version in experiment.versions)


def test_one_model_has_no_experiment(client: InProcess) -> None:
    answer = client.get("/v1/experiment")
    assert answer.status_code == 404
    assert "--shadow" in answer.json()["error"]


def other_fields(folder: Path) -> Path:
    schema = TableSchema(user="user", item="item", time="time", label="click")
    tiny().fit(build_log(events(), schema, KEEP, name="other"), folder=folder)
    return folder


def other_label(folder: Path) -> Path:
    schema = TableSchema(
        user="user",
        item="item",
        time="time",
        label="bought",
        fields={"category": {"kind": "categorical"}, "price": {"kind": "numeric"}, "tags": {"kind": "multi"}},
    )
    tiny().fit(build_log(events().rename({"click": "bought"}), schema, KEEP, name="other"), folder=folder)
    return folder


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (other_fields, "reads other fields than the first model (category, price, tags)"),
        (other_label, "label 'bought' instead of user 'user', label 'click'"),
    ],
)
def test_a_second_model_for_another_store_is_refused(
    exported: Path, tmp_path: Path, make: Callable[[Path], Path], told: str
) -> None:
    said = refused_here("serve", exported, "--shadow", make(tmp_path / "second"), "--port", 0, cwd=tmp_path)
    assert told in " ".join(said.split())


def test_a_second_model_without_a_catalogue_is_refused(exported: Path, another: Path) -> None:
    first, second = (LoadedModel.load(run) for run in (exported, another))
    check_second(first, second, "second")
    with pytest.raises(Exception, match="--shadow second has no catalogue"):
        check_second(first, replace(second, catalogue=None), "second")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--split", "0.1"), "--split needs a second model: name its folder with --shadow"),
        (("--shadow", "absent", "--split", "1"), "--split is 1: give the share of users"),
        (("--shadow", "absent"), "absent does not exist"),
        (("--shadow", "absent", "--split-salt", "june"), "--split-salt is about the users of --split: add --split"),
    ],
)
def test_a_wrong_option_is_one_sentence(exported: Path, tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    said = refused_here("serve", exported, "--port", 0, *options, cwd=tmp_path)
    assert told in " ".join(said.split())


def recent_scores(service: Serving) -> float:
    lines = service.client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("resus_recent_scores{"))


@pytest.mark.integration
def test_two_workers_count_together_and_keep_the_counts_of_a_killed_one(
    exported: Path, another: Path, tmp_path: Path
) -> None:
    """What one worker predicted is joined with an event that another one stores."""
    run = Path(shutil.copytree(exported, tmp_path / "run"))
    Reference(spreads={"basis": {"all": Spread(edges=[0.0], shares=[0.5, 0.5], count=100)}}).save(run)
    sealed(run, REFERENCE)
    with serving(run, "--workers", 2, "--shadow", another, "--split", 0.5) as service:
        service.client.headers["Connection"] = "close"
        workers = service.two_workers()
        clients = [httpx.Client(base_url=service.client.base_url, timeout=PATIENCE) for _ in workers]
        for client in clients:  # one connection to each worker
            assert client.get("/healthz").status_code == 200
        versions = set()
        for user in (OURS, THEIRS):
            answers = [client.post("/v1/predict", json={"user": user, "items": ITEMS}).json() for client in clients]
            assert answers[0]["version"] == answers[1]["version"]
            versions.add(answers[0]["version"])
        assert len(versions) == 2

        def figures(client: httpx.Client) -> dict[str, Any]:
            return dict(client.get("/v1/experiment").json())

        wait_until(lambda: figures(clients[0])["compared"] == 4, "the comparison")
        for number, client in enumerate(clients):
            sent = [event(number, user=user, item=number + 1, label=number) for user in (OURS, THEIRS)]
            assert client.post("/v1/events", json={"events": sent}).status_code == 200
        told = figures(clients[0])
        assert figures(clients[1]) == told
        assert (told["joined"], told["first"]["events"], told["second"]["events"]) == (4, 2, 2)
        assert told["first"]["auc"] is not None
        for client in clients:
            for _ in range(2 * EVERY - 1):  # after the two above; every EVERY-th shows the counts to the other worker
                client.post("/v1/predict", json={"items": ["1"]})
        assert recent_scores(service) == 2 * (1 + 2 * EVERY // ONE_IN)

        def settled() -> bool:
            now = figures(service.client)
            return bool(now["compared"] + sum(now["left_out"].values()) == 2 + 4 * EVERY)

        wait_until(settled, "the comparison of all requests")
        told = figures(service.client)
        for client in clients:
            client.close()
        kill(workers[0])
        wait_until(lambda: workers[0] not in children_of(service.process.pid), "the end of a worker")
        service.two_workers()
        assert figures(service.client) == told
        assert recent_scores(service) == 1 + 2 * EVERY // ONE_IN, "a dead worker has no recent scores"
        assert service.predict(user=THEIRS, items=ITEMS)["version"] == told["second"]["version"]


def test_a_request_that_no_model_can_answer_is_refused_as_before(begin: Begin) -> None:
    experiment = begin(HALF)
    with pytest.raises(DataError) as alone:
        experiment.alone[0].score(PredictRequest(candidates=[{"item": "1", "price": "dear"}]))
    with in_process(experiment.app) as client:
        answer = client.post("/v1/predict", json={"user": THEIRS, "candidates": [{"item": "1", "price": "dear"}]})
    assert (answer.status_code, answer.json()) == (422, {"error": str(alone.value)})


def test_a_request_that_explores_is_compared_without_exploring(third: Path, another: Path, tmp_path: Path) -> None:
    experiment = Experiment([third, another], str(tmp_path / "events"), None)
    with in_process(experiment.app) as client:
        post(client, event(1))
        asked = {"user": "u", "explore": "thompson", "seed": 3, "top": 2}
        assert client.post("/v1/predict", json={**asked, "items": ITEMS}).status_code == 200
        assert client.post("/v1/recommend", json=asked).status_code == 200
        found = experiment.figures(client, 2)
        assert (found["compared"], found["left_out"]) == (2, {})
