"""Taobao's impressions become a log without being in memory at once.

Memory grows with the users, the ads and one block. The impressions are read once, sorted by user in buckets on disk,
filtered and counted, and encoded with the ids of their ad and their user.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from resus.arrays import Array, Booleans, Ids, Integers
from resus.data.datasets.base import PUBLISHED_DEFAULTS
from resus.data.datasets.taobao import layout
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.column_files import ColumnReader
from resus.data.log.manifest import Manifest
from resus.data.log.sorting import Buckets, Records, Spill
from resus.data.log.writer import NO_EVENT, LogRows
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.problems import Problem, refuse
from resus.data.readers.delimited import FileRows
from resus.data.readers.plain_csv import NotPlain, read_plain_blocks
from resus.data.schema import TableSchema
from resus.errors import DataError
from resus.progress import Progress, silent

BLOCK_BYTES = 1 << 25
BUCKET_ROWS = 1 << 20


def stream(
    folder: Path,
    options: PrepareOptions,
    spill_folder: Path,
    progress: Progress,
    *,
    block_bytes: int = BLOCK_BYTES,
    bucket_rows: int = BUCKET_ROWS,
) -> LogRows:
    """The same log as the strict reader and `assemble_log` give; NotPlain for files that only the former can judge.

    `spill_folder` is needed until the last row is written.
    """
    build = options.build_options(PUBLISHED_DEFAULTS)
    impressions = Impressions(folder, block_bytes)
    profiles = listed_once(layout.read_profiles(folder), "userid")
    with Spill(spill_folder / "impressions", impressions.dtype) as spill:
        for rows in impressions.read(progress):
            spill.add(rows)
        users, counts = spill.users()
        if build.single_events == "error" and bool((counts == 1).any()):
            raise NotPlain
        buckets = spill.by_user(spill_folder / "buckets", bucket_rows, progress)
    by_ad = _order(buckets, build, len(impressions.ads), progress)
    frequent = by_ad >= build.min_item_count
    seen = _filter(buckets, build, frequent, users, len(impressions.places), progress)
    if not buckets.rows:
        raise DataError(NO_EVENT)
    kept = np.flatnonzero(seen.by_user)
    user_ids = pl.Series("user", users[kept]).cast(pl.String)
    people = user_ids.to_frame(layout.USER_FIELD)
    people = people.join(profiles, on=layout.USER_FIELD, how="left", maintain_order="left")
    places = pl.DataFrame({"pid": [name or None for name in impressions.places]}, schema={"pid": pl.String})
    tables = {
        "ad": (impressions.ads, seen.by_ad),
        "place": (places, seen.by_place),
        "user": (people, seen.by_user[kept]),
    }
    schema = layout.schema_of(options)
    features = _features(tables, schema, build.min_count)
    parts = {role: features.encode_part(table) for role, (table, _) in tables.items()}
    return LogRows(
        manifest=Manifest(name=impressions.name, table=schema, options=PrepareOptions(**build.model_dump())),
        features=features,
        user_ids=user_ids.to_arrow(),
        offsets=np.concatenate([[0], np.cumsum(seen.by_user[kept])]),
        ordered=True,
        blocks=_encoded(buckets, features.n_columns, parts, progress),
    )


def is_sound(folder: Path, options: PrepareOptions) -> bool:
    """Whether there is no problem; false also if only the strict reader can judge."""
    build = options.build_options(PUBLISHED_DEFAULTS)
    if "error" in (build.duplicates, build.single_events):
        return False
    try:
        listed_once(layout.read_profiles(folder), "userid")
        for _ in Impressions(folder, BLOCK_BYTES).read(silent):
            pass
    except (NotPlain, DataError):
        return False
    return True


def _order(buckets: Buckets, build: BuildOptions, ads: int, progress: Progress) -> Integers:
    """Sort each user's rows by time, then by their order in the file, and drop repeated events as the options say.

    Return how many rows each ad has then.
    """
    total, done = buckets.rows, 0
    by_ad = np.zeros(ads, dtype=np.int64)
    for number in range(len(buckets)):
        rows = buckets.read(number)
        done += len(rows)
        if build.duplicates != "keep":
            rows = rows.take(_distinct(rows, build))
        by_ad += np.bincount(rows["ad"], minlength=ads)
        buckets.replace(number, rows.take(np.lexsort((rows["time"], rows["user"]))))
        progress("sorting by time", done, total, "rows")
    return by_ad


def _distinct(rows: Records, build: BuildOptions) -> Integers:
    """The first or last row of each user, ad and time, in the order of the file."""
    order = np.lexsort((rows["ad"], rows["time"], rows["user"]))
    events = rows.take(order)
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = False
    for name in ("user", "time", "ad"):
        new[1:] |= events[name][1:] != events[name][:-1]
    if build.duplicates == "error" and not new.all():
        raise NotPlain
    return np.sort(order[np.append(new[1:], True) if build.duplicates == "last" else new])


@dataclass(frozen=True)
class _Seen:
    """How many rows there are of each ad, user and place."""

    by_ad: Integers
    by_user: Integers
    by_place: Integers


def _filter(
    buckets: Buckets,
    build: BuildOptions,
    frequent: Booleans,
    users: Integers,
    places: int,
    progress: Progress,
) -> _Seen:
    """Drop the rows of rare ads, then users with a single row if the options say so, and count the rest."""
    total, done, ads = buckets.rows, 0, len(frequent)
    seen = _Seen(*(np.zeros(count, dtype=np.int64) for count in (ads, len(users), places)))
    for number in range(len(buckets)):
        rows = buckets.read(number)
        done += len(rows)
        rows = rows.take(np.flatnonzero(frequent[rows["ad"]]))
        _, counts = _runs(rows["user"])
        if build.single_events == "drop":
            rows = rows.take(np.flatnonzero(np.repeat(counts > 1, counts)))
        starts, counts = _runs(rows["user"])
        seen.by_user[np.searchsorted(users, rows["user"][starts])] = counts
        seen.by_ad[:] += np.bincount(rows["ad"], minlength=ads)
        seen.by_place[:] += np.bincount(rows["place"], minlength=places)
        buckets.replace(number, rows)
        progress("counting", done, total, "rows")
    return seen


def _runs(values: Integers) -> tuple[Integers, Integers]:
    """Where each run of equal values starts, and how long it is."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else np.empty(0, np.int64)
    return starts, np.diff(np.append(starts, len(values)))


def _features(tables: dict[str, tuple[pl.DataFrame, Integers]], schema: TableSchema, min_count: int) -> FeatureMap:
    """The fields of all tables; `counts` say how many rows of the log a row of the table stands for."""
    columns = {name: (table[name], counts) for table, counts in tables.values() for name in table.columns}
    fields = (
        field.learn(name, columns[name][0], min_count=min_count, counts=columns[name][1])
        for name, field in schema.fields.items()
    )
    return FeatureMap(fields=tuple(fields), item=schema.item)


def _encoded(
    buckets: Buckets, width: int, parts: dict[str, tuple[list[int], Ids]], progress: Progress
) -> Iterator[dict[str, Array]]:
    """The rows of the log, one bucket at a time."""
    total, done, first = buckets.rows, 0, 0
    for rows in buckets:
        _, lengths = _runs(rows["user"])
        user = np.repeat(np.arange(first, first + len(lengths)), lengths)
        ids = np.empty((len(rows), width), dtype=np.int32)
        for role, position in (("ad", rows["ad"]), ("place", rows["place"]), ("user", user)):
            columns, of_part = parts[role]
            ids[:, columns] = of_part.take(position, axis=0)
        first += len(lengths)
        truths = {name: np.ascontiguousarray(rows[name]) for name in layout.TRUTHS if name in (rows.dtype.names or ())}
        yield {"ids": ids, "labels": rows["clicked"].astype(np.float32), **truths}
        done += len(rows)
        progress("writing the log", done, total, "rows")


class Impressions:
    """The rows of `raw_sample.csv`, checked, as compact records with positions instead of ads and places."""

    def __init__(self, folder: Path, block_bytes: int) -> None:
        self.ads = listed_once(layout.read_ads(folder), "adgroup_id")
        self.places = {"": 0}  # the position of each; an empty cell has the first
        self._block_bytes = block_bytes
        self._path = folder / layout.IMPRESSIONS_FILE
        truth = layout.read_truth(folder)
        if not self._path.is_file():
            raise NotPlain
        refuse([truth] if isinstance(truth, Problem) else [])
        self._truth_path = None if truth is None else folder / layout.TRUTH_FILE
        self.name = layout.NAME if truth is None else layout.PLANTED_NAME
        kinds = [("user", "i8"), ("time", "i8"), ("ad", "i4"), ("place", "i4"), ("clicked", "u1")]
        kinds += [] if truth is None else [(name, "f4") for name in layout.TRUTHS]
        self.dtype = np.dtype(kinds)

    def read(self, progress: Progress) -> Iterator[Records]:
        """All rows in the order of the file."""
        truths = ColumnReader(self._truth_path, np.float32) if self._truth_path else contextlib.nullcontext()
        with truths as truth:
            yield from self._read(truth, progress)

    def _read(self, truth: ColumnReader | None, progress: Progress) -> Iterator[Records]:
        blocks = read_plain_blocks(
            self._path,
            numbers=["user", "time_stamp", "adgroup_id", "clk"],
            texts=["pid"],
            block_bytes=self._block_bytes,
        )
        numbers = self.ads["adgroup_id"].cast(pl.Int64, strict=False)
        plain = numbers.cast(pl.String) == self.ads["adgroup_id"]  # a plain file never names an ad such as '007'
        positions = pl.DataFrame({"adgroup_id": numbers}).with_row_index("ad").filter(plain)
        size = self._path.stat().st_size
        done = clicks = 0
        for frame, read in blocks:
            rows = np.empty(frame.height, dtype=self.dtype)
            rows["user"], rows["time"] = frame["user"].to_numpy(), frame["time_stamp"].to_numpy()
            ads = frame.select("adgroup_id").join(positions, on="adgroup_id", how="left", maintain_order="left")["ad"]
            if ads.has_nulls():
                raise NotPlain
            rows["ad"] = ads
            rows["place"] = self._positions_of_places(frame["pid"])
            clicked = frame["clk"].to_numpy()
            if clicked.max() > 1:
                raise NotPlain
            rows["clicked"] = clicked
            if truth is not None:
                both = truth.take(len(rows))
                if len(both) < len(rows):
                    refuse([layout.wrong_truth(self._path.parent)])
                rows["truth"], rows["crowd"] = both.T
            yield rows
            done += len(rows)
            clicks += int(np.count_nonzero(clicked))
            progress("reading impressions", done, done * size // read, "rows")
        if truth is not None and len(truth.take(1)):
            refuse([layout.wrong_truth(self._path.parent)])
        if clicks in (0, done):
            raise NotPlain

    def _positions_of_places(self, names: pl.Series) -> pl.Series:
        """Positions in `places`, which grows with each new name."""
        for name in names.unique().drop_nulls():
            self.places.setdefault(name, len(self.places))
        return names.replace_strict(self.places, default=0, return_dtype=pl.Int32)


def listed_once(read: FileRows, key: str) -> pl.DataFrame:
    """The rows of a smaller file; NotPlain if it has a problem."""
    if read.problems or read.frame is None or bool(read.frame[key].is_duplicated().any()):
        raise NotPlain
    return read.frame
