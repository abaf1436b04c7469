"""Boosting on the supports against a logistic regression written out, in any order of users and events."""

import numpy as np
import numpy.typing as npt
import pytest
from planted_models import TINY

from resus.baselines.base import Task
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ConfigError
from resus.model.predictors import PREDICTORS
from resus.paper.rivals.boosted_supports import BoostedSupports

Doubles = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def task(log: InteractionLog) -> Task:
    return Task(log, resolve(TINY))


@pytest.fixture(scope="module")
def ordered(log: InteractionLog, task: Task) -> OrderedUsers:
    return OrderedUsers.of(log, task.split.train, seed=1)


def fit(task: Task, predictor: str, *, epochs: int = 2, learning_rate: float = 0.05) -> BoostedSupports:
    method = BoostedSupports(predictor=predictor, epochs=(epochs,), learning_rates=(learning_rate,))
    method.fit(task)
    return method


def one_hot(log: InteractionLog, rows: npt.NDArray[np.int64]) -> Doubles:
    """`[N, n_ids]`: the weight of each id in each row."""
    assert log.weights is not None
    inputs = np.zeros((len(rows), log.features.n_ids))
    for place, row in enumerate(rows):
        for number, weight in zip(log.ids[row], log.weights[row], strict=True):
            inputs[place, number] += weight
    return inputs


class Adam:
    """Kingma and Ba 2015, algorithm 1."""

    def __init__(self, parameters: list[Doubles], rate: float) -> None:
        self.parameters, self.rate, self.step = parameters, rate, 0
        self.first = [np.zeros_like(parameter) for parameter in parameters]
        self.second = [np.zeros_like(parameter) for parameter in parameters]

    def descend(self, gradients: list[Doubles]) -> None:
        self.step += 1
        for parameter, m, v, gradient in zip(self.parameters, self.first, self.second, gradients, strict=True):
            m += 0.1 * (gradient - m)
            v += 0.001 * (gradient**2 - v)
            unbiased = np.sqrt(v / (1 - 0.999**self.step)) + 1e-8
            parameter -= self.rate * m / (1 - 0.9**self.step) / unbiased


def test_lr_equals_a_logistic_regression_written_out(log: InteractionLog, task: Task, ordered: OrderedUsers) -> None:
    steps, rate, size = 6, 0.05, 3
    method = fit(task, "lr", epochs=steps, learning_rate=rate)
    state = {name: tensor.double().numpy().copy() for name, tensor in method.start.state_dict().items()}
    table, output, bias = state["encoder.embedding.table"], state["output.weight"][0], state["output.bias"]
    fields, dim = len(log.features.fields), table.shape[1]
    field_of_id = np.repeat(np.arange(fields), [field.ids for field in log.features.fields])
    left = np.repeat(ordered.lengths > size, ordered.lengths)
    support = ordered.rows[(ordered.positions < size) & left]
    assert len(support) <= method.batch_size, "one batch an epoch is what is written out here"
    inputs, labels = one_hot(log, support), log.labels[support].astype(np.float64)
    basis = method.predictor.logits_of_rows(log, support).astype(np.float64)

    def second(inputs: Doubles) -> Doubles:
        """x·(table·w of its field) + b: linear in the inputs."""
        added: Doubles = inputs @ (table * output.reshape(fields, dim)[field_of_id]).sum(axis=1) + bias
        return added

    adam = Adam([table, output, bias], rate)
    for _ in range(steps):
        error = (1 / (1 + np.exp(-basis - second(inputs))) - labels) / len(labels)
        by_id = inputs.T @ error
        for_output = np.zeros((fields, dim))
        np.add.at(for_output, field_of_id, by_id[:, None] * table)
        for_table = by_id[:, None] * output.reshape(fields, dim)[field_of_id]
        adam.descend([for_table, for_output.reshape(-1), error.sum(keepdims=True)])
    asked = ordered.positions >= size
    expected = method.predictor.logits_of_rows(log, ordered.rows[asked]) + second(one_hot(log, ordered.rows[asked]))
    found = method.score_prefixes(log, ordered, (size,))[asked, 0]
    assert np.abs(second(inputs)).max() > 0.1, "Ψ₂ says something"
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", list(filter(PREDICTORS.is_architecture, PREDICTORS)))
def test_users_and_events_may_come_in_any_order(log: InteractionLog, task: Task, kind: str) -> None:
    method = fit(task, kind)
    method.batch_size = 8  # several batches an epoch, or order could not matter
    random = np.random.default_rng(2)
    users = task.split.train[log.lengths[task.split.train] > 4]
    shuffled = random.permutation(len(users))
    parts = [log.rows_of(users[[number]]) for number in range(len(users))]
    mixed = [np.concatenate([random.permutation(part[:4]), part[4:]]) for part in parts]
    lengths, sizes = log.lengths[users], np.full(len(users), 4)
    answers = method.score(log, EpisodeBatch(np.concatenate(parts), lengths, sizes))
    again = method.score(
        log, EpisodeBatch(np.concatenate([mixed[number] for number in shuffled]), lengths[shuffled], sizes)
    )
    ends = np.cumsum(lengths - 4)
    of_user = [answers[end - length + 4 : end] for end, length in zip(ends, lengths, strict=True)]
    np.testing.assert_allclose(again, np.concatenate([of_user[number] for number in shuffled]), rtol=1e-5, atol=1e-5)


def test_without_events_it_is_the_shared_model(log: InteractionLog, task: Task, ordered: OrderedUsers) -> None:
    method = fit(task, "fm")
    basis = method.predictor.logits_of_rows(log, ordered.rows)
    np.testing.assert_array_equal(method.score_prefixes(log, ordered, (0,))[:, 0], basis)


def test_users_without_a_query_teach_nothing(log: InteractionLog, task: Task) -> None:
    method = fit(task, "lr")
    users = task.split.train[:6]
    lengths, sizes = log.lengths[users], np.minimum(log.lengths[users] - 1, 4)
    whole = sizes.copy()
    whole[-1] = lengths[-1]
    rows, last = log.rows_of(users), int(lengths[-1])
    left_out = method.score(log, EpisodeBatch(rows[:-last], lengths[:-1], sizes[:-1]))
    np.testing.assert_allclose(method.score(log, EpisodeBatch(rows, lengths, whole)), left_out, rtol=1e-6, atol=1e-6)
    kept = method.score(log, EpisodeBatch(rows, lengths, sizes))[: len(left_out)]
    assert np.abs(kept - left_out).max() > 1e-5, "a user with a query left does teach"


def test_the_best_of_the_grid_is_kept(task: Task) -> None:
    method = BoostedSupports(predictor="lr", epochs=(1, 4), learning_rates=(0.001, 0.3))
    tried = [record for record in method.fit(task) if record.stage == "boosting"]
    assert method.grid == [(1, 0.001), (1, 0.3), (4, 0.001), (4, 0.3)]
    assert [record.epoch for record in tried] == [1, 1, 4, 4]
    reached = [record.validation_auc for record in tried]
    assert len(set(reached)) > 1
    assert (method.epochs, method.learning_rate) == method.grid[reached.index(max(reached))]


@pytest.mark.parametrize("kind", ["lightgbm", "none", "deepffm"])
def test_a_predictor_without_gradients_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"'{kind}' cannot be boosted: choose one of lr, fm, wide-deep"):
        BoostedSupports(predictor=kind)
