"""Events on their way from a table into a store: in files on disk, all events of a user in one file.

So each user is written to the store once, whatever the order of the table, and memory holds one file at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from resus.data.readers.files import PARQUET_SUFFIXES, estimated_bytes, kind_of
from resus.ingest.rows import FEATURES, ID, LABEL, TIME, USER
from resus.serving.store import Bulk

PART_ROWS = 300_000  # in a file, about
ROW_BYTES = 40  # of a table of text, about
MOST_PARTS = 256  # files that are open at a time
BULK_EVENTS = 25_000  # that a store gets at a time, and then the rest of the last user
_KINDS = pa.schema(
    [(name, pa.float64() if name in (TIME, LABEL) else pa.large_string()) for name in (USER, ID, TIME, LABEL, FEATURES)]
)


class PartWriter:
    """Deals events out to files by their user. Use it as a context."""

    def __init__(self, folder: Path, rows: int) -> None:
        """For a table of about this many rows."""
        self.count = min(MOST_PARTS, 1 + rows // PART_ROWS)
        self._folder = folder
        self._opened = ExitStack()
        self._writers: list[pa.ipc.RecordBatchStreamWriter] = []

    def __enter__(self) -> "PartWriter":
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for number in range(self.count):
            file = self._opened.enter_context(pa.OSFile(str(part_of(self._folder, number)), "wb"))
            self._writers.append(self._opened.enter_context(pa.ipc.new_stream(file, _KINDS, options=options)))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, events: pl.DataFrame) -> None:
        part = events[USER].hash(seed=0) % self.count
        for (number,), some in events.group_by(part.alias("part"), maintain_order=True):
            table = some.to_arrow(compat_level=pl.CompatLevel.oldest())
            self._writers[int(str(number))].write_table(table.select(_KINDS.names).cast(_KINDS))


def about_rows(files: Sequence[Path]) -> int:
    """About how many rows a table of these files has."""
    rows = 0
    for file in files:
        if kind_of(file) not in PARQUET_SUFFIXES:
            rows += estimated_bytes([file]) // ROW_BYTES
            continue
        with suppress(OSError, pa.ArrowException):  # reading it says what is wrong
            rows += int(pq.read_metadata(file).num_rows)
    return rows


def part_of(folder: Path, number: int) -> Path:
    return folder / f"part-{number:03}.arrows"


class Part:
    """The events of one file, each id of a user once, the latest `capacity` of a user, by user and moment.

    Users come by the numbers that `order` gives them.
    """

    def __init__(self, path: Path, *, capacity: int, order: Callable[[Sequence[str]], Sequence[int]]) -> None:
        events = pl.read_ipc_stream(path)
        self.rows = events.height
        self.corrected = 0  # rows that give an earlier row's id another time or label
        if events.select(pl.struct(USER, ID).is_duplicated().any()).item():  # as the store would correct it
            said = pl.struct(TIME, LABEL)
            self.corrected = int(events.select((said != said.shift(1)).over(USER, ID).sum()).item())
            events = events.group_by(USER, ID, maintain_order=True).agg(
                pl.col(TIME, LABEL).last(), pl.col(FEATURES).first()
            )
        self.repeated = self.rows - events.height
        users = events[USER].unique()
        self.users = len(users)
        places = pl.Series(order(users.to_list()), dtype=pl.Int64)
        place = events[USER].replace_strict(users, places, return_dtype=pl.Int64)
        events = events.with_columns(place.alias("place")).sort("place", USER, TIME, ID).drop("place")
        self._events = events.filter(pl.len().over(USER) - pl.int_range(pl.len()).over(USER) <= capacity)
        self.too_old = events.height - self._events.height

    def bulks(self) -> Iterator[Bulk]:
        events = self._events
        ends = np.flatnonzero((events[USER] != events[USER].shift(-1)).fill_null(True).to_numpy()) + 1
        start = 0
        while start < events.height:
            end = int(ends[np.searchsorted(ends, min(start + BULK_EVENTS, events.height))])
            some = events[start:end]
            yield Bulk(
                users=some[USER].to_list(),
                ids=some[ID].to_list(),
                times=some[TIME].to_list(),
                labels=some[LABEL].to_list(),
                features=some[FEATURES].to_list(),
            )
            start = end
