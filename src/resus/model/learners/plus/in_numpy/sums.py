"""Sums of amounts by key."""

import numpy as np

from resus.arrays import Array, Booleans, Doubles, Floats, Integers


class Sums:
    """Sums of amounts by key: one look-up for any number of candidates."""

    def __init__(self, keys: Array, amounts: Array, used: Booleans) -> None:
        self._keys, places = np.unique(keys[used], return_inverse=True)
        self._sums = np.bincount(places, amounts[used], len(self._keys)).astype(np.float32)

    def __len__(self) -> int:
        return len(self._keys)

    def __call__(self, keys: Array) -> Floats:
        """0 for a key without a sum."""
        if not len(self._keys):
            return np.zeros(keys.shape, dtype=np.float32)
        places, known = self._places(keys)
        found: Floats = np.where(known, self._sums[places], np.float32(0))
        return found

    def spread(self, keys: Array, amounts: Array) -> Doubles:
        """Amounts of rows `[N, V]` by key, `[N, distinct]`; other keys are left out."""
        if not len(self._keys):
            return np.zeros((len(keys), 0))
        places, known = self._places(keys)
        places += np.arange(len(keys))[:, None] * len(self._keys)
        sums = np.bincount(places[known], amounts[known], len(keys) * len(self._keys))
        return sums.reshape(len(keys), -1).astype(np.float64, copy=False)

    def _places(self, keys: Array) -> tuple[Integers, Booleans]:
        places = np.searchsorted(self._keys, keys)
        np.minimum(places, len(self._keys) - 1, out=places)
        return places, self._keys[places] == keys
