"""DIN's network against loops over candidates and events; training that finds what attention alone can see."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import torch
from planted_models import TINY, small_log
from torch import Tensor, nn

from resus.arrays import Floats
from resus.baselines.base import Method, Task
from resus.baselines.din import DIN, SHRINKAGE, UNIT, InterestNetwork, with_fewer_queries
from resus.baselines.shared_model import SharedModel
from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc
from resus.model.predictors.base import NoPredictor
from resus.progress import Progress, silent

FIELD_OF_USER = 1
SIZES = (0, 1, 3, 6)


def random_network(log: InteractionLog) -> InterestNetwork:
    """A network whose layers, the last ones too, are not 0."""
    torch.manual_seed(3)
    network = InterestNetwork(log.features, [FIELD_OF_USER])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def random_logits(rows: npt.NDArray[np.int64]) -> Floats:
    return np.random.default_rng(1).normal(size=len(rows)).astype(np.float32)


def answer_of(network: InterestNetwork, log: InteractionLog, row: int, support: list[int], basis: Floats) -> float:
    """One candidate: a weight for each event from all four inputs of the unit, then the layers on top."""

    def vectors_of(one: int) -> Tensor:
        vectors: Tensor = network.embedding(features_of(log, np.array([one])))
        return vectors[0]

    fields = vectors_of(row)
    attended = [number for number in range(len(fields)) if number != FIELD_OF_USER]
    candidate = fields[attended].flatten()
    of_candidate, of_event = network.unit_of_candidate.weight, network.unit_of_event.weight
    of_difference = torch.randn_like(of_event)  # any: the other two make up for it
    first = nn.Linear(4 * len(candidate), UNIT[0])
    first.weight.data = torch.cat(
        [of_candidate - of_difference, of_event + of_difference, of_difference, network.unit_of_product], dim=1
    )
    first.bias.data = network.unit_of_candidate.bias.data
    interest, total = torch.zeros(2, len(candidate))
    surprises = torch.zeros(2)
    for place, event in enumerate(support):
        surprise = log.labels[event] - 1 / (1 + np.exp(-basis[place]))
        vector = vectors_of(event)[attended].flatten() + network.label[int(log.labels[event])]
        vector = vector + surprise * network.surprise
        inputs = torch.cat([candidate, vector, candidate - vector, candidate * vector])
        weight = network.unit(first(inputs)).squeeze()
        interest, total = interest + weight * vector, total + vector
        surprises = surprises + surprise * torch.stack([weight, torch.tensor(1.0)])
    count = len(support)
    hidden = network.deep_of_fields(fields.flatten()) + network.deep_of_interest(interest)
    hidden = hidden + network.deep_of_mean(total / (count + SHRINKAGE))
    hidden = hidden + network.deep_of_size(torch.tensor([float(count)]).log1p())
    surprises = surprises / torch.tensor([1.0, count + SHRINKAGE])
    return (network.deep(hidden) + network.short @ surprises).item() if count else 0.0


@torch.no_grad()
def test_the_network_equals_a_loop_over_candidates_and_events(log: InteractionLog) -> None:
    network, ordered = random_network(log), OrderedUsers.of(log, np.arange(3), seed=1)
    basis = random_logits(ordered.rows)
    batch = EpisodeBatch(ordered.rows, ordered.lengths, np.array([4, 0, 2]))
    found = network(batch, features_of(log, batch.rows), torch.from_numpy(basis), labels_of(log, batch.rows))
    assert float(found.abs().max()) > 0.5
    starts = np.cumsum(batch.lengths) - batch.lengths
    for query, user, answer in zip(batch.query.tolist(), batch.query_user.tolist(), found.tolist(), strict=True):
        support = slice(starts[user], starts[user] + batch.support_sizes[user])
        known = batch.rows[support].tolist()
        expected = answer_of(network, log, int(batch.rows[query]), known, basis[support])
        assert answer == pytest.approx(expected, rel=1e-4, abs=1e-5)


def random_method(log: InteractionLog) -> DIN:
    method = DIN()
    method.predictor, method.network = NoPredictor(), random_network(log)
    return method


def test_every_size_at_once_equals_size_by_size(log: InteractionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    method, ordered = random_method(log), OrderedUsers.of(log, np.arange(12), seed=1)
    whole = method.score_prefixes(log, ordered, SIZES)
    for column, size in enumerate(SIZES):
        batch = EpisodeBatch(ordered.rows, ordered.lengths, np.minimum(ordered.lengths, size))
        queries = ordered.positions >= size
        np.testing.assert_allclose(whole[queries, column], method.score(log, batch), rtol=1e-4, atol=1e-5)
        alone = method.score_prefixes(log, ordered, [size])[queries, 0]
        np.testing.assert_allclose(whole[queries, column], alone, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr("resus.baselines.din.PAIRS", 7)
    monkeypatch.setattr("resus.episodes.prefixes.TILE_ROWS", 9)  # users of 12 rows are split
    np.testing.assert_allclose(method.score_prefixes(log, ordered, SIZES), whole, rtol=1e-4, atol=1e-5)


def test_no_event_adds_nothing(log: InteractionLog) -> None:
    ordered = OrderedUsers.of(log, np.arange(5), seed=1)
    assert (random_method(log).score_prefixes(log, ordered, SIZES)[:, 0] == 0).all()


def test_a_pass_takes_some_queries_of_each_user_and_the_whole_support(log: InteractionLog) -> None:
    sampler = Task(log, resolve(TINY | {"training.batch_size": 60})).sampler
    whole, fewer = sampler.epoch(4), with_fewer_queries(sampler, 4, most=3)
    np.testing.assert_array_equal(fewer.support_sizes, whole.support_sizes)
    np.testing.assert_array_equal(fewer.lengths, np.minimum(whole.lengths, whole.support_sizes + 3))
    ends, ends_of_whole = np.cumsum(fewer.lengths), np.cumsum(whole.lengths)
    for user, size in enumerate(whole.support_sizes):
        found = fewer.rows[ends[user] - fewer.lengths[user] : ends[user]]
        rows = whole.rows[ends_of_whole[user] - whole.lengths[user] : ends_of_whole[user]]
        np.testing.assert_array_equal(found[:size], rows[:size])
        assert set(found[size:]) <= set(rows[size:])
        assert len(set(found)) == len(found)
    assert [len(batch.rows) <= 60 + 12 for batch in fewer] == [True] * len(fewer)
    again = with_fewer_queries(sampler, 4, most=3)
    np.testing.assert_array_equal(again.rows, fewer.rows)
    assert len(with_fewer_queries(sampler, 4, most=100).rows) == len(whole.rows)


def auc_of(method: Method, task: Task, size: int) -> float:
    """The AUC of the test users with `size` events known."""
    ordered = OrderedUsers.of(task.log, task.split.test, seed=1)
    queries = ordered.positions >= size
    logits = method.score_prefixes(task.log, ordered, [size])[queries, 0]
    return auc(task.log.labels[ordered.rows[queries]], logits)


def shared_model_of(method: DIN) -> SharedModel:
    shared = SharedModel()
    shared.predictor = method.predictor
    return shared


def test_it_beats_the_shared_model_where_users_differ() -> None:
    world = PlantedWorld(users=200, items=20, events_per_user=20, bias_spread=1.5, seed=5)
    task, method = Task(planted_log(world), resolve(TINY)), DIN(batches=10)
    method.fit(task)
    assert auc_of(method, task, 6) > auc_of(shared_model_of(method), task, 6) + 0.05


def log_of_habits() -> InteractionLog:
    """Each user likes some items and not others, at random: only the events with the same item say which."""
    random, users, events = np.random.default_rng(5), 200, 20
    items = random.integers(6, size=(users, events))
    likes = random.integers(2, size=(users, 6)).astype(np.float32)
    item = CategoricalField("item", tuple("abcdef"))
    return InteractionLog(
        features=FeatureMap((item,), item="item"),
        ids=(1 + items).reshape(-1, 1).astype(np.int32),
        weights=None,
        labels=np.take_along_axis(likes, items, axis=1).ravel(),
        offsets=np.arange(users + 1) * events,
        user_ids=pa.array([str(user) for user in range(users)]),
        ordered=True,
    )


def test_the_candidate_attends_to_events_with_the_same_item() -> None:
    task, method = Task(log_of_habits(), resolve(TINY | {"evaluation.max_size": 12})), DIN(epochs=8, batches=40)
    method.fit(task)
    assert auc_of(shared_model_of(method), task, 12) == pytest.approx(0.5, abs=0.1)
    assert auc_of(method, task, 12) > 0.9


def test_it_stays_the_shared_model_if_no_epoch_beats_it(log: InteractionLog) -> None:
    method, task = DIN(learning_rate=1e-12, embedding_rate=1e-12, batches=3), Task(log, resolve(TINY))
    assert method.fit(task)[-1].epoch == 0
    ordered = OrderedUsers.of(log, task.split.test, seed=1)
    expected = shared_model_of(method).score_prefixes(log, ordered, SIZES)
    np.testing.assert_array_equal(method.score_prefixes(log, ordered, SIZES), expected)


class StoppedError(Exception):
    pass


def test_a_stopped_training_resumes(tmp_path: Path) -> None:
    def stop(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith("interest, epoch 3"):
            raise StoppedError

    def fitted(folder: Path | None, progress: Progress = silent) -> DIN:
        method = DIN(epochs=4, patience=4, batches=3)
        method.fit(Task(small_log(), resolve(TINY), folder=folder, progress=progress))
        return method

    with pytest.raises(StoppedError):
        fitted(tmp_path, stop)
    resumed, alone = fitted(tmp_path), fitted(None)
    for name, tensor in alone.network.state_dict().items():
        torch.testing.assert_close(resumed.network.state_dict()[name], tensor, rtol=0, atol=0, msg=name)
