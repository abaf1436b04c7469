"""Meta-Embedding: the user's vector is generated, then takes gradient steps on the support."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from planted_models import TINY, small_log
from torch import Tensor
from torch.nn import functional
from two_tastes import auc_on_test_users, task_of_two_tastes

from resus.baselines.base import Task
from resus.config.resolve import resolve
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc
from resus.history import History
from resus.model.encoders import DeepFMSettings
from resus.paper.rivals.episodic import field_embedding
from resus.paper.rivals.meta_embedding import Generator, MetaEmbedding, UserDeepFM

RATE, COLD_WEIGHT = 3.0, 0.3
SHAPE = DeepFMSettings(embedding_dim=3, embedding_std=1.0)


def untrained(*, fields: tuple[int, ...] = (1, 2), steps: int = 1) -> MetaEmbedding:
    """In float64; the generator reads fields that change from row to row."""
    torch.manual_seed(2)
    method = MetaEmbedding(inner_rate=RATE, inner_steps=steps, cold_weight=COLD_WEIGHT)
    method.base = UserDeepFM(field_embedding(SHAPE, small_log().features), 5, std=1.0, hidden_units=(7, 5)).double()
    method.base.requires_grad_(False)
    method.network = Generator(fields, 3, scale=0.2).double()
    for tensor in method.network.state_dict().values():
        tensor.normal_(std=0.3)
    return method


def episodes(*sizes: int) -> EpisodeBatch:
    ordered = OrderedUsers.of(small_log(), np.arange(len(sizes)), seed=1)
    return EpisodeBatch(ordered.rows, ordered.lengths, np.array(sizes))


def naive(method: MetaEmbedding, batch: EpisodeBatch) -> tuple[Tensor, Tensor]:
    """Equation by equation, user by user: the meta loss and the queries' logits."""
    cold, answers, targets, start = [], [], [], 0
    for length, size in zip(batch.lengths, batch.support_sizes, strict=True):
        rows = batch.rows[start : start + length]
        start += length
        vectors, labels = method.base.embedding(features_of(small_log(), rows)), labels_of(small_log(), rows).double()
        initial = method.network(vectors)
        moved = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        for step in range(method.inner_steps if size else 0):
            logits = method.base(vectors[:size], initial[:size] + moved)
            loss = functional.binary_cross_entropy_with_logits(logits, labels[:size])
            if step == 0:
                cold.append(loss)
            moved = moved - RATE * torch.autograd.grad(loss, moved, create_graph=True)[0]
        answers.append(method.base(vectors[size:], initial[size:] + moved))
        targets.append(labels[size:])
    logits = torch.cat(answers)
    warm = functional.binary_cross_entropy_with_logits(logits, torch.cat(targets))
    return COLD_WEIGHT * torch.stack(cold).mean() + (1 - COLD_WEIGHT) * warm, logits


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("fields", [(), (1, 2)])
def test_the_meta_gradient_is_that_of_a_loop_over_users(fields: tuple[int, ...], steps: int) -> None:
    batch = episodes(3, 1, 6, 2)
    method, plain = untrained(fields=fields, steps=steps), untrained(fields=fields, steps=steps)
    loss, expected = method.loss(small_log(), batch), naive(plain, batch)[0]
    torch.testing.assert_close(loss, expected)
    loss.backward()  # type: ignore[no-untyped-call]
    expected.backward()  # type: ignore[no-untyped-call]
    gradients = [weight.grad for weight in method.network.parameters()]
    torch.testing.assert_close(gradients, [weight.grad for weight in plain.network.parameters()])
    assert gradients[1] is not None
    assert gradients[1].abs().max() > 1e-3, "there is something to compare"


def test_scores_are_those_of_a_loop_over_users_even_without_events() -> None:
    batch = episodes(0, 3, 1, 6)
    method = untrained(steps=2)
    np.testing.assert_allclose(method.score(small_log(), batch), naive(method, batch)[1].detach().numpy(), rtol=1e-6)


def test_the_generator_starts_from_the_mean_and_stays_near_it() -> None:
    generator = Generator((0, 1), 3, scale=0.2)
    generator.mean.copy_(torch.tensor([1.0, -2.0, 0.5]))
    vectors = torch.randn(6, 4, 3)
    torch.testing.assert_close(generator(vectors), generator.mean.expand(6, 3))
    with torch.no_grad():
        generator.weight.normal_(std=100.0)
    away = (generator(vectors) - generator.mean).abs()
    assert 0.1 < away.max() <= 0.2 + 1e-6


@cache
def fitted_to_two_tastes() -> tuple[MetaEmbedding, Task, History]:
    task = task_of_two_tastes()
    config = task.config.changed({"predictor.batch_size": 100, "predictor.learning_rate": 0.01})
    task, method = replace(task, config=config), MetaEmbedding(inner_rate=1.0)
    return method, task, method.fit(task)


def test_it_tells_two_tastes_apart_by_their_events_alone() -> None:
    method, task, history = fitted_to_two_tastes()
    assert {line.stage for line in history} == {"predictor", "episodes"}
    assert auc_on_test_users(method, task, 0) < 0.8, "nothing tells the taste of a new user"
    assert auc_on_test_users(method, task, 6) > 0.9


def test_the_base_model_knows_its_training_users_by_their_id() -> None:
    method, task, _ = fitted_to_two_tastes()
    base, rows = method.base, task.log.rows_of(task.split.train)
    assert len(base.users) == len(task.split.train)
    vectors, labels = base.embedding(features_of(task.log, rows)), task.log.labels[rows]
    own = base.users.repeat_interleave(torch.from_numpy(task.log.lengths[task.split.train]), dim=0)
    assert auc(labels, base(vectors, own).numpy()) > 0.9
    assert auc(labels, base(vectors, base.users.mean(dim=0).expand(len(rows), -1)).numpy()) < 0.6
    torch.testing.assert_close(method.network.mean, base.users.mean(dim=0))


def test_a_finished_fit_is_taken_from_its_folder(tmp_path: Path) -> None:
    task = Task(small_log(), resolve(TINY), folder=tmp_path)
    first, again = MetaEmbedding(), MetaEmbedding()
    assert first.fit(task) == again.fit(task), "the same seconds: nothing was trained again"
    batch = episodes(3, 0, 5)
    np.testing.assert_array_equal(again.score(small_log(), batch), first.score(small_log(), batch))
