"""Taobao's impressions become a log without ever being in memory at once.

What is kept in memory is per user, per ad or per block. The impressions are read once, spilled, sorted by user in
buckets, filtered and counted, and then encoded by gathering the ids of their ad and of their user.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.data import taobao
from resus.data.build import BuildOptions
from resus.data.column_files import Column, ColumnReader
from resus.data.delimited import Delimited
from resus.data.features import EncodedField, FeatureMap, Ids, as_text
from resus.data.log_rows import LogRows
from resus.data.log_writer import NO_EVENT
from resus.data.options import PrepareOptions
from resus.data.ordering import order_by
from resus.data.plain_csv import NotPlain, read_plain_blocks
from resus.data.positions import Positions
from resus.data.problems import Problem, refuse
from resus.data.spill import Buckets, Integers, Rows, Spill
from resus.data.tables import PUBLISHED_DEFAULTS
from resus.errors import DataError
from resus.progress import Progress, silent

BLOCK_BYTES = 1 << 25
BUCKET_ROWS = 1 << 20
AD_FIELDS = taobao.ADS
USER_FIELDS = taobao.PROFILES[1:]


def stream(
    folder: Path,
    options: PrepareOptions,
    spill_folder: Path,
    progress: Progress,
    *,
    block_bytes: int = BLOCK_BYTES,
    bucket_rows: int = BUCKET_ROWS,
) -> LogRows:
    """The log of the three files, row by row what `taobao.read` and `assemble_log` give; NotPlain where they must look.

    `spill_folder` is filled, and needed until the last row has been taken.
    """
    build = options.build_options(PUBLISHED_DEFAULTS)
    impressions = _Impressions(folder, block_bytes)
    profiles = _listed(taobao.read_profiles(folder), "userid")
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
    places = pl.Series(impressions.places, dtype=pl.String)
    kept = np.flatnonzero(seen.by_user)
    user_ids = pl.Series("user", users[kept]).cast(pl.String)
    people = user_ids.to_frame(taobao.USER_FIELD)
    people = people.join(profiles, on=taobao.USER_FIELD, how="left", maintain_order="left")
    counted = {name: (impressions.ads[name], seen.by_ad) for name in AD_FIELDS}
    counted |= {name: (people[name], seen.by_user[kept]) for name in (*USER_FIELDS, taobao.USER_FIELD)}
    counted["pid"] = (places, seen.by_place)
    schema = taobao.schema_of(options)
    fields = tuple(_learned(name, *counted[name], build.min_count) for name in schema.fields)
    features = FeatureMap(fields=fields, item=schema.item)
    blocks = partial(
        _encoded,
        buckets,
        features.n_columns,
        _Part.of(features, impressions.ads, AD_FIELDS),
        _Part.of(features, people, [*USER_FIELDS, taobao.USER_FIELD]),
        _Part.of(features, places.to_frame("pid"), ["pid"]),
        progress,
    )
    return LogRows(
        name=impressions.name,
        schema=schema,
        options=build,
        features=features,
        user_ids=user_ids.to_arrow(),
        offsets=np.concatenate([[0], np.cumsum(seen.by_user[kept])]),
        blocks=blocks(),
    )


def is_sound(folder: Path, options: PrepareOptions) -> bool:
    """Whether nothing is wrong; false also where only the strict reader can tell."""
    build = options.build_options(PUBLISHED_DEFAULTS)
    if "error" in (build.duplicates, build.single_events):
        return False
    try:
        _listed(taobao.read_profiles(folder), "userid")
        for _ in _Impressions(folder, BLOCK_BYTES).read(silent):
            pass
    except (NotPlain, DataError):
        return False
    return True


class _Impressions:
    """The rows of `raw_sample.csv`, checked, with positions in place of ads and places."""

    def __init__(self, folder: Path, block_bytes: int) -> None:
        self.ads = _listed(taobao.read_ads(folder), "adgroup_id")
        self.places: list[str | None] = [None]
        self._block_bytes = block_bytes
        self._path = folder / taobao.IMPRESSIONS_FILE
        truth = taobao.read_truth(folder)
        if not self._path.is_file():
            raise NotPlain
        refuse([truth] if isinstance(truth, Problem) else [])
        self._truth_path = None if truth is None else folder / taobao.TRUTH_FILE
        self.name = taobao.NAME if truth is None else taobao.PLANTED_NAME
        kinds = [("user", "i8"), ("time", "i8"), ("ad", "i4"), ("place", "i4"), ("clicked", "u1")]
        kinds += [] if truth is None else [(name, "f4") for name in taobao.TRUTHS]
        self.dtype = np.dtype(kinds)

    def read(self, progress: Progress) -> Iterator[Rows]:
        """All rows in the order of the file."""
        if self._truth_path is None:
            yield from self._read(None, progress)
            return
        with ColumnReader(self._truth_path, np.float32) as truth:
            yield from self._read(truth, progress)

    def _read(self, truth: ColumnReader | None, progress: Progress) -> Iterator[Rows]:
        texts = self.ads["adgroup_id"]
        numbers = texts.cast(pl.Int64, strict=False)
        # '007' is listed, but no impression in a plain file says so
        canonical = (numbers.cast(pl.String) == texts).fill_null(False).to_numpy()
        listed = np.flatnonzero(canonical)
        positions = Positions(numbers.fill_null(-1).to_numpy()[listed])
        size = self._path.stat().st_size
        codes: dict[str, int] = {}
        done = clicks = 0
        blocks = read_plain_blocks(
            self._path,
            numbers=["user", "time_stamp", "adgroup_id", "clk"],
            texts=["pid"],
            block_bytes=self._block_bytes,
        )
        for frame, read in blocks:
            rows = np.empty(frame.height, dtype=self.dtype)
            clicked = frame["clk"].to_numpy()
            ads = positions.find(frame["adgroup_id"].to_numpy())
            if clicked.max() > 1 or ads.min() < 0:
                raise NotPlain
            for name in frame["pid"].unique().drop_nulls():
                if name not in codes:
                    codes[name] = len(self.places)
                    self.places.append(name)
            rows["user"], rows["time"] = frame["user"], frame["time_stamp"]
            rows["ad"], rows["clicked"] = listed[ads], clicked
            rows["place"] = frame["pid"].replace_strict(codes, default=0, return_dtype=pl.Int32) if codes else 0
            done += len(rows)
            clicks += int(np.count_nonzero(clicked))
            if truth is not None:
                block = truth.take(len(rows))
                if len(block) < len(rows):
                    refuse([taobao.unfit_truth(self._path.parent)])
                for place, name in enumerate(taobao.TRUTHS):
                    rows[name] = block[:, place]
            yield rows
            progress("reading impressions", done, done * size // read, "rows")
        if truth is not None and len(truth.take(1)):
            refuse([taobao.unfit_truth(self._path.parent)])
        if clicks in (0, done):
            raise NotPlain


def _listed(read: Delimited, key: str) -> pl.DataFrame:
    """The rows of a smaller file in which nothing is wrong."""
    if read.problems or read.frame is None or bool(read.frame[key].is_duplicated().any()):
        raise NotPlain
    return read.frame


def _order(buckets: Buckets, build: BuildOptions, ads: int, progress: Progress) -> Integers:
    """Each user's rows by time, then by their order in the file; of equal events those that are wanted.

    The answer is how many rows each ad has then.
    """
    total, done = buckets.rows, 0
    by_ad = np.zeros(ads, dtype=np.int64)
    for number in range(len(buckets)):
        rows = buckets.read(number)
        done += len(rows)
        if build.duplicates != "keep":
            rows = rows.take(_distinct(rows, build))
        by_ad += np.bincount(rows["ad"], minlength=ads)
        buckets.replace(number, rows.take(order_by(rows["user"], rows["time"])))
        progress("sorting by time", done, total, "rows")
    return by_ad


def _distinct(rows: Rows, build: BuildOptions) -> Integers:
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
    frequent: npt.NDArray[np.bool_],
    users: Integers,
    places: int,
    progress: Progress,
) -> _Seen:
    """Keep the frequent ads' rows; drop users with a single row then, if so wanted; count what stays."""
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


def _runs(values: npt.NDArray[np.int64]) -> tuple[Integers, Integers]:
    """Where each run of equal values starts, and how long it is."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else np.empty(0, np.int64)
    return starts, np.diff(np.append(starts, len(values)))


def _learned(name: str, values: pl.Series, counts: Integers, min_count: int) -> EncodedField:
    """A field's vocabulary, as `FeatureMap.learn` finds it, from values that stand for several rows each."""
    seen = pl.DataFrame({"value": as_text(values), "count": counts}).drop_nulls("value")
    seen = seen.group_by("value").agg(pl.col("count").sum())
    seen = seen.filter((pl.col("count") >= max(min_count, 1)) & (pl.col("value") != ""))
    seen = seen.sort(["count", "value"], descending=[True, False])
    return EncodedField(name=name, kind="categorical", columns=1, vocabulary=tuple(seen["value"].to_list()))


@dataclass(frozen=True)
class _Part:
    """The ids of some fields for each row of a smaller table, and the columns of the log that they fill."""

    columns: list[int]
    ids: Ids

    @classmethod
    def of(cls, features: FeatureMap, frame: pl.DataFrame, names: list[str]) -> "_Part":
        columns = [column for column, field in enumerate(features.fields) if field.name in names]
        part = FeatureMap(fields=tuple(features.fields[column] for column in columns))
        ids, _ = part.encode(frame)
        shift = np.array(features.first_ids)[columns] - np.array(part.first_ids)
        return cls(columns, ids + shift.astype(np.int32))


def _encoded(
    buckets: Buckets, width: int, ads: _Part, people: _Part, places: _Part, progress: Progress
) -> Iterator[dict[str, Column]]:
    """The log's rows, a bucket at a time."""
    total, done, first = buckets.rows, 0, 0
    for rows in buckets:
        ids = np.empty((len(rows), width), dtype=np.int32)
        _, lengths = _runs(rows["user"])
        ids[:, ads.columns] = ads.ids[rows["ad"]]
        ids[:, places.columns] = places.ids[rows["place"]]
        ids[:, people.columns] = np.repeat(people.ids[first : first + len(lengths)], lengths, axis=0)
        first += len(lengths)
        truths = {name: np.ascontiguousarray(rows[name]) for name in taobao.TRUTHS if name in (rows.dtype.names or ())}
        yield {"ids": ids, "labels": rows["clicked"].astype(np.float32), **truths}
        done += len(rows)
        progress("writing the log", done, total, "rows")
