"""The catalogue as one model sees it: what depends on the item alone, and per context what depends on the crowd alone.

The code of an item is kept for as long as the model is. The crowd's logits, and codes that depend on the context, are
kept per context, the most recently used contexts first, up to a number of bytes.
"""

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from resus.arrays import Floats, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import spelled
from resus.errors import DataError
from resus.model.inference.model import Inference, LiveSupport, Scores
from resus.model.inference.parts import AdditiveEncoder, Crowd, Rows
from resus.serving.at_once import NotAtOnceError
from resus.serving.catalogue import Catalogue
from resus.serving.kept import KeptRows, tiles
from resus.serving.live.user import LiveUser
from resus.serving.own_model import OwnModel

CONTEXT_BYTES = 1 << 28  # for all contexts together
MOST_ITEMS = 1 << 14  # of a catalogue of which the scores of a live user are kept
OBJECT_BYTES = 2048  # of the objects around the arrays of one context
NO_FIELDS: Mapping[str, Any] = {}

_numbers = itertools.count()  # of the shelves of this process


class Shelf:
    """Threads may share it."""

    def __init__(
        self,
        model: Inference,
        features: FeatureMap,
        catalogue: Catalogue,
        *,
        own: OwnModel | None = None,
        context_bytes: int = CONTEXT_BYTES,
        before: "Shelf | None" = None,
        changed: Integers | None = None,
    ) -> None:
        """`before` is the shelf of an earlier state of the catalogue, in which the items `changed` were different.

        With the user's `own` model, a code may depend on the score, and so on item and context together.
        """
        self._model, self._features, self.catalogue, self._own = model, features, catalogue, own
        self._number = next(_numbers)
        self._of_item = catalogue.field_of >= 0  # [C]
        self._situation = frozenset(field.name for field in features.fields) - frozenset(catalogue.fields)
        self.of_items = frozenset(catalogue.fields)  # what the catalogue gives
        if own is not None:
            self._situation = (self._situation - {own.score.name}) | own.situation
            self.of_items |= frozenset(own.facts.of_item)
        unknown = Rows(*features.encode_rows([{}]))
        self._ids = np.concatenate([catalogue.ids, unknown.ids])  # the last row is an item that nobody knows
        self._weights = None if unknown.weights is None else np.concatenate([_some(catalogue.weights), unknown.weights])
        self._item_codes: Floats | None = None
        encoder = cast("AdditiveEncoder", model.encoder)
        if own is None and hasattr(encoder, "adds_up") and encoder.adds_up(self._of_item):
            self._item_codes = self._coded(before, changed)
        self._contexts: OrderedDict[str, Context] = OrderedDict()  # least recently used first
        self._context_bytes, self._limit = 0, context_bytes
        self._lock = threading.Lock()
        if before is not None and changed is not None:
            self._take_over(before, changed)

    def __len__(self) -> int:
        return len(self.catalogue.items)

    def updated(self, catalogue: Catalogue, changed: Integers, own: OwnModel | None = None) -> "Shelf":
        """For a later state of the catalogue: only what depends on the changed items is computed again."""
        limit = self._limit
        return Shelf(self._model, self._features, catalogue, own=own, context_bytes=limit, before=self, changed=changed)

    def places(self, items: Sequence[str]) -> tuple[Integers, Sequence[str]]:
        """The positions of items, `len(self)` for an unknown one, and their ids as a vocabulary writes them."""
        known, unknown = self.catalogue.places, len(self)
        found = [known.get(item, -1) for item in items]
        if -1 not in found:
            return np.array(found, dtype=np.int64), items
        both = zip(found, items, strict=True)
        places = [self.catalogue.place_of(item) if place < 0 else place for place, item in both]
        places = [unknown if place < 0 else place for place in places]
        return np.array(places, dtype=np.int64), [spelled(item) for item in items]

    def knows(self, context: Mapping[str, Any]) -> bool:
        """Whether the context leaves the fields of the items to the catalogue."""
        return not any(context.get(name) is not None for name in self.of_items)

    def context(self, fields: Mapping[str, Any], *, at_once: bool = False) -> "Context":
        """The context of a request, by the values of its fields; `at_once` refuses one that is not kept."""
        fields, key = self._key(fields)
        found = self._found(key)
        if found is None:
            if at_once:
                raise NotAtOnceError
            if self._own is not None:
                self._own.check_context(fields)
            row = self._checked(Rows(*self._features.encode_rows([fields])))
            found = self._keep(key, row, fields)
            found.unknown = self._features.count_unknown_values([fields], row.ids, row.weights)
        return found

    def encode_event(self, fields: Mapping[str, Any], item: str) -> Crowd | None:
        """An event whose fields are those of an item in a context that is kept; None for any other one."""
        place = self.catalogue.place_of(fields.get(item))
        if place < 0 or any(fields.get(name) is not None for name in self.of_items if name != item):
            return None
        context = self._found(self._key(fields)[1])
        return None if context is None else self.encode(np.array([place]), context)

    def context_of(self, row: Rows) -> "Context":
        """The context of an encoded row."""
        ids, weights = (
            np.where(self._of_item, 0, part[0]) for part in (row.ids, row.ids if row.weights is None else row.weights)
        )
        key = f"{ids.tolist()} {weights.tolist()}"
        return self._found(key) or self._keep(key, row)

    def score(self, live: LiveUser, places: Integers, context: "Context", *, at_once: bool = False) -> Scores:
        """Scores of items for a live user; `at_once` refuses items that are not kept in the context.

        They are kept until something changes about the user, for one context at a time.
        """

        def computed(some: Integers) -> Floats:
            if at_once and not context.kept.holds(some):
                raise NotAtOnceError
            scores = live.score_encoded(*self.encode(some, context), deviation=False)
            return np.stack([scores.basis, scores.residual], axis=1)

        self._refuse_missing(places)
        if len(self) > MOST_ITEMS:
            both = computed(places)
        else:
            both = live.kept_scores((self._number, context.key), len(self) + 1).take(places, computed)
        return Scores(both[:, 0], both[:, 1], None, None)

    def encode(self, places: Integers, context: "Context") -> Crowd:
        """Items in a context: the crowd's logits and the codes."""
        self._refuse_missing(places)
        try:
            if self._item_codes is None:
                both = context.kept.take(places, lambda some: self._both(context, some))
                return both[:, 0], both[:, 1:]
            crowd = context.kept.take(places, lambda some: self._crowd(context, some))
            return crowd[:, 0], self._codes(context, places)
        finally:
            self._account(context)

    def score_all(self, live: LiveSupport, context: "Context") -> tuple[Floats, Floats]:
        """The crowd's logits of the whole catalogue, and what a user's events add to them."""
        try:
            if self._item_codes is not None:
                basis = context.kept.whole(len(self), lambda some: self._crowd(context, some))[:, 0]
                return basis, live.score_all(basis, self._prepared, context.code)
            if len(self) * context.kept.width * 4 <= self._limit:
                both = context.kept.whole(len(self), lambda some: self._both(context, some))
                return both[:, 0], live.score_encoded(both[:, 0], both[:, 1:], deviation=False).residual
        finally:
            self._account(context)
        basis, residual = (np.empty(len(self), dtype=np.float32) for _ in range(2))
        for tile in tiles(len(self)):
            both = self._both(context, tile)
            basis[tile] = both[:, 0]
            residual[tile] = live.score_encoded(both[:, 0], both[:, 1:], deviation=False).residual
        return basis, residual

    @cached_property
    def _needed_of_items(self) -> list[str]:
        """Fields of the items that every row must have."""
        needed = [block.field.name for block in self._features.blocks if block.field.refuses_missing]
        return [name for name in needed if name in self.catalogue.fields]

    def _refuse_missing(self, places: Integers) -> None:
        """An item that is not in the catalogue has none of the fields that every row must have."""
        if self._needed_of_items and bool((places == len(self)).any()):
            row, name = int((places == len(self)).argmax()), self._needed_of_items[0]
            raise DataError(
                f"items[{row}] is not in the catalogue, and its {name!r} is missing: send a candidate with it"
            )

    def _checked(self, row: Rows) -> Rows:
        """A context has all fields that every row must have, but those of the items."""
        self._features.refuse_missing(np.where(self._of_item, self._ids[:1], row.ids))
        return row

    def _coded(self, before: "Shelf | None", changed: Integers | None) -> Floats:
        """What the fields of the items give to their codes."""
        part = cast("AdditiveEncoder", self._model.encoder).part
        rows = Rows(self._ids, self._weights)
        if before is None or changed is None or before._item_codes is None:
            return part(rows, self._of_item)
        old = before._item_codes
        codes = np.empty((len(rows.ids), old.shape[1]), dtype=np.float32)
        codes[: len(old) - 1], codes[-1] = old[:-1], old[-1]
        codes[changed] = part(rows.take(changed), self._of_item)
        return codes

    def _take_over(self, before: "Shelf", changed: Integers) -> None:
        """The contexts of an earlier shelf, without what they know of the changed items."""
        with before._lock:
            contexts = list(before._contexts.items())
        for key, context in contexts:
            kept = context.kept.without(changed, len(self) + 1)
            taken = self._contexts[key] = Context(key, context.row, context.code, kept, context.fields)
            taken.unknown = context.unknown
            taken.accounted = taken.nbytes
            self._context_bytes += taken.accounted

    @cached_property
    def _prepared(self) -> Any:
        assert self._item_codes is not None
        return self._model.learner.prepare(self._item_codes[:-1])

    def _codes(self, context: "Context", places: Integers) -> Floats:
        assert self._item_codes is not None
        codes: Floats = self._item_codes[places]
        if context.code is not None:
            codes += context.code
        return codes

    def _both(self, context: "Context", places: Integers) -> Floats:
        """Logit and code side by side, `[N, 1 + K]`."""
        crowd, encoded = self._model.encode(self._rows(context, places))
        return np.concatenate([crowd[:, None], encoded], axis=1)

    def _crowd(self, context: "Context", places: Integers) -> Floats:
        basis = self._model.predictor(self._rows(context, places))
        return self._model.learner.crowd(basis, self._codes(context, places))[:, None]

    def _rows(self, context: "Context", places: Integers) -> Rows:
        ids = np.where(self._of_item, self._ids[places], context.row.ids)
        if self._weights is None:
            return Rows(ids, None)
        rows = Rows(ids, np.where(self._of_item, self._weights[places], _some(context.row.weights)))
        return rows if self._own is None else self._own.score_items(rows, places, context.fields)

    def _key(self, fields: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Those fields that are of the situation, since the model reads no others, and the key of their context."""
        read = {name: fields[name] for name in fields if name in self._situation}
        return read, json.dumps(read, separators=(",", ":")) if read else ""

    def _found(self, key: str) -> "Context | None":
        with self._lock:
            found = self._contexts.get(key)
            if found is not None:
                self._contexts.move_to_end(key)
            return found

    def _keep(self, key: str, row: Rows, fields: Mapping[str, Any] = NO_FIELDS) -> "Context":
        code, width = None, 1
        if self._item_codes is None:
            width += self._model.encoder.width
        else:
            code = cast("AdditiveEncoder", self._model.encoder).part(row, ~self._of_item)[0]
        code = code if code is not None and code.any() else None
        made = Context(key, row, code, KeptRows(len(self) + 1, width), fields)
        with self._lock:
            return self._contexts.setdefault(key, made)

    def _account(self, used: "Context") -> None:
        """Drop the contexts that were used least recently, as long as all together take too many bytes."""
        if used.accounted == used.nbytes:
            return
        with self._lock:
            if used.accounted is not None:
                self._context_bytes -= used.accounted
            used.accounted = used.nbytes
            self._context_bytes += used.accounted
            while self._context_bytes > self._limit and self._contexts:
                _, dropped = self._contexts.popitem(last=False)
                if dropped.accounted is not None:
                    self._context_bytes -= dropped.accounted
                    dropped.accounted = None
            if used.accounted is not None and self._contexts.get(used.key) is not used:
                self._context_bytes -= used.accounted
                used.accounted = None


class Context:
    """The fields that all candidates of a request share, and what is kept of the catalogue in this context."""

    def __init__(
        self, key: str, row: Rows, code: Floats | None, kept: "KeptRows", fields: Mapping[str, Any] = NO_FIELDS
    ) -> None:
        self.key, self.row, self.code, self.kept, self.fields = key, row, code, kept, fields
        self.accounted: int | None = None
        self.unknown: Mapping[str, int] = {}  # fields with values that the model does not know

    @property
    def nbytes(self) -> int:
        return OBJECT_BYTES + len(self.key) + self.kept.nbytes


def _some(weights: Floats | None) -> Floats:
    assert weights is not None
    return weights
