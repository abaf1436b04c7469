"""The factors of RESUS+: learned with a vector per training user, on top of what other choices of the user say."""

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
from resus.episodes.batch import features_of
from resus.model.build import build_personalizer
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.plus.numbers import FEW_CHOICES
from resus.model.personalizer import Personalizer
from resus.training import factors
from resus.training.factors import learn_factors
from resus.training.loop import Schedule

SETTINGS: dict[str, Any] = TINY | {"learner.kind": "plus"}


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


def learned(log: InteractionLog, users: Integers, basis: Floats, seed: int = 1) -> dict[str, Tensor]:
    model = started(log)
    learn_factors(model, basis, log, users, schedule(), seed=seed)
    return model.state_dict()


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_only_the_rows_of_the_given_users_are_read(log: InteractionLog, users: Integers) -> None:
    expected = learned(log, users, basis_of(log))
    others = np.setdiff1d(np.arange(log.n_rows), log.rows_of(users))
    basis, labels, ids = basis_of(log), log.labels.copy(), log.ids.copy()
    basis[others], labels[others], ids[others] = np.nan, 1e6, 0
    spoiled = replace(log, labels=labels, ids=ids)
    assert equal(learned(spoiled, users, basis), expected)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(
    log: InteractionLog, users: Integers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "BATCH_ROWS", 64)
    first = learned(log, users, basis_of(log))
    assert equal(learned(log, users, basis_of(log)), first)
    assert not equal(learned(log, users, basis_of(log), seed=2), first)


def test_what_describes_the_user_is_left_out_but_never_the_item(log: InteractionLog, users: Integers) -> None:
    names = [field.name for field in log.features.fields]
    assert learned(log, users, basis_of(log))["encoder.kept"].tolist() == [float(name != "home") for name in names]
    column = column_of(log, "item")
    ids = log.ids.copy()
    for user in range(log.n_users):  # each user meets one item only
        rows = log.rows_of(np.array([user]))
        ids[rows, column] = ids[rows[0], column]
    faithful = learned(replace(log, ids=ids), users, basis_of(log))
    assert faithful["encoder.kept"][number_of(log, "item")] == 1.0


def test_rows_that_differ_in_who_the_user_is_have_one_code(log: InteractionLog, users: Integers) -> None:
    model = started(log)
    learn_factors(model, basis_of(log), log, users, schedule(), seed=1)
    rows = log.rows_of(users[:3])
    column = column_of(log, "home")
    ids = log.ids.copy()
    ids[:, column] = ids[0, column]
    moved = replace(log, ids=ids)
    layout = FactorEncoder.of(model.encoder).layout
    with torch.no_grad():
        one, other = (layout.unpack(model.encoder(features_of(each, rows))) for each in (moved, log))
    for name, mine, theirs in zip(one._fields, one, other, strict=True):
        counts = one.shares != 0 if name == "values" else torch.ones_like(mine, dtype=torch.bool)
        assert torch.equal(mine[counts], theirs[counts])


def test_a_value_that_no_training_row_has_adds_nothing(log: InteractionLog, users: Integers) -> None:
    rows, column, ids = log.rows_of(users), column_of(log, "item"), log.ids.copy()
    rare = int(ids[rows[0], column])
    ids[rows[ids[rows, column] == rare], column] = rare + 1 if rare + 1 in ids[:, column] else rare - 1
    state = learned(replace(log, ids=ids), users, basis_of(log))
    seen = np.setdiff1d(ids[rows], log.features.first_ids)
    for name in ("encoder.embedding.table", "encoder.chosen.table"):
        unseen = np.setdiff1d(np.arange(len(state[name])), seen)
        assert rare in unseen
        assert not state[name][torch.from_numpy(unseen)].any()
        assert state[name][torch.from_numpy(seen)].any(dim=1).all()


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
    people = people - people.mean(axis=0)
    encoder, learner = FactorEncoder.of(model.encoder), PlusLearner.of(model.learner)
    spread = encoder.spread.double().numpy()
    taste = people[:, 1:].T @ people[:, 1:] / len(users)
    np.testing.assert_allclose(spread @ spread.T, taste, rtol=1e-4, atol=1e-5 * taste.max())
    np.testing.assert_array_equal(spread, np.tril(spread))
    assert learner.prior.bias.item() == pytest.approx(3 * (people[:, 0] ** 2).mean(), rel=1e-5)
    with torch.no_grad():
        rows = features_of(log, log.rows_of(users[:2]))
        code = encoder.layout.unpack(encoder(rows)).taste.double().numpy()
        plain = encoder.factors(rows)[0].double().numpy()
    np.testing.assert_allclose(code @ code.T, plain @ taste @ plain.T, rtol=1e-3, atol=1e-6)


def owner_of(log: InteractionLog, row: int) -> int:
    return int(log.owners_of(np.array([row]))[0])


def test_some_events_of_each_user_speak_by_their_choice_and_the_others_are_learned_from(
    log: InteractionLog, users: Integers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "MOST_CHOICES", 5)
    counts = set()
    for seed in range(20):
        drawn, left = factors._Choices.draw(log, users, np.random.default_rng(seed))
        assert np.array_equal(np.sort(np.concatenate([drawn.rows, left])), np.sort(log.rows_of(users)))
        assert np.array_equal(np.unique(log.owners_of(left)), np.sort(users)), "never all events of a user"
        some = np.array([7, 0, 19])
        rows, lengths = drawn.of(some)
        assert rows.tolist() == [row for user in users[some] for row in drawn.rows if owner_of(log, row) == user]
        assert np.array_equal(log.owners_of(rows), np.repeat(users[some], lengths))
        counts |= set(lengths.tolist())
        again, _ = factors._Choices.draw(log, users, np.random.default_rng(seed))
        assert np.array_equal(again.rows, drawn.rows)
    assert counts == {1, 2, 3, 4, 5}


def test_the_only_event_of_a_user_is_learned_from(log: InteractionLog) -> None:
    ids = log.user_ids.take(np.zeros(log.n_rows, dtype=np.int64))
    single = replace(log, offsets=np.arange(log.n_rows + 1), user_ids=ids)
    drawn, left = factors._Choices.draw(single, np.arange(6), np.random.default_rng(1))
    assert (len(drawn.rows), sorted(left)) == (0, [0, 1, 2, 3, 4, 5])


def test_the_loss_is_the_formula_written_out(log: InteractionLog, users: Integers) -> None:
    joint = factors._WithUserVectors(started(log), len(users))
    encoder, basis = joint.encoder, basis_of(log)
    drawn, left = factors._Choices.draw(log, users, np.random.default_rng(2))
    rows = np.random.default_rng(3).permutation(left)[:40]
    vectors = np.array([users.tolist().index(owner) for owner in log.owners_of(rows)], dtype=np.int32)
    total = 0.0
    with torch.no_grad():
        for embedding in (encoder.embedding, encoder.chosen, joint.users):
            embedding.table.normal_(std=0.5)
        outcomes = torch.from_numpy(basis[rows]), torch.from_numpy(log.labels[rows])
        found = joint(features_of(log, rows), vectors, *outcomes, log, drawn)
        for row, vector in zip(rows, vectors, strict=True):
            taste, traits, common = (part[0].double() for part in encoder.factors(features_of(log, np.array([row]))))
            speaking = np.array([each for each in drawn.rows if owner_of(log, each) == users[vector]])
            chosen = encoder.layout.unpack(encoder(features_of(log, speaking))).chosen.double()
            said = chosen.sum(dim=0) / np.sqrt(len(speaking) + FEW_CHOICES)
            own = joint.users.table[vector].double()
            logit = float(basis[row] + own[0] + common + own[1:] @ taste + said @ torch.cat([taste, traits]))
            total += np.logaddexp(0, logit) - float(log.labels[row]) * logit
            squares = own[0] ** 2 + common**2 + taste @ taste + traits @ traits + said @ said
            total += float(factors.DECAY * squares + factors.DECAY_OF_TASTE * own[1:] @ own[1:])
    assert float(found) == pytest.approx(total / len(rows), rel=1e-5)


def test_learning_lowers_the_loss(log: InteractionLog, users: Integers) -> None:
    state = learn_factors(started(log), basis_of(log), log, users, schedule(epochs=8), seed=1)
    losses = [line.loss or 0 for line in state.history]
    assert losses[-1] < losses[0]
