"""Taobao's `raw_sample.csv`, block by block, checked, as compact records."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from resus.data.datasets import taobao
from resus.data.log.column_files import Column, ColumnReader
from resus.data.log.positions import Positions
from resus.data.problems import Problem, refuse
from resus.data.readers.delimited import Delimited
from resus.data.readers.plain_csv import NotPlain, read_plain_blocks
from resus.data.spill import Integers, Rows
from resus.progress import Progress


class Impressions:
    """The rows of `raw_sample.csv`, checked, with positions in place of ads and places."""

    def __init__(self, folder: Path, block_bytes: int) -> None:
        self.ads = listed_once(taobao.read_ads(folder), "adgroup_id")
        self.places: list[str | None] = [None]
        self._place_positions: dict[str, int] = {}
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
        blocks = read_plain_blocks(
            self._path,
            numbers=["user", "time_stamp", "adgroup_id", "clk"],
            texts=["pid"],
            block_bytes=self._block_bytes,
        )
        ad_positions = _PositionsOfAds(self.ads["adgroup_id"])
        size = self._path.stat().st_size
        done = clicks = 0
        for frame, read in blocks:
            rows = np.empty(frame.height, dtype=self.dtype)
            rows["user"], rows["time"] = frame["user"].to_numpy(), frame["time_stamp"].to_numpy()
            rows["ad"] = ad_positions.find(frame["adgroup_id"].to_numpy())
            rows["place"] = self._positions_of_places(frame["pid"])
            clicked = frame["clk"].to_numpy()
            if clicked.max() > 1:
                raise NotPlain
            rows["clicked"] = clicked
            if truth is not None:
                self._add_truth(rows, truth.take(len(rows)))
            yield rows
            done += len(rows)
            clicks += int(np.count_nonzero(clicked))
            progress("reading impressions", done, done * size // read, "rows")
        if truth is not None and len(truth.take(1)):
            refuse([taobao.unfit_truth(self._path.parent)])
        if clicks in (0, done):
            raise NotPlain

    def _positions_of_places(self, names: pl.Series) -> pl.Series | int:
        """Positions in `places`, which grows with each name that is new; 0 where the cell is empty."""
        for name in names.unique().drop_nulls():
            if name not in self._place_positions:
                self._place_positions[name] = len(self.places)
                self.places.append(name)
        if not self._place_positions:
            return 0
        return names.replace_strict(self._place_positions, default=0, return_dtype=pl.Int32)

    def _add_truth(self, rows: Rows, truth: Column) -> None:
        if len(truth) < len(rows):
            refuse([taobao.unfit_truth(self._path.parent)])
        for column, name in enumerate(taobao.TRUTHS):
            rows[name] = truth[:, column]


class _PositionsOfAds:
    """Where ads stand in their list; '007' may be listed, but no impression in a plain file says so."""

    def __init__(self, texts: pl.Series) -> None:
        numbers = texts.cast(pl.Int64, strict=False)
        self._rows = np.flatnonzero((numbers.cast(pl.String) == texts).fill_null(False).to_numpy())
        self._positions = Positions(numbers.gather(self._rows).to_numpy())

    def find(self, ads: Integers) -> Integers:
        found = self._positions.find(ads)
        if found.min() < 0:
            raise NotPlain
        return self._rows[found]


def listed_once(read: Delimited, key: str) -> pl.DataFrame:
    """The rows of a smaller file in which nothing is wrong."""
    if read.problems or read.frame is None or bool(read.frame[key].is_duplicated().any()):
        raise NotPlain
    return read.frame
