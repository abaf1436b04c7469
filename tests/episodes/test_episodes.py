"""Episodes of any log, the index arrays of a batch, and tiles of ordered users, against plain lists."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.episodes import prefixes
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.errors import ConfigError, TrainingError

ITEM = CategoricalField("item", tuple("abcd"))


def log_of(lengths: Sequence[int], *, ordered: bool = True) -> InteractionLog:
    random = np.random.default_rng(len(lengths))
    rows = sum(lengths)
    return InteractionLog(
        features=FeatureMap((ITEM,), item="item"),
        ids=random.integers(5, size=(rows, 1), dtype=np.int32),
        weights=None,
        labels=random.integers(2, size=rows).astype(np.float32),
        offsets=np.cumsum([0, *lengths]),
        user_ids=pa.array([str(user) for user in range(len(lengths))]),
        ordered=ordered,
    )


LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=20).map(lambda lengths: [*lengths, 2])


def sampler_of(log: Any, **settings: Any) -> EpisodeSampler:
    chosen: dict[str, Any] = {"max_size": 4, "batch_size": 12, "sizes": "uniform", "seed": 3} | settings
    return EpisodeSampler(log, chosen.pop("users", np.arange(log.n_users)), **chosen)


def supports_and_queries(batch: EpisodeBatch) -> list[tuple[list[int], list[int]]]:
    users = np.split(batch.rows, np.cumsum(batch.lengths)[:-1])
    return [(own[:k].tolist(), own[k:].tolist()) for own, k in zip(users, batch.support_sizes, strict=True)]


def content(batches: Iterable[EpisodeBatch]) -> list[tuple[list[int], list[int], list[int]]]:
    return [(b.rows.tolist(), b.lengths.tolist(), b.support_sizes.tolist()) for b in batches]


@settings(deadline=None, max_examples=60)
@given(lengths=LENGTHS, ordered=st.booleans(), batch_size=st.integers(1, 40), seed=st.integers(0, 99))
def test_an_epoch_holds_every_user_with_two_rows_once_and_whole(
    lengths: list[int], ordered: bool, batch_size: int, seed: int
) -> None:
    log = log_of(lengths, ordered=ordered)
    batches = sampler_of(log, batch_size=batch_size, seed=seed).epoch(0)
    owner = np.repeat(np.arange(log.n_users), log.lengths)
    seen = []
    for support, query in (episode for batch in batches for episode in supports_and_queries(batch)):
        users = set(owner[support + query])
        assert len(users) == 1
        user = users.pop()
        seen.append(user)
        assert not set(support) & set(query)
        assert sorted(support + query) == list(range(log.offsets[user], log.offsets[user + 1]))
        assert 1 <= len(support) <= min(4, lengths[user] - 1)
        if ordered:
            assert support + query == sorted(support + query)
    assert sorted(seen) == [user for user, length in enumerate(lengths) if length > 1]


@settings(deadline=None, max_examples=60)
@given(lengths=LENGTHS, batch_size=st.integers(1, 40))
def test_batches_hold_about_batch_size_rows(lengths: list[int], batch_size: int) -> None:
    batches = list(sampler_of(log_of(lengths), batch_size=batch_size).epoch(0))
    longest = max(lengths)
    assert all(len(batch.rows) < batch_size + longest for batch in batches)
    assert all(len(batch.rows) > batch_size - longest for batch in batches[:-1])


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 99), epoch=st.integers(0, 99), ordered=st.booleans())
def test_batches_depend_only_on_seed_and_epoch(seed: int, epoch: int, ordered: bool) -> None:
    log = log_of([5] * 30, ordered=ordered)
    batches = content(sampler_of(log, seed=seed).epoch(epoch))
    again = sampler_of(log, seed=seed)
    again.epoch(epoch + 1)
    assert content(again.epoch(epoch)) == batches
    assert content(again.epoch(epoch + 1)) != batches
    assert content(sampler_of(log, seed=seed + 1).epoch(epoch)) != batches


def test_without_time_every_row_is_equally_likely_in_the_support() -> None:
    log = log_of([6] * 300, ordered=False)
    sampler = sampler_of(log, max_size=5, batch_size=4000)
    counts: Counter[int] = Counter()
    for epoch in range(5):
        for batch in sampler.epoch(epoch):
            counts.update(row % 6 for support, _ in supports_and_queries(batch) for row in support)
    assert chisquare([counts[place] for place in range(6)]).pvalue > 1e-3


def test_uniform_sizes_are_uniform() -> None:
    sampler = sampler_of(log_of([12] * 500), max_size=10, batch_size=2000)
    sizes = np.concatenate([batch.support_sizes for epoch in range(4) for batch in sampler.epoch(epoch)])
    assert chisquare(np.bincount(sizes, minlength=11)[1:]).pvalue > 1e-3


def test_observed_sizes_follow_the_lengths_of_the_cold_training_users() -> None:
    log = log_of([2] * 300 + [3] * 100 + [20] * 200 + [4] * 500)
    sampler = sampler_of(log, users=np.arange(600), max_size=5, sizes="observed")
    batches = [batch for epoch in range(10) for batch in sampler.epoch(epoch)]
    sizes = np.concatenate([batch.support_sizes[batch.lengths == 20] for batch in batches])
    counts = np.bincount(sizes, minlength=6)
    assert counts[[0, 1, 4, 5]].tolist() == [0, 0, 0, 0]
    assert chisquare(counts[[2, 3]], [1500, 500]).pvalue > 1e-3


def test_only_the_given_users_are_sampled() -> None:
    log = log_of([3, 4, 5, 6])
    sampler = sampler_of(log, users=np.array([1, 3]))
    rows = np.concatenate([batch.rows for batch in sampler.epoch(0)])
    assert sorted(rows) == sorted(log.rows_of(np.array([1, 3])))


def test_users_with_one_event_are_refused() -> None:
    with pytest.raises(TrainingError, match="no training user has two events"):
        sampler_of(log_of([1, 1, 1]))


def test_observed_sizes_without_a_cold_user_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"training.support_sizes is 'observed', but no user has at most 4 events"):
        sampler_of(log_of([9, 9]), sizes="observed")


USERS = st.lists(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=8)


@settings(deadline=None)
@given(USERS)
def test_supports_come_first_and_the_rest_are_queries(users: list[tuple[int, int]]) -> None:
    lengths, sizes = (np.array(column) for column in zip(*users, strict=True))
    rows = 100 + np.arange(lengths.sum())
    batch = EpisodeBatch(rows, lengths, sizes)
    slots = int(sizes.max())
    assert batch.support.shape == batch.mask.shape == (len(users), slots)
    places = np.split(np.arange(len(rows)), np.cumsum(lengths)[:-1])
    queries = [(place, user) for user, own in enumerate(places) for place in own[sizes[user] :]]
    for user, own in enumerate(places):
        assert batch.support[user][batch.mask[user]].tolist() == own[: sizes[user]].tolist()
        assert set(batch.support[user].tolist()) <= set(own.tolist())
    assert list(zip(batch.query.tolist(), batch.query_user.tolist(), strict=True)) == queries
    assert batch.sizes.tolist() == sizes.tolist()
    assert batch.mask.sum(dim=1).tolist() == sizes.tolist()


@pytest.mark.parametrize(("lengths", "sizes"), [([2, 2], [1, 1]), ([3], [4])])
def test_rows_that_do_not_add_up_are_refused(lengths: list[int], sizes: list[int]) -> None:
    with pytest.raises(AssertionError):
        EpisodeBatch(np.arange(3), np.array(lengths), np.array(sizes))


@settings(deadline=None, max_examples=50)
@given(lengths=LENGTHS, ordered=st.booleans(), seed=st.integers(0, 99))
def test_users_keep_their_rows_in_order(lengths: list[int], ordered: bool, seed: int) -> None:
    log = log_of(lengths, ordered=ordered)
    users = np.arange(log.n_users)[::-2]
    found = OrderedUsers.of(log, users, seed)
    assert found.lengths.tolist() == [lengths[user] for user in users]
    assert found.positions.tolist() == [place for user in users for place in range(lengths[user])]
    for user, rows in zip(users, np.split(found.rows, np.cumsum(found.lengths)[:-1]), strict=True):
        own = list(range(log.offsets[user], log.offsets[user + 1]))
        assert (rows.tolist() if ordered else sorted(rows)) == own
    assert np.array_equal(found.rows, OrderedUsers.of(log, users, seed).rows)


def test_without_time_the_seed_draws_the_order() -> None:
    log = log_of([20, 20], ordered=False)
    users = np.arange(2)
    assert not np.array_equal(OrderedUsers.of(log, users, 1).rows, OrderedUsers.of(log, users, 2).rows)
    assert not np.array_equal(OrderedUsers.of(log, users, 1).rows, log.rows_of(users))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=LENGTHS, room=st.integers(1, 60), slots=st.integers(0, 15))
def test_tiles_cover_every_row_and_padding_can_be_undone(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int], room: int, slots: int
) -> None:
    monkeypatch.setattr(prefixes, "TILE_ROWS", room)
    log = log_of(lengths)
    ordered = OrderedUsers.of(log, np.arange(log.n_users), 0)
    covered = []
    for tile in ordered.tiles(slots):
        positions = ordered.positions[tile.places]
        covered += tile.places[(tile.skip == 0) | (positions >= slots)].tolist()
        users, longest = tile.filled.shape
        assert longest <= max(room, 2 * slots), "memory does not depend on a user's history"
        assert users == 1 or users * max(longest, slots) <= room
        assert set(range(min(slots, max(positions) + 1))) <= set(positions), "the support is always there"
        values = torch.from_numpy(np.stack([tile.places, -tile.places], axis=1))
        padded = tile.pad(values)
        assert padded.shape == (users, longest, 2)
        assert torch.equal(padded[tile.filled], values)
        assert not padded[~tile.filled].any()
        if not tile.skip:
            expected = torch.arange(longest).expand(users, -1) * tile.filled
            assert torch.equal(tile.pad(torch.from_numpy(positions)), expected)
    assert sorted(covered) == list(range(log.n_rows))


def test_whole_users_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "TILE_ROWS", 10)
    log = log_of([3, 4, 40, 2])
    tiles = list(OrderedUsers.of(log, np.arange(4), 0).tiles(2, whole=True))
    assert [tile.lengths.tolist() for tile in tiles] == [[2, 3], [4], [40]]
    assert sorted(place for tile in tiles for place in tile.places) == list(range(log.n_rows))
