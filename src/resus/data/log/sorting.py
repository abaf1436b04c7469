"""Rows in the order of their users, also when there are more rows than memory holds.

A `Spill` appends rows to a file as they come, then deals them into buckets of consecutive users, each small enough to
be sorted in memory. A row is a record with a whole number `user`. `take` moves records ten times as fast as an index.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.arrays import Integers
from resus.progress import Progress

Records = npt.NDArray[np.void]


class Spill:
    """A file of rows that counts the rows of each user."""

    def __init__(self, path: Path, dtype: np.dtype[np.void]) -> None:
        self.rows = 0
        self._path = path
        self._dtype = dtype
        self._stream = path.open("wb")
        self._counts = [pl.DataFrame(schema={"user": pl.Int64, "count": pl.Int64})]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._stream.close()

    def add(self, rows: Records) -> None:
        self._stream.write(rows.data)
        self._counts.append(pl.Series("user", rows["user"]).value_counts().cast(pl.Int64))
        self.rows += len(rows)
        total, *fresh = self._counts
        if sum(counts.height for counts in fresh) > total.height:
            self._counts = [self._total()]

    def users(self) -> tuple[Integers, Integers]:
        """All users in ascending order, and how many rows each has."""
        total = self._total().sort("user")
        return total["user"].to_numpy(), total["count"].to_numpy()

    def _total(self) -> pl.DataFrame:
        return pl.concat(self._counts).group_by("user").agg(pl.col("count").sum())

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
