"""Rows are sorted by user on disk as in memory."""

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resus.data.log.sorting import Positions, Spill, Tally, order_by
from resus.progress import silent

ROW = np.dtype([("user", "i8"), ("row", "i4")])
BLOCKS = st.lists(st.lists(st.sampled_from([0, 1, 2, 7, 10**12, 2**62]), max_size=9), min_size=1, max_size=6).filter(
    any
)


def records(users: list[int], first: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    rows = np.empty(len(users), dtype=ROW)
    rows["user"], rows["row"] = users, np.arange(first, first + len(users))
    return rows


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=BLOCKS, bucket_rows=st.integers(1, 20))
def test_buckets_hold_consecutive_users_in_the_order_of_the_rows(
    tmp_path: Path, blocks: list[list[int]], bucket_rows: int
) -> None:
    everything = records([user for block in blocks for user in block], 0)
    with Spill(tmp_path / "spill", ROW) as spill:
        for block in blocks:
            spill.add(records(block, spill.rows))
        users, counts = spill.users()
        buckets = spill.by_user(tmp_path / "buckets", bucket_rows, silent)
    assert not (tmp_path / "spill").exists()
    assert np.array_equal([users, counts], np.unique(everything["user"], return_counts=True))
    assert buckets.rows == len(everything)
    seen: list[int] = []
    for number in range(len(buckets)):
        rows = buckets.read(number)
        assert len(rows) < bucket_rows + counts.max()
        assert np.array_equal(rows, everything[np.isin(everything["user"], rows["user"])])
        assert not seen or rows["user"].min() > max(seen)
        seen += rows["user"].tolist()
    assert len(seen) == len(everything)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=BLOCKS, bucket_rows=st.integers(1, 9))
def test_a_replaced_bucket_leaves_the_others_alone(tmp_path: Path, blocks: list[list[int]], bucket_rows: int) -> None:
    with Spill(tmp_path / "spill", ROW) as spill:
        for block in blocks:
            spill.add(records(block, spill.rows))
        buckets = spill.by_user(tmp_path / "buckets", bucket_rows, silent)
    before = [buckets.read(number) for number in range(len(buckets))]
    for number in range(0, len(buckets), 2):
        buckets.replace(number, before[number][1:])
    expected = [rows[1:] if number % 2 == 0 else rows for number, rows in enumerate(before)]
    assert [rows.tolist() for rows in buckets] == [rows.tolist() for rows in expected if len(rows)]


def test_a_tally_of_many_blocks_is_one_count() -> None:
    random = np.random.default_rng(0)
    blocks = [random.integers(50_000, size=400_000) for _ in range(3)] + [random.integers(10**15, size=700_000)] * 2
    tally = Tally()
    for block in blocks:
        tally.add(block)
    assert np.array_equal(tally.counts(), np.unique(np.concatenate(blocks), return_counts=True))


NUMBERS = st.one_of(st.integers(0, 3), st.integers(-(2**30), 2**30), st.integers(-(2**62), 2**62))


@given(st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_the_order_is_that_of_pairs_with_ties_as_they_came(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert order_by(first, second).tolist() == sorted(range(len(pairs)), key=pairs.__getitem__)


SMALL, LARGE = st.integers(-3, 30), st.integers(-(2**62), 2**62)


@given(
    listed=st.one_of(st.lists(SMALL, unique=True), st.lists(st.one_of(SMALL, LARGE), unique=True)),
    others=st.lists(st.one_of(SMALL, LARGE)),
)
def test_positions_are_those_of_the_list(listed: list[int], others: list[int]) -> None:
    asked = [*listed, *others]
    found = Positions(np.array(listed, dtype=np.int64)).find(np.array(asked, dtype=np.int64))
    assert found.tolist() == [listed.index(number) if number in listed else -1 for number in asked]
