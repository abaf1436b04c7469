"""Rows are sorted by user on disk as in memory."""

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resus.data.log.sorting import Spill
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
