"""Tiles of ordered users hold every row once, and padding can be undone."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs_of_lengths import log_of

from resus.episodes import prefixes
from resus.episodes.prefixes import OrderedUsers

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=25)


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
