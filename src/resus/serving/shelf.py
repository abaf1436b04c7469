"""The catalogue as one model sees it: what depends on the item alone, and per context what depends on the crowd alone.

The code of an item is kept for as long as the model is. The crowd's logits, and codes that depend on the context, are
kept per context, the most recently used contexts first, up to a number of bytes.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from resus.arrays import Floats, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import spelled
from resus.model.inference.model import Inference
from resus.model.inference.parts import AdditiveEncoder, Rows
from resus.serving.catalogue import Catalogue

CONTEXT_BYTES = 1 << 28  # for all contexts together
TILE = 1 << 16  # items of a whole catalogue at a time

Crowd = tuple[Floats, Floats]  # the crowd's logits `[N]`, and encoded rows `[N, K]`


class Shelf:
    """Threads may share it."""

    def __init__(
        self, model: Inference, features: FeatureMap, catalogue: Catalogue, *, context_bytes: int = CONTEXT_BYTES
    ) -> None:
        self._model, self._features, self.catalogue = model, features, catalogue
        self._of_item = catalogue.field_of >= 0  # [C]
        unknown = Rows(*features.encode_rows([{}]))
        self._ids = np.concatenate([catalogue.ids, unknown.ids])  # the last row is an item that nobody knows
        self._weights = None if unknown.weights is None else np.concatenate([_some(catalogue.weights), unknown.weights])
        self._item_codes: Floats | None = None
        encoder = cast("AdditiveEncoder", model.encoder)
        if hasattr(encoder, "adds_up") and encoder.adds_up(self._of_item):
            self._item_codes = encoder.part(Rows(self._ids, self._weights), self._of_item)
        self._contexts: OrderedDict[str, _Context] = OrderedDict()  # least recently used first
        self._context_bytes, self._limit = 0, context_bytes
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.catalogue.items)

    def places(self, items: Sequence[str]) -> Integers:
        """The positions of items, `len(self)` for an unknown one."""
        known, unknown = self.catalogue.places, len(self)
        found = [known.get(item, -1) for item in items]
        if -1 in found:
            both = zip(found, items, strict=True)
            found = [self.catalogue.place_of(item) if place < 0 else place for place, item in both]
            found = [unknown if place < 0 else place for place in found]
        return np.array(found, dtype=np.int64)

    def names(self, places: Integers, items: Sequence[str]) -> list[str | None]:
        """The ids of items at these places, as the catalogue writes them; others as they would be in a vocabulary."""
        known, unknown = self.catalogue.items, len(self)
        both = zip(places.tolist(), items, strict=True)
        return [spelled(item) if place == unknown else known[place] for place, item in both]

    def knows(self, context: Mapping[str, Any]) -> bool:
        """Whether the context leaves the fields of the items to the catalogue."""
        return not any(context.get(name) is not None for name in self.catalogue.fields)

    def encode(self, places: Integers, context: Mapping[str, Any]) -> Crowd:
        """Items in a context, as the model encodes them."""
        found = self._context(context)
        try:
            return self._encode(found, places)
        finally:
            self._account(found)

    def encode_all(self, context: Mapping[str, Any]) -> Iterator[tuple[slice, Crowd]]:
        """The whole catalogue in a context: at once if it can be kept, which spares a copy, or else in tiles."""
        found = self._context(context)
        if len(self) * found.kept.width * 4 <= self._limit:
            try:
                yield slice(0, len(self)), self._encode_all(found)
            finally:
                self._account(found)
            return
        for start in range(0, len(self), TILE):
            tile = np.arange(start, min(start + TILE, len(self)))
            both = self._both(found, tile)
            yield slice(start, start + len(tile)), (both[:, 0], both[:, 1:])

    def _encode(self, context: "_Context", places: Integers) -> Crowd:
        if self._item_codes is None:
            both = context.kept.take(places, lambda some: self._both(context, some))
            return both[:, 0], both[:, 1:]
        codes = self._item_codes[places]
        if context.code is not None:
            codes += context.code
        crowd = context.kept.take(places, lambda some: self._crowd(context, some))
        return crowd[:, 0], codes

    def _encode_all(self, context: "_Context") -> Crowd:
        everything = np.arange(len(self))
        if self._item_codes is None:
            both = context.kept.whole(everything, lambda some: self._both(context, some))
            return both[:, 0], both[:, 1:]
        codes = self._item_codes[:-1]
        crowd = context.kept.whole(everything, lambda some: self._crowd(context, some))
        return crowd[:, 0], codes if context.code is None else codes + context.code

    def _both(self, context: "_Context", places: Integers) -> Floats:
        """Logit and code side by side, `[N, 1 + K]`."""
        crowd, encoded = self._model.encode(self._rows(context, places))
        return np.concatenate([crowd[:, None], encoded], axis=1)

    def _crowd(self, context: "_Context", places: Integers) -> Floats:
        assert self._item_codes is not None
        codes = self._item_codes[places]
        if context.code is not None:
            codes += context.code
        basis = self._model.predictor(self._rows(context, places))
        return self._model.learner.crowd(basis, codes)[:, None]

    def _rows(self, context: "_Context", places: Integers) -> Rows:
        ids = np.where(self._of_item, self._ids[places], context.row.ids)
        if self._weights is None:
            return Rows(ids, None)
        return Rows(ids, np.where(self._of_item, self._weights[places], _some(context.row.weights)))

    def _context(self, context: Mapping[str, Any]) -> "_Context":
        key = json.dumps(context, separators=(",", ":")) if context else ""
        with self._lock:
            found = self._contexts.get(key)
            if found is not None:
                self._contexts.move_to_end(key)
                return found
        made = self._make(key, context)
        with self._lock:
            return self._contexts.setdefault(key, made)

    def _make(self, key: str, context: Mapping[str, Any]) -> "_Context":
        row = Rows(*self._features.encode_rows([context]))
        if self._item_codes is None:
            return _Context(key, row, None, _Kept(len(self) + 1, 1 + self._model.encoder.width))
        code = cast("AdditiveEncoder", self._model.encoder).part(row, ~self._of_item)[0]
        return _Context(key, row, code if code.any() else None, _Kept(len(self) + 1, 1))

    def _account(self, used: "_Context") -> None:
        """Drop the contexts that were used least recently, as long as all together take too many bytes."""
        with self._lock:
            if used.accounted is not None:
                self._context_bytes -= used.accounted
            used.accounted = used.kept.nbytes
            self._context_bytes += used.accounted
            while self._context_bytes > self._limit and self._contexts:
                _, dropped = self._contexts.popitem(last=False)
                if dropped.accounted is not None:
                    self._context_bytes -= dropped.accounted
                    dropped.accounted = None
            if used.accounted is not None and self._contexts.get(used.key) is not used:
                self._context_bytes -= used.accounted
                used.accounted = None


class _Context:
    """The fields that all candidates of a request share, and what is kept of the catalogue in this context."""

    def __init__(self, key: str, row: Rows, code: Floats | None, kept: "_Kept") -> None:
        self.key, self.row, self.code, self.kept = key, row, code, kept
        self.accounted: int | None = None


class _Kept:
    """Rows of numbers of some of the items, computed at the first question."""

    def __init__(self, items: int, width: int) -> None:
        self.width = width
        self._slots = np.zeros(items, dtype=np.int32)  # 1 + the row of an item; 0: not computed
        self._rows = np.empty((0, width), dtype=np.float32)
        self._used = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._rows.nbytes

    def take(self, places: Integers, compute: Callable[[Integers], Floats]) -> Floats:
        """The rows of these items, `[N, width]`."""
        with self._lock:
            slots = self._slots[places]
            if slots.all():
                return self._rows[slots - 1]
        missing = np.unique(places[slots == 0])
        computed = compute(missing)
        with self._lock:
            self._add(missing, computed)
            return self._rows[self._slots[places] - 1]

    def whole(self, places: Integers, compute: Callable[[Integers], Floats]) -> Floats:
        """The rows of all these items, in their order."""
        with self._lock:
            if self._used >= len(places) and bool((self._slots[: len(places)] == places + 1).all()):
                return self._rows[: len(places)]
        tiles = (places[start : start + TILE] for start in range(0, len(places), TILE))
        rows = np.concatenate([self.take(tile, compute) for tile in tiles])
        with self._lock:
            self._rows, self._used = rows, len(rows)
            self._slots[:] = 0
            self._slots[: len(places)] = places + 1
        return rows

    def _add(self, places: Integers, rows: Floats) -> None:
        new = self._slots[places] == 0
        count = int(new.sum())
        if self._used + count > len(self._rows):
            larger = np.empty((max(self._used + count, 2 * len(self._rows)), rows.shape[1]), dtype=np.float32)
            larger[: self._used] = self._rows[: self._used]
            self._rows = larger
        self._rows[self._used : self._used + count] = rows[new]
        self._slots[places[new]] = np.arange(self._used + 1, self._used + count + 1)
        self._used += count


def _some(weights: Floats | None) -> Floats:
    assert weights is not None
    return weights
