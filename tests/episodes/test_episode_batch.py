"""The index arrays of a batch against plain lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.episodes.batch import EpisodeBatch

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
