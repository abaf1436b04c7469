"""The factors of RESUS+: learned with user vectors, then refined by the evidence."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from planted_models import KEEP, TINY, events
from torch import Tensor

from resus import FieldSchema, InteractionLog, TableSchema, build_log
from resus.arrays import Floats, Integers
from resus.config.resolve import resolve
from resus.episodes.batch import EpisodeBatch, features_of
from resus.model.build import build_personalizer
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.personalizer import Personalizer
from resus.training import factors
from resus.training.factors import learn_factors, refine_factors
from resus.training.loop import Schedule

SETTINGS: dict[str, Any] = TINY | {"learner.kind": "plus"}
Stage = Callable[..., Any]


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    """Each user has one home."""
    homes = pl.format("town {}", pl.col("user").hash() % 7)
    table = events().with_columns(home=homes)
    fields = {"home": FieldSchema(), "category": FieldSchema(), "tags": FieldSchema(kind="multi")}
    return build_log(table, TableSchema(user="user", item="item", time="time", label="click", fields=fields), KEEP)


@pytest.fixture(scope="module")
def users(log: InteractionLog) -> Integers:
    """Training users, in random order."""
    return np.random.default_rng(3).permutation(log.n_users)[:30]


def number_of(log: InteractionLog, name: str) -> int:
    return [field.name for field in log.features.fields].index(name)


def column_of(log: InteractionLog, name: str) -> int:
    return sum(log.features.column_counts[: number_of(log, name)])


def started(log: InteractionLog) -> Personalizer:
    torch.manual_seed(5)
    return build_personalizer(resolve(SETTINGS), log.features)


def schedule(epochs: int = 2) -> Schedule:
    scores = iter(range(100))
    return Schedule("factors", validate=lambda: float(next(scores)), epochs=epochs, patience=epochs)


def basis_of(log: InteractionLog) -> Floats:
    return np.random.default_rng(1).normal(size=log.n_rows).astype(np.float32)


def learned(stage: Stage, log: InteractionLog, users: Integers, basis: Floats, seed: int = 1) -> dict[str, Tensor]:
    model = started(log)
    stage(model, basis, log, users, schedule(), seed=seed)
    return model.state_dict()


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("stage", [learn_factors, refine_factors])
def test_only_the_rows_of_the_given_users_are_read(stage: Stage, log: InteractionLog, users: Integers) -> None:
    expected = learned(stage, log, users, basis_of(log))
    others = np.setdiff1d(np.arange(log.n_rows), log.rows_of(users))
    basis, labels, ids = basis_of(log), log.labels.copy(), log.ids.copy()
    basis[others], labels[others], ids[others] = np.nan, 1e6, 0
    spoiled = replace(log, labels=labels, ids=ids)
    assert equal(learned(stage, spoiled, users, basis), expected)


@pytest.mark.parametrize("stage", [learn_factors, refine_factors])
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(
    stage: Stage, log: InteractionLog, users: Integers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "BATCH_ROWS", 64)
    first = learned(stage, log, users, basis_of(log))
    assert equal(learned(stage, log, users, basis_of(log)), first)
    assert not equal(learned(stage, log, users, basis_of(log), seed=2), first)


def test_what_describes_the_user_is_left_out_but_never_the_item(log: InteractionLog, users: Integers) -> None:
    names = [field.name for field in log.features.fields]
    assert learned(learn_factors, log, users, basis_of(log))["encoder.kept"].tolist() == [
        float(name != "home") for name in names
    ]
    column = column_of(log, "item")
    ids = log.ids.copy()
    for user in range(log.n_users):  # each user meets one item only
        rows = log.rows_of(np.array([user]))
        ids[rows, column] = ids[rows[0], column]
    faithful = learned(learn_factors, replace(log, ids=ids), users, basis_of(log))
    assert faithful["encoder.kept"][number_of(log, "item")] == 1.0


def test_rows_that_differ_in_who_the_user_is_have_one_code(log: InteractionLog, users: Integers) -> None:
    model = started(log)
    learn_factors(model, basis_of(log), log, users, schedule(), seed=1)
    rows = log.rows_of(users[:3])
    column = column_of(log, "home")
    ids = log.ids.copy()
    ids[:, column] = ids[0, column]
    moved = replace(log, ids=ids)
    with torch.no_grad():
        assert torch.equal(model.encoder(features_of(moved, rows)), model.encoder(features_of(log, rows)))


def test_an_item_never_seen_has_its_own_code(log: InteractionLog) -> None:
    rows, column, ids = np.arange(4), column_of(log, "item"), log.ids.copy()
    ids[1, column] = log.features.first_ids[number_of(log, "item")]
    with torch.no_grad():
        items = started(log).encoder(features_of(replace(log, ids=ids), rows))[:, 0]
    assert items.tolist() == [ids[0, column], -1, ids[2, column], ids[3, column]]


def test_a_value_that_no_training_row_has_adds_nothing(log: InteractionLog, users: Integers) -> None:
    rows, column, ids = log.rows_of(users), column_of(log, "item"), log.ids.copy()
    rare = int(ids[rows[0], column])
    ids[rows[ids[rows, column] == rare], column] = rare + 1 if rare + 1 in ids[:, column] else rare - 1
    table = learned(learn_factors, replace(log, ids=ids), users, basis_of(log))["encoder.embedding.table"]
    seen = np.setdiff1d(ids[rows], log.features.first_ids)
    unseen = np.setdiff1d(np.arange(len(table)), seen)
    assert rare in unseen
    assert not table[torch.from_numpy(unseen)].any()
    assert table[torch.from_numpy(seen)].any(dim=1).all()


def test_the_prior_has_the_covariance_of_the_user_vectors(
    log: InteractionLog, users: Integers, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []

    class Watched(factors._WithUserVectors):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kept.append(self)

    monkeypatch.setattr(factors, "_WithUserVectors", Watched)
    model = started(log)
    learn_factors(model, basis_of(log), log, users, schedule(), seed=1)
    people = kept[0].users.table.detach().double().numpy()
    assert people.shape == (len(users), 1 + 4)
    assert isinstance(model.encoder, FactorEncoder)
    assert isinstance(model.learner, PlusLearner)
    spread = model.encoder.spread.double().numpy()
    taste = people[:, 1:].T @ people[:, 1:] / len(users)
    np.testing.assert_allclose(spread @ spread.T, taste, rtol=1e-4, atol=1e-5 * taste.max())
    np.testing.assert_array_equal(spread, np.tril(spread))
    assert model.learner.prior.bias.item() == pytest.approx(3 * (people[:, 0] ** 2).mean(), rel=1e-5)
    with torch.no_grad():
        rows = features_of(log, log.rows_of(users[:2]))
        code = model.encoder(rows).double().numpy()
        plain = model.encoder.factors(rows).double().numpy()
    assert code[:, 0].tolist() == rows.ids[:, column_of(log, "item")].tolist()
    np.testing.assert_allclose(code[:, 1:] @ code[:, 1:].T, plain @ taste @ plain.T, rtol=1e-3, atol=1e-6)


def epoch(log: InteractionLog, users: Integers, number: int = 0) -> list[EpisodeBatch]:
    """The batches of `refine_factors`."""
    return list(factors._events_of_each(log, users, np.random.default_rng([1, 7, number])))


@pytest.mark.parametrize("events_at_most", [1, 5, 64])
def test_each_epoch_takes_every_user_once_and_some_of_each(
    log: InteractionLog, users: Integers, monkeypatch: pytest.MonkeyPatch, events_at_most: int
) -> None:
    monkeypatch.setattr(factors, "EVENTS_PER_USER", events_at_most)
    monkeypatch.setattr(factors, "BATCH_ROWS", 40)
    batches = epoch(log, users)
    assert len(batches) > 1 or events_at_most == 1
    owners = np.concatenate([log.owners_of(batch.rows[batch.starts]) for batch in batches])
    assert sorted(owners) == sorted(users)
    for batch in batches:
        assert np.array_equal(batch.support_sizes, batch.lengths)
        assert len(np.unique(batch.rows)) == len(batch.rows)
        own = log.owners_of(batch.rows[batch.starts])
        assert np.array_equal(log.owners_of(batch.rows), np.repeat(own, batch.lengths))
        assert np.array_equal(batch.lengths, np.minimum(log.lengths[own], events_at_most))
        assert batch.lengths[:-1].sum() < 40 + events_at_most
    taken = np.concatenate([batch.rows for batch in batches])
    assert np.array_equal(taken, np.concatenate([batch.rows for batch in epoch(log, users)]))
    assert not np.array_equal(taken, np.concatenate([batch.rows for batch in epoch(log, users, number=1)]))


def test_any_event_of_a_long_user_may_be_drawn(
    log: InteractionLog, users: Integers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "EVENTS_PER_USER", 3)
    taken = [batch.rows for number in range(150) for batch in epoch(log, users, number)]
    assert np.array_equal(np.unique(np.concatenate(taken)), np.sort(log.rows_of(users)))


def test_refining_changes_only_the_factors_and_only_if_validation_improves(
    log: InteractionLog, users: Integers
) -> None:
    before = {name: tensor.clone() for name, tensor in started(log).state_dict().items()}
    after = learned(refine_factors, log, users, basis_of(log))
    assert [name for name in before if not torch.equal(before[name], after[name])] == ["encoder.embedding.table"]
    model = started(log)
    state = refine_factors(model, basis_of(log), log, users, replace(schedule(), start=1e9), seed=1)
    assert (state.best_epoch, state.epoch) == (0, 2)
    assert equal(model.state_dict(), before)


def test_refining_raises_the_evidence(log: InteractionLog, users: Integers) -> None:
    state = refine_factors(started(log), basis_of(log), log, users, schedule(epochs=8), seed=1)
    losses = [line.loss or 0 for line in state.history]
    assert losses[-1] < losses[0]
