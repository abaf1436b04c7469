"""A support of any size, sorted by user on disk. Memory holds the users, their offsets and one block of rows.

Rows are first distributed to buckets, one per range of users; then each bucket is sorted. All writes are long and
sequential, whatever the order of the input.
"""

import contextlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.parquet as pq

from resus.arrays import Integers
from resus.data.fields.unknown import never_seen
from resus.data.readers.frames import as_frame
from resus.files import atomic_folder, read_json, write_json
from resus.progress import Progress
from resus.scoring.blocks import Blocks
from resus.scoring.scorer import SUPPORT, Scorer
from resus.scoring.support_index import SupportIndex, offsets_of

BUCKET_ROWS = 1 << 19
MOST_BUCKETS = 256  # all of them are open at the same time
USERS, EVENTS, UNKNOWN = "users.parquet", "events.rows", "unknown.json"


@dataclass(frozen=True, eq=False)
class SupportSpill:
    """Users and offsets in memory, events in a file."""

    users: pl.Series
    offsets: Integers
    path: Path
    layout: npt.DTypeLike

    def index(self) -> SupportIndex:
        """Opens a new memory map; its pages are freed with the index."""
        events: Any = np.empty(0, dtype=self.layout)
        if self.offsets[-1]:  # an empty file cannot be mapped
            events = np.memmap(self.path, dtype=self.layout, mode="r", shape=(int(self.offsets[-1]),))
        weights = events["weights"] if "weights" in events.dtype.names else None
        return SupportIndex(self.users, self.offsets, events["ids"], weights, events["label"])


def spill_support(scorer: Scorer, support: Blocks, folder: Path, block_rows: int, progress: Progress) -> None:
    """Check, encode and sort a support. The folder is complete or absent."""
    with atomic_folder(folder) as aside:
        counts = _count_users(scorer, support, block_rows, progress)
        pq.write_table(counts.to_arrow(), aside / USERS)
        buckets = _fill_buckets(scorer, support, counts, aside, block_rows, progress)
        _sort_buckets(buckets, aside / EVENTS, _layout(scorer), support.rows, progress)


def spilled_unknown(folder: Path, rows: int) -> tuple[str, ...]:
    """What the events hold that the model does not know, one sentence for each field."""
    return tuple(never_seen(read_json(folder / UNKNOWN), rows, SUPPORT)) if folder.is_dir() else ()


def open_spill(scorer: Scorer, folder: Path) -> SupportSpill:
    """Open what `spill_support` wrote."""
    counts = as_frame(pq.read_table(folder / USERS))
    return SupportSpill(counts["user"], offsets_of(counts["rows"].to_numpy()), folder / EVENTS, _layout(scorer))


def _layout(scorer: Scorer) -> npt.DTypeLike:
    """The record of one event. `user` is the index of the name among the sorted names."""
    columns = scorer.features.n_columns
    layout: list[Any] = [("user", np.int32), ("label", np.float32), ("ids", np.int32, (columns,))]
    return np.dtype([*layout, ("weights", np.float32, (columns,))] if scorer.features.weighted else layout)


def _count_users(scorer: Scorer, support: Blocks, block_rows: int, progress: Progress) -> pl.DataFrame:
    """The sorted users and their numbers of rows. Reads only the user column."""
    total = pl.DataFrame(schema={"user": pl.String, "rows": pl.Int64})
    fresh: list[pl.DataFrame] = []
    done = waiting = 0
    for frame in support.frames([scorer.schema.user], block_rows):
        counted = scorer.users(frame, SUPPORT, done).alias("user").value_counts(name="rows").cast({"rows": pl.Int64})
        fresh.append(counted)
        done, waiting = done + frame.height, waiting + counted.height
        if waiting > max(total.height, block_rows):
            total, fresh, waiting = _summed(total, fresh), [], 0
        progress("count events by user", done, support.rows, unit="rows")
    return _summed(total, fresh).sort("user")


def _summed(total: pl.DataFrame, fresh: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([total, *fresh]).group_by("user").agg(pl.col("rows").sum())


def _fill_buckets(
    scorer: Scorer, support: Blocks, counts: pl.DataFrame, folder: Path, block_rows: int, progress: Progress
) -> list[Path]:
    """Write each encoded row to the bucket of its user. The rows of a user keep the order of the table."""
    users, starts = counts["user"], offsets_of(counts["rows"].to_numpy())[:-1]
    bucket_rows = max(BUCKET_ROWS, -(-support.rows // MOST_BUCKETS))
    paths = [folder / f"bucket-{number:03}" for number in range(-(-support.rows // bucket_rows))]
    done, unknown = 0, Counter[str]()
    with contextlib.ExitStack() as opened:
        streams = [opened.enter_context(path.open("wb")) for path in paths]
        for frame in support.frames(scorer.support_columns(support.columns), block_rows):
            block = np.empty(frame.height, dtype=_layout(scorer))
            block["user"] = users.search_sorted(scorer.users(frame, SUPPORT, done)).to_numpy()
            block["label"] = scorer.labels(frame, done)
            frame = scorer.sides.of(frame, SUPPORT)
            ids, weights = scorer.encode(frame, SUPPORT, done)
            unknown.update(scorer.features.count_unknown(frame, ids, weights))
            block["ids"] = ids
            if weights is not None:
                block["weights"] = weights
            block = block[np.argsort(block["user"], kind="stable")]
            owners = starts[block["user"]] // bucket_rows
            for number in np.unique(owners):
                own = slice(*np.searchsorted(owners, [number, number + 1]))
                streams[number].write(block[own].view(np.uint8).data)
            done += frame.height
            progress("encode events", done, support.rows, unit="rows")
    write_json(folder / UNKNOWN, unknown)
    return paths


def _sort_buckets(buckets: list[Path], target: Path, layout: npt.DTypeLike, rows: int, progress: Progress) -> None:
    done = 0
    with target.open("wb") as stream:
        for path in buckets:
            bucket = np.fromfile(path, dtype=layout)
            path.unlink()
            stream.write(bucket[np.argsort(bucket["user"], kind="stable")].view(np.uint8).data)
            done += len(bucket)
            progress("sort events by user", done, rows, unit="rows")
