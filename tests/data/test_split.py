"""Users of three parts: disjoint, exhaustive, by the ratios, by the seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.split import UserSplit, split_users
from resus.errors import DataError

RATIOS = st.tuples(*[st.floats(1, 9)] * 3)


@settings(deadline=None)
@given(n=st.integers(40, 300), ratios=RATIOS, ascending=st.booleans(), seed=st.integers(0, 99))
def test_every_user_is_in_one_part_of_the_asked_size(
    n: int, ratios: tuple[float, float, float], ascending: bool, seed: int
) -> None:
    split = split_users(n, ratios=ratios, order="ascending" if ascending else "random", seed=seed)
    parts = [split.train, split.validation, split.test]
    assert sorted(np.concatenate(parts)) == list(range(n))
    for part, ratio in zip(parts, ratios, strict=True):
        assert abs(len(part) - n * ratio / sum(ratios)) <= 1
        assert np.array_equal(part, np.sort(part))
    if ascending:
        assert np.array_equal(np.concatenate(parts), np.arange(n))


def test_the_seed_decides_who_is_where() -> None:
    first, again, other = (split_users(200, ratios=(7, 2, 1), order="random", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)
    assert not np.array_equal(first.train, np.arange(140))


def test_every_user_has_the_same_chance_to_be_tested() -> None:
    seeds = 400
    counts = np.zeros(50)
    for seed in range(seeds):
        counts[split_users(50, ratios=(7, 2, 1), order="random", seed=seed).test] += 1
    assert np.abs(counts / seeds - 0.1).max() < 5 * np.sqrt(0.1 * 0.9 / seeds)


@pytest.mark.parametrize(("n", "part"), [(0, "train"), (1, "validation"), (3, "test")])
def test_a_part_without_users_is_named(n: int, part: str) -> None:
    with pytest.raises(DataError, match=f"no user of {n} is left for the {part} part"):
        split_users(n, ratios=(7, 2, 1), order="random", seed=1)


def test_a_user_of_two_parts_is_refused() -> None:
    with pytest.raises(AssertionError, match="one part only"):
        UserSplit(np.array([0, 1]), np.array([1]), np.array([2]))
