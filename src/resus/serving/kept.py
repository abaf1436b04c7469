"""Numbers of the items of a catalogue, each computed when it is first asked for."""

import threading
from collections.abc import Callable, Iterator

import numpy as np

from resus.arrays import Floats, Integers

TILE = 1 << 16  # items of a whole catalogue at a time


class KeptRows:
    """A row of numbers for each of some items. Threads may share it."""

    def __init__(self, items: int, width: int) -> None:
        self.width = width
        self._slots = np.zeros(items, dtype=np.int32)  # 1 + the row of an item; 0: not computed
        self._rows = np.empty((0, width), dtype=np.float32)
        self._used = 0
        self._in_order = False  # the first rows are those of all items
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._rows.nbytes

    def holds(self, places: Integers) -> bool:
        return bool(self._slots[places].all())

    def take(self, places: Integers, compute: Callable[[Integers], Floats]) -> Floats:
        """The rows of these items, `[N, width]`."""
        with self._lock:
            slots = self._slots[places]
            if slots.all():
                return self._rows[slots - 1]
        missing = places[slots == 0]
        distinct = np.unique(missing)
        if len(distinct) < len(missing):
            missing = distinct
        computed = compute(missing)
        with self._lock:
            self._add(missing, computed)
            if len(missing) == len(places):  # all of them, in their order
                return computed
            return self._rows[self._slots[places] - 1]

    def whole(self, items: int, compute: Callable[[Integers], Floats]) -> Floats:
        """The rows of the first items, in their order, without a copy if they are kept like that."""
        with self._lock:
            if self._in_order:
                return self._rows[:items]
        rows = np.concatenate([self.take(tile, compute) for tile in tiles(items)])
        with self._lock:
            others = items + np.flatnonzero(self._slots[items:])  # another thread may be about to take them
            kept = self._rows[self._slots[others] - 1]
            self._rows = np.concatenate([rows, kept]) if len(others) else rows
            self._used, self._in_order = len(self._rows), True
            self._slots[:items] = np.arange(1, items + 1)
            self._slots[others] = np.arange(items + 1, self._used + 1)
        return rows

    def without(self, changed: Integers, items: int) -> "KeptRows":
        """The same for a larger number of items, without the changed ones and the one that stands for unknown items."""
        kept = KeptRows(items, self.width)
        with self._lock:
            kept._slots[: len(self._slots) - 1] = self._slots[:-1]
            kept._slots[changed] = 0
            kept._rows, kept._used = self._rows[: self._used].copy(), self._used
        return kept

    def _add(self, places: Integers, rows: Floats) -> None:
        new = self._slots[places] == 0
        count = int(new.sum())
        if not self._used and count == len(rows):
            self._rows = rows  # without a copy: nobody changes them
        else:
            if self._used + count > len(self._rows):
                larger = np.empty((max(self._used + count, 2 * len(self._rows)), rows.shape[1]), dtype=np.float32)
                larger[: self._used] = self._rows[: self._used]
                self._rows = larger
            self._rows[self._used : self._used + count] = rows[new]
        self._slots[places[new]] = np.arange(self._used + 1, self._used + count + 1)
        self._used += count


def tiles(count: int) -> Iterator[Integers]:
    for start in range(0, count, TILE):
        yield np.arange(start, min(start + TILE, count))
