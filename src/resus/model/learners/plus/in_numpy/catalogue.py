"""A whole catalogue in the form in which a fitted user answers for all items at once."""

import numpy as np

from resus.arrays import Floats, Integers
from resus.model.learners.plus.in_numpy.codes import CodeColumns


class PreparedCatalogue:
    """Codes of a whole catalogue. Items with the same values in all fields but the item's own form a group."""

    def __init__(self, layout: CodeColumns, encoded: Floats) -> None:
        self.encoded = encoded
        codes = layout.unpack(encoded)
        others = layout.field_of_value != layout.names.index(layout.item)
        both = np.concatenate([codes.values[:, others], codes.shares[:, others]], axis=1)
        rows = np.ascontiguousarray(both).view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()
        _, first, self.groups = np.unique(rows, return_index=True, return_inverse=True)
        self.values, self.shares = (part[first][:, others] for part in (codes.values, codes.shares))
        self._order = np.argsort(codes.items, kind="stable")
        self._sorted = codes.items[self._order]

    def rows_of(self, items: Floats) -> Integers:
        """The rows of some items; an unknown item may be any of the unknown ones."""
        wanted = np.unique(items)
        starts = np.searchsorted(self._sorted, wanted, side="left").tolist()
        ends = np.searchsorted(self._sorted, wanted, side="right").tolist()
        found = [self._order[start:end] for start, end in zip(starts, ends, strict=True)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
