"""After any sequence of events, corrections and deletions, online scores are offline scores on the same support.

Online scores come from numpy, offline scores from torch. A learner of the user's own runs in torch in both.
"""

import contextlib
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_models import KEEP, TINY, events, log_of
from service_fixtures import Place

from resus import TableSchema, build_log
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, features_of
from resus.errors import DataError
from resus.model.build import build_personalizer
from resus.model.inference.in_torch import inference_in_torch
from resus.model.inference.model import Inference
from resus.model.inference.parts import Rows, sigmoid
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.in_numpy import learner as plus_in_numpy
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.ridge import RidgeLearner
from resus.model.personalizer import Personalizer
from resus.model.predictors.average import AveragePredictor
from resus.serving.live.user import LiveUser
from resus.serving.store import Event, open_store

LEARNERS: dict[str, dict[str, Any]] = {
    "ridge": {"learner.kind": "ridge"},
    "ridge, biases": {"learner.kind": "ridge", "learner.bias": True, "fusion.bias": True},
    "nearest": {"learner.kind": "nearest"},
    "ridge, monotone": {"learner.kind": "ridge", "fusion.monotone": True},
    "cosine": {"learner.kind": "nearest", "learner.similarity": "cosine", "fusion.per_size": False},
    "plus": {"learner.kind": "plus", "encoder.embedding_dim": 3},
    "plus, many events": {"learner.kind": "plus", "encoder.embedding_dim": 1},
    "plus, iterative": {"learner.kind": "plus", "encoder.embedding_dim": 2},
    "plus, one step": {"learner.kind": "plus", "encoder.embedding_dim": 2, "learner.steps": 1},
    "plus, few parts": {"learner.kind": "plus", "learner.taste": False, "learner.context": False},
    "ridge, more events than numbers": {"learner.kind": "ridge", "encoder.kind": "lr", "encoder.embedding_dim": 1},
    "ridge in torch": {"learner.kind": "ridge"},
}
PREDICTORS = ("lr", "fm", "wide-deep", "deepfm", "xdeepfm", "none", "logits:price")
CAPACITY = 8  # more than the six events of the training
CANDIDATES = np.arange(40, 47)
BESIDE_THE_FIT = (
    "choice of items",
    "same context",
    "number of events",
)  # causes that the parts of the events leave out


@cache
def log() -> InteractionLog:
    return log_of(events())


@cache
def config_of(name: str) -> Config:
    return resolve(TINY | {"encoder.embedding_std": 0.5, "predictor.embedding_std": 0.5} | LEARNERS[name])


@cache
def built(name: str) -> Personalizer:
    torch.manual_seed(3)
    config = config_of(name)
    model = build_personalizer(config, log().features)
    with torch.no_grad():
        for parameter in model.fusion.parameters():
            parameter.copy_(torch.linspace(0.5, 1.5, len(parameter)))
        if isinstance(model.encoder, FactorEncoder):
            model.encoder.context[[field.name for field in log().features.fields].index("tags")] = 1.0
            model.encoder.embedding.table.normal_(std=0.5)  # also what is common to all users
            for parameter in model.learner.parameters():
                parameter.add_(0.5 * torch.randn_like(parameter))
    return model.eval()


@cache
def inference_of(name: str) -> Inference:
    model = built(name)
    if name.endswith("in torch"):
        return inference_in_torch(model)
    return in_numpy(config_of(name), model)


def in_numpy(config: Config, model: Personalizer) -> Inference:
    weights = {f"predictor.{name}": value.numpy() for name, value in model.predictor.state_dict().items()}
    weights |= {f"model.{name}": value.numpy() for name, value in model.state_dict().items()}
    found = Inference.of(config, log().features, weights)
    assert found is not None
    return found


def user_of(name: str) -> LiveUser:
    return LiveUser(inference_of(name), capacity=CAPACITY)


def rows_of(numbers: Any) -> Rows:
    weights = log().weights
    return Rows(log().ids[numbers], None if weights is None else weights[numbers])


def row(number: int) -> Rows:
    return rows_of(np.array([number]))


@pytest.fixture(autouse=True)
def _iterative(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """RESUS+ solves without a matrix of pairs as soon as a user has two events."""
    if "iterative" in request.node.name:
        monkeypatch.setattr(plus_in_numpy, "LONG", 1)


@torch.no_grad()
def offline(name: str, support: dict[int, float]) -> torch.Tensor:
    """Scores as in training and evaluation, with labelled rows as support."""
    model = built(name)
    rows = np.concatenate([np.array(list(support), dtype=np.int64), CANDIDATES])
    batch = EpisodeBatch(rows, np.array([len(rows)]), np.array([len(support)]))
    features = features_of(log(), rows)
    labels = torch.tensor([*support.values(), *[float("nan")] * len(CANDIDATES)])
    return model(batch, features, model.predictor.logits(features), labels).sigmoid()  # type: ignore[no-any-return]


class Remembered:
    """The events that must count, by the rules and without any algebra."""

    def __init__(self) -> None:
        self.kept: list[tuple[float, str, int, float]] = []  # time, id, row, label

    def observe(self, number: int, label: float, time: float) -> None:
        if any(entry[2] == number for entry in self.kept):
            self.kept = [(*entry[:3], label) if entry[2] == number else entry for entry in self.kept]
            return
        self.kept = sorted([*self.kept, (time, f"e{number}", number, label)])[-CAPACITY:]

    def forget(self, number: int) -> None:
        self.kept = [entry for entry in self.kept if entry[2] != number]

    @property
    def support(self) -> dict[int, float]:
        return {entry[2]: entry[3] for entry in self.kept}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["observe", "observe", "observe", "forget", "ask"]),
        st.integers(0, 14),
        st.sampled_from([0.0, 1.0]),
        st.integers(0, 5),
    ),
    max_size=30,
)


@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_online_equals_offline(name: str, steps: list[tuple[str, int, float, int]]) -> None:
    user, truth = user_of(name), Remembered()
    for verb, number, label, time in steps:
        if verb == "observe":
            user.observe(f"e{number}", row(number), label, float(time))
            truth.observe(number, label, time)
        elif verb == "ask":
            user.score(row(number), deviation=False)  # the next fit starts from this one
        else:
            user.forget(f"e{number}")
            truth.forget(number)
    assert user.events == tuple(f"e{number}" for number in truth.support)
    scores = user.score(rows_of(CANDIDATES), explain=True)
    np.testing.assert_allclose(scores.probability, offline(name, truth.support), rtol=0, atol=1e-5)
    live = built(name).live_support()
    if truth.support:
        support = features_of(log(), np.array(list(truth.support)))
        live.fill(support, torch.tensor(list(truth.support.values())))
    in_torch = live.score(features_of(log(), CANDIDATES), explain=True)
    assert (scores.deviation is None) == (in_torch.deviation is None)
    if scores.deviation is not None and in_torch.deviation is not None:
        np.testing.assert_allclose(scores.deviation, in_torch.deviation, rtol=1e-4, atol=2e-5)
    mean = user.score(rows_of(CANDIDATES), deviation=False)
    np.testing.assert_array_equal(mean.residual, scores.residual)
    assert mean.explanation is None
    assert scores.explanation is not None
    assert in_torch.explanation is not None
    assert scores.explanation.causes.keys() == in_torch.explanation.causes.keys()
    for cause, parts_of_cause in scores.explanation.causes.items():
        np.testing.assert_allclose(parts_of_cause, in_torch.explanation.causes[cause], rtol=1e-4, atol=2e-5)
    parts = scores.explanation.parts
    if scores.explanation.leave_one_out:
        for place, event in enumerate(truth.support):
            without = offline(name, {number: label for number, label in truth.support.items() if number != event})
            left = sigmoid(scores.basis + scores.residual - parts[:, place])
            np.testing.assert_allclose(left, without, rtol=0, atol=1e-5)
    else:
        beside = sum(scores.explanation.causes.get(cause, 0.0) for cause in BESIDE_THE_FIT)
        np.testing.assert_allclose(parts.sum(axis=1), scores.residual - beside, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("encoder", ["lr", "fm", "wide-deep", "deepfm", "xdeepfm"])
def test_networks_in_numpy_are_those_of_torch(predictor: str, encoder: str) -> None:
    torch.manual_seed(5)
    config = resolve(TINY | {"predictor.kind": predictor, "encoder.kind": encoder})
    model = build_personalizer(config, log().features).eval()
    many = np.arange(len(log().labels))
    if predictor == "logits:price":
        price = log().features.block("price")
        many = many[~price.field.is_unknown(price.of(log().ids, None)[0])]  # others have no score
    fast = in_numpy(config, model)
    for numbers in (many, many[:3]):
        with torch.no_grad():
            encoded = model.encoder(features_of(log(), numbers))
        crowd, codes = fast.encode(rows_of(numbers))
        np.testing.assert_allclose(codes, encoded, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(crowd, model.predictor.logits(features_of(log(), numbers)), rtol=1e-5, atol=1e-6)


def test_a_mean_of_predictors_and_trees_need_no_torch() -> None:
    config = resolve(TINY)
    model = build_personalizer(config, log().features).eval()
    model.use_predictor(AveragePredictor([config.predictor.build_predictor(log().features) for _ in range(3)]))
    trees = resolve(TINY | {"predictor.kind": "lightgbm"})
    boosted = build_personalizer(trees, log().features).eval()
    rows = np.arange(len(log().labels))
    boosted.predictor.fit(log(), rows[::2], rows[1::2], seed=1, threads=1)
    for settings_of, of in ((config, model), (trees, boosted)):
        fast = in_numpy(settings_of, of).encode(rows_of(rows))[0]
        np.testing.assert_allclose(fast, of.predictor.logits(features_of(log(), rows)), rtol=1e-5, atol=1e-6)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.permutations(range(CAPACITY)), times=st.lists(st.integers(0, 3), min_size=CAPACITY, max_size=CAPACITY))
def test_log_live_user_and_stores_agree_on_the_order_of_events(place: Place, sent: list[int], times: list[int]) -> None:
    """By time, then by id, whatever order they arrive in. A log has no ids; its rows are given in the order of ids."""
    expected = [f"e{number}" for number in sorted(range(CAPACITY), key=lambda number: (times[number], number))]
    made = [Event(f"e{number}", float(times[number]), 1.0, {}) for number in range(CAPACITY)]

    table = pl.DataFrame(
        {
            "user": 1,
            "item": [event.id for event in made],
            "time": times,
            "click": [number % 2 for number in range(CAPACITY)],
        }
    )
    offline = build_log(table, TableSchema(user="user", item="item", time="time", label="click"), KEEP)
    assert [offline.features.decode(ids, None)["item"] for ids in offline.ids] == expected

    live = user_of("ridge")
    for number in sent:
        live.observe(made[number].id, row(number), made[number].label, made[number].time)
    assert list(live.events) == expected

    with contextlib.closing(open_store(place(), capacity=CAPACITY)) as store:
        store.add([("u", made[number]) for number in sent])
        assert [event.id for event in store.read("u").events] == expected
    assert [event.id for event in sorted(made, key=lambda event: event.moment)] == expected


@pytest.mark.parametrize("name", LEARNERS)
def test_without_events_the_answer_is_the_shared_one(name: str) -> None:
    candidates = features_of(log(), CANDIDATES)
    scores = user_of(name).score(rows_of(CANDIDATES), explain=True)
    model = built(name)
    with torch.no_grad():
        crowd = model.learner.crowd(model.predictor.logits(candidates), model.encoder(candidates))
    np.testing.assert_allclose(scores.basis, crowd, rtol=1e-5, atol=1e-6)
    assert not scores.residual.any()
    assert scores.explanation is not None
    assert scores.explanation.parts.shape == (len(CANDIDATES), 0)
    assert user_of(name).score(rows_of(CANDIDATES)).explanation is None


def test_before_the_first_event_only_plus_has_a_deviation() -> None:
    candidates = rows_of(CANDIDATES)
    assert user_of("ridge").score(candidates).deviation is user_of("nearest").score(candidates).deviation is None
    plus, model = user_of("plus"), built("plus")
    learner = PlusLearner.of(model.learner)
    before = plus.score(candidates).deviation
    with torch.no_grad():
        prior = learner.prior.variance(learner.layout.unpack(model.encoder(features_of(log(), CANDIDATES))))
    assert before is not None
    np.testing.assert_allclose(before, prior.sqrt(), rtol=1e-5)
    plus.observe("e0", row(0), 1.0, 0.0)
    after = plus.score(candidates).deviation
    assert after is not None
    assert (after < before).all()


def test_a_refused_event_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    user = user_of("ridge")
    for number in range(CAPACITY):
        user.observe(f"e{number}", row(number), 1.0, float(number))
    known = user.events

    def refusing(*_: Any) -> Any:
        raise DataError("no score")

    monkeypatch.setattr(Inference, "encode", refusing)
    with pytest.raises(DataError):
        user.observe("late", row(20), 1.0, 99.0)
    assert user.events == known


def test_the_deviation_is_that_of_the_gaussian_process_and_shrinks_with_events() -> None:
    user = user_of("ridge")
    model = built("ridge")
    assert isinstance(model.learner, RidgeLearner)
    candidates = features_of(log(), CANDIDATES)
    before = np.full(len(CANDIDATES), np.inf)
    with torch.no_grad():
        for number in range(4):
            user.observe(f"e{number}", row(number), 1.0, float(number))
            support = model.encoder(features_of(log(), np.arange(number + 1))).double()
            query = model.encoder(candidates).double()
            inverse = torch.linalg.inv(support @ support.T + model.learner.ridge * torch.eye(number + 1))
            variance = (query * query).sum(dim=1) - ((query @ support.T @ inverse) * (query @ support.T)).sum(dim=1)
            deviation = user.score(rows_of(CANDIDATES)).deviation
            assert deviation is not None
            scale = model.fusion.scale[number].abs().item()
            np.testing.assert_allclose(deviation, variance.sqrt() * scale, rtol=1e-3, atol=1e-5)
            assert (deviation / scale <= before + 1e-6).all()
            before = deviation / scale


def test_an_event_raises_or_lowers_similar_candidates_by_its_label() -> None:
    user = user_of("ridge")
    user.observe("liked", row(40), 1.0, 0.0)

    def parts() -> list[list[float]]:
        explanation = user.score(row(40), explain=True).explanation
        assert explanation is not None
        found: list[list[float]] = explanation.parts.tolist()
        return found

    [[liked]] = parts()
    assert liked > 0
    user.correct("liked", 0.0)
    [[disliked]] = parts()
    assert disliked < 0
    user.correct("never seen", 1.0)
    user.forget("never seen")
    assert user.events == ("liked",)
