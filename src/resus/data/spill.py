"""More rows than memory holds, brought into the order of their users by way of a file.

Rows are appended as they come, then dealt into buckets of consecutive users, each small enough to be sorted in memory.
A row is a record with a whole number `user`. Records are moved by `take`, which is ten times as fast as an index.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from resus.progress import Progress

Rows = npt.NDArray[np.void]
Integers = npt.NDArray[np.int64]


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

    def add(self, rows: Rows) -> None:
        self._stream.write(rows.data)
        self._tally.add(rows["user"])
        self.rows += len(rows)

    def users(self) -> tuple[Integers, Integers]:
        """All users in ascending order, and how many rows each has."""
        return self._tally.counts()

    def by_user(self, path: Path, bucket_rows: int, progress: Progress) -> "Buckets":
        """Deal the rows into buckets in the file `path`, where they keep their order; the file of this spill ends."""
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
    """Runs of consecutive users in one file; each can be read and replaced by no more rows than it had."""

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

    def __iter__(self) -> Iterator[Rows]:
        """The buckets that are not empty, in the order of their users."""
        for number in range(len(self)):
            if self._lengths[number]:
                yield self.read(number)

    def read(self, number: int) -> Rows:
        with self._path.open("rb") as stream:
            stream.seek(int(self._starts[number]) * self._dtype.itemsize)
            return np.fromfile(stream, self._dtype, int(self._lengths[number]))

    def replace(self, number: int, rows: Rows) -> None:
        assert len(rows) <= self._lengths[number]
        with self._path.open("r+b") as stream:
            stream.seek(int(self._starts[number]) * self._dtype.itemsize)
            stream.write(np.ascontiguousarray(rows).data)
        self._lengths[number] = len(rows)


class Tally:
    """Counts of whole numbers that come in blocks; memory is for the distinct ones."""

    def __init__(self) -> None:
        self._merged = np.empty(0, np.int64), np.empty(0, np.int64)
        self._waiting: list[tuple[Integers, Integers]] = []

    def add(self, numbers: npt.NDArray[Any]) -> None:
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
