"""A run remembers its users by hashes; after a warm start also those of the run before."""

from typing import Any

import numpy as np
import pytest
from newer_logs import earlier, newer

from resus import Config, DataError, InteractionLog
from resus.data.log.known_users import KnownUsers
from resus.data.split import split_further


def names(log: InteractionLog, users: Any) -> set[str]:
    return set(np.array(log.user_ids.to_pylist())[users])


def test_users_are_found_again_in_another_log() -> None:
    split = Config().user_split(earlier().n_users)
    known = KnownUsers.from_arrays(KnownUsers.of(earlier(), split).to_arrays())
    met = known.among(newer())
    here = names(newer(), slice(None))
    for part in ("train", "validation", "test"):
        assert names(newer(), getattr(met, part)) == names(earlier(), getattr(split, part)) & here
    assert names(newer(), met.new) == here - names(earlier(), slice(None))
    own = known.among(earlier()).split()
    assert all(np.array_equal(getattr(own, part), getattr(split, part)) for part in ("train", "validation", "test"))


def test_the_users_of_the_run_before_stay_known() -> None:
    first = KnownUsers.of(earlier(), Config().user_split(earlier().n_users))
    met = first.among(newer())
    split = split_further(met.train, met.validation, ratios=(7, 2, 1), order="random", seed=1)
    second = KnownUsers.of(newer(), split, first)
    assert not set(second.train) & set(second.validation)
    assert set(first.train) <= set(second.train)
    assert set(first.validation) <= set(second.train) | set(second.validation)
    again = second.among(newer()).split()
    assert all(np.array_equal(getattr(again, part), getattr(split, part)) for part in ("train", "validation", "test"))


def test_a_further_split_moves_nobody_to_the_test_users_and_keeps_the_shares() -> None:
    trained, validated = np.arange(100) < 30, (np.arange(100) >= 30) & (np.arange(100) < 35)
    split = split_further(trained, validated, ratios=(7, 2, 1), order="random", seed=3)
    assert [len(split.train), len(split.validation), len(split.test)] == [70, 20, 10]
    assert set(range(30)) <= set(split.train)
    assert set(range(30, 35)) <= set(split.validation)
    crowded = split_further(np.arange(100) < 94, validated, ratios=(7, 2, 1), order="ascending", seed=3)
    assert set(crowded.test) <= set(range(94, 100))
    assert len(crowded.test) == 2
    with pytest.raises(DataError, match="no user of 9 is left for the validation part"):
        split_further(np.ones(9, dtype=np.bool_), np.zeros(9, dtype=np.bool_), ratios=(7, 2, 1), order="random", seed=1)


def test_other_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="users of a run"):
        KnownUsers.from_arrays({"train": np.zeros(2)})
