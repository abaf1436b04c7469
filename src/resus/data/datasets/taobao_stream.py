"""Taobao's impressions become a log without ever being in memory at once.

What is kept in memory is per user, per ad or per block. The impressions are read once, spilled, sorted by user in
buckets, filtered and counted, and then encoded by gathering the ids of their ad and of their user.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.arrays import Ids
from resus.data.build import BuildOptions
from resus.data.datasets import taobao
from resus.data.datasets.taobao_impressions import Impressions, listed_once
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.column_files import Column
from resus.data.log.ordering import order_by
from resus.data.log.rows import LogRows
from resus.data.log.writer import NO_EVENT
from resus.data.options import PrepareOptions
from resus.data.readers.plain_csv import NotPlain
from resus.data.readers.tables import PUBLISHED_DEFAULTS
from resus.data.schema import TableSchema
from resus.data.spill import Buckets, Integers, Rows, Spill
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
    """The log of the three files, row by row what `taobao.read` and `assemble_log` give; NotPlain where they must look.

    `spill_folder` is filled, and needed until the last row has been taken.
    """
    build = options.build_options(PUBLISHED_DEFAULTS)
    impressions = Impressions(folder, block_bytes)
    profiles = listed_once(taobao.read_profiles(folder), "userid")
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
    people = user_ids.to_frame(taobao.USER_FIELD)
    people = people.join(profiles, on=taobao.USER_FIELD, how="left", maintain_order="left")
    places = pl.DataFrame({"pid": impressions.places}, schema={"pid": pl.String})
    tables = {"ad": (impressions.ads, seen.by_ad), "user": (people, seen.by_user[kept])}
    tables["place"] = (places, seen.by_place)
    schema = taobao.schema_of(options)
    features = _features(tables, schema, build.min_count)
    parts = {role: features.encode_part(table) for role, (table, _) in tables.items()}
    return LogRows(
        name=impressions.name,
        schema=schema,
        options=build,
        features=features,
        user_ids=user_ids.to_arrow(),
        offsets=np.concatenate([[0], np.cumsum(seen.by_user[kept])]),
        blocks=_encoded(buckets, features.n_columns, parts, progress),
    )


def is_sound(folder: Path, options: PrepareOptions) -> bool:
    """Whether nothing is wrong; false also where only the strict reader can tell."""
    build = options.build_options(PUBLISHED_DEFAULTS)
    if "error" in (build.duplicates, build.single_events):
        return False
    try:
        listed_once(taobao.read_profiles(folder), "userid")
        for _ in Impressions(folder, BLOCK_BYTES).read(silent):
            pass
    except (NotPlain, DataError):
        return False
    return True


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


def _features(tables: dict[str, tuple[pl.DataFrame, Integers]], schema: TableSchema, min_count: int) -> FeatureMap:
    """The vocabularies of all fields, from tables and how many of the log's rows each of their rows stands for."""
    columns = {name: (table[name], counts) for table, counts in tables.values() for name in table.columns}
    fields = (
        field.learn(name, columns[name][0], min_count=min_count, counts=columns[name][1])
        for name, field in schema.fields.items()
    )
    return FeatureMap(fields=tuple(fields), item=schema.item)


def _encoded(
    buckets: Buckets, width: int, parts: dict[str, tuple[list[int], Ids]], progress: Progress
) -> Iterator[dict[str, Column]]:
    """The log's rows, a bucket at a time."""
    total, done, first = buckets.rows, 0, 0
    for rows in buckets:
        _, lengths = _runs(rows["user"])
        user = np.repeat(np.arange(first, first + len(lengths)), lengths)
        ids = np.empty((len(rows), width), dtype=np.int32)
        for role, position in (("ad", rows["ad"]), ("place", rows["place"]), ("user", user)):
            columns, of_part = parts[role]
            ids[:, columns] = of_part.take(position, axis=0)
        first += len(lengths)
        truths = {name: np.ascontiguousarray(rows[name]) for name in taobao.TRUTHS if name in (rows.dtype.names or ())}
        yield {"ids": ids, "labels": rows["clicked"].astype(np.float32), **truths}
        done += len(rows)
        progress("writing the log", done, total, "rows")
