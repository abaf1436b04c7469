"""Where each of many whole numbers stands in a list of distinct ones."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Positions:
    """A table over all numbers up to the highest where that is small, a search in the sorted list elsewhere."""

    def __init__(self, listed: Integers) -> None:
        self._order = np.argsort(listed)
        self._sorted = listed[self._order]
        self._table: npt.NDArray[np.int32] | None = None
        if len(listed) and self._sorted[0] >= 0 and self._sorted[-1] < 8 * len(listed) + (1 << 20):
            self._table = np.full(int(self._sorted[-1]) + 2, -1, dtype=np.int32)
            self._table[listed] = np.arange(len(listed), dtype=np.int32)

    def find(self, numbers: Integers) -> npt.NDArray[np.int32]:
        """Positions in the list as it was given; -1 for a number that is not listed."""
        if self._table is not None:
            beyond = len(self._table) - 1  # the last entry is nobody's
            return self._table[np.where((numbers < 0) | (numbers > beyond), beyond, numbers)]
        if not len(self._sorted):
            return np.full(len(numbers), -1, dtype=np.int32)
        place = np.minimum(np.searchsorted(self._sorted, numbers), len(self._sorted) - 1)
        return np.where(self._sorted[place] == numbers, self._order[place], -1).astype(np.int32)
