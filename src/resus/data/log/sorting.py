"""Rows in the order of their users, also when there are more rows than memory holds.

A `Spill` appends rows to a file as they come, then deals them into buckets of consecutive users, each small enough to
be sorted in memory. A row is a record with a whole number `user`. `take` moves records ten times as fast as an index.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from resus.arrays import Array, Ids, Integers
from resus.progress import Progress

Records = npt.NDArray[np.void]


class Spill:
    """A file of rows that counts the rows of each user."""

    def __init__(self, path: Path, dtype: np.dtype[np.void]) -> None:
        self.rows = 0
        self._path = path
        self._dtype = dtype
        self._stream = path.open("wb")
        self._tally = Tally()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._stream.close()

    def add(self, rows: Records) -> None:
        self._stream.write(rows.data)
        self._tally.add(rows["user"])
        self.rows += len(rows)

    def users(self) -> tuple[Integers, Integers]:
        """All users in ascending order, and how many rows each has."""
        return self._tally.counts()

    def by_user(self, path: Path, bucket_rows: int, progress: Progress) -> "Buckets":
        """Deal the rows into buckets in the file `path`, in the order in which they came. Deletes the spill's file."""
        self._stream.close()
        users, counts = self.users()
        ends = np.cumsum(counts)
        number = (ends - counts) // bucket_rows
        first = np.flatnonzero(np.diff(number, prepend=-1))
        starts = (ends - counts)[first]
        free = starts.copy()
        with self._path.open("rb") as source, path.open("wb") as target:
            done = 0
            while len(rows := np.fromfile(source, self._dtype, bucket_rows)):
                bucket = np.searchsorted(users[first[1:]], rows["user"], side="right")
                order = np.argsort(bucket.astype(np.uint16) if len(first) < 1 << 16 else bucket, kind="stable")
                dealt, lengths = rows.take(order), np.bincount(bucket, minlength=len(first))
                cuts = np.cumsum(lengths)
                for index in np.flatnonzero(lengths):
                    target.seek(int(free[index]) * self._dtype.itemsize)
                    target.write(dealt[cuts[index] - lengths[index] : cuts[index]].data)
                free += lengths
                done += len(rows)
                progress("sorting by user", done, self.rows, "rows")
        self._path.unlink()
        return Buckets(path, self._dtype, starts, free - starts)


class Buckets:
    """Runs of consecutive users in one file. Each bucket can be read, and replaced by at most as many rows."""

    def __init__(self, path: Path, dtype: np.dtype[np.void], starts: Integers, lengths: Integers) -> None:
        self._path = path
        self._dtype = dtype
        self._starts = starts
        self._lengths = lengths.copy()

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def rows(self) -> int:
        return int(self._lengths.sum())

    def __iter__(self) -> Iterator[Records]:
        """The buckets that have rows, in the order of their users."""
        for number in range(len(self)):
            if self._lengths[number]:
                yield self.read(number)

    def read(self, number: int) -> Records:
        with self._path.open("rb") as stream:
            stream.seek(int(self._starts[number]) * self._dtype.itemsize)
            return np.fromfile(stream, self._dtype, int(self._lengths[number]))

    def replace(self, number: int, rows: Records) -> None:
        assert len(rows) <= self._lengths[number]
        with self._path.open("r+b") as stream:
            stream.seek(int(self._starts[number]) * self._dtype.itemsize)
            stream.write(np.ascontiguousarray(rows).data)
        self._lengths[number] = len(rows)


class Tally:
    """Counts of whole numbers that come in blocks; memory grows with the distinct ones only."""

    def __init__(self) -> None:
        self._merged = np.empty(0, np.int64), np.empty(0, np.int64)
        self._waiting: list[tuple[Integers, Integers]] = []

    def add(self, numbers: Array) -> None:
        self._waiting.append(np.unique(numbers, return_counts=True))
        if sum(len(distinct) for distinct, _ in self._waiting) > max(len(self._merged[0]), 1 << 20):
            self.counts()

    def counts(self) -> tuple[Integers, Integers]:
        """The distinct numbers in ascending order, and how often each came."""
        if self._waiting:
            parts = [self._merged, *self._waiting]
            distinct, place = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
            counts = np.bincount(place, weights=np.concatenate([part[1] for part in parts]), minlength=len(distinct))
            self._merged, self._waiting = (distinct, counts.astype(np.int64)), []
        return self._merged


def order_by(first: Integers, second: Integers) -> Integers:
    """Row numbers in the order of the first, then of the second number; ties keep their order.

    Both numbers and the row mostly fit into one number of 63 bits, which sorts fastest.
    """
    if not len(first):
        return np.empty(0, np.int64)
    low, bits = [], []
    for column in (first, second):
        low.append(int(column.min()))
        bits.append((int(column.max()) - low[-1]).bit_length())
    row_bits = len(first).bit_length()
    if sum(bits) + row_bits > 63:
        return np.lexsort((second, first))
    key = (first - low[0]) << (bits[1] + row_bits)
    key |= (second - low[1]) << row_bits
    key |= np.arange(len(first))
    key.sort()
    return key & ((1 << row_bits) - 1)


class Positions:
    """Where numbers stand in a list of distinct ones: a table if the numbers are small, else a binary search."""

    def __init__(self, listed: Integers) -> None:
        self._order = np.argsort(listed)
        self._sorted = listed[self._order]
        self._table: Ids | None = None
        if len(listed) and self._sorted[0] >= 0 and self._sorted[-1] < 8 * len(listed) + (1 << 20):
            self._table = np.full(int(self._sorted[-1]) + 2, -1, dtype=np.int32)
            self._table[listed] = np.arange(len(listed), dtype=np.int32)

    def find(self, numbers: Integers) -> Ids:
        """Positions in the list as it was given; -1 for a number that is not listed."""
        if self._table is not None:
            beyond = len(self._table) - 1  # the last entry is always -1
            return self._table[np.where((numbers < 0) | (numbers > beyond), beyond, numbers)]
        if not len(self._sorted):
            return np.full(len(numbers), -1, dtype=np.int32)
        place = np.minimum(np.searchsorted(self._sorted, numbers), len(self._sorted) - 1)
        return np.where(self._sorted[place] == numbers, self._order[place], -1).astype(np.int32)
