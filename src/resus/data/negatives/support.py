"""Negatives for users of whom only positive events are known, at the moment of the answer.

A model that learned from drawn negatives expects them. So each event of such a user gets as many drawn items as in
training. Which ones depends on the seed of the log and on the user's own events alone: not on other users, on the
batch, or on the order in which events arrive. An item is drawn again only once the user has had it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from resus.arrays import Array, Booleans, Doubles, Floats, Ids, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.data.negatives.drawing import chances_of, draw_items, exhausted, items_at
from resus.data.negatives.settings import DrawnNegatives
from resus.errors import DataError

Words = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
_STEPS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)


class Completed(NamedTuple):
    """Events and negatives: each event is followed by those that were drawn for it."""

    ids: Ids  # [n, C]
    weights: Floats | None
    labels: Floats  # [n]
    event: Integers  # [n], the number of the event that a row is, or was drawn for
    item: Integers  # [n], which item was drawn; -1 for the event itself

    def by_event(self, parts: Floats) -> Floats:
        """Parts of all rows `[N, n]` → of the events `[N, k]`: to each is added what was drawn for it."""
        starts = np.flatnonzero(self.item < 0)
        summed: Floats = np.add.reduceat(parts, starts, axis=1) if len(starts) else parts
        return summed


@dataclass(frozen=True, eq=False)
class NegativeItems:
    """The items that negatives are drawn from, as a model reads them, and how to draw them."""

    facts: DrawnNegatives
    features: FeatureMap
    ids: Ids  # [M, C]; only the columns of the item and of its fields count
    weights: Floats | None  # [M, C]
    chances: Doubles  # [M]

    @classmethod
    def of(cls, log: InteractionLog) -> "NegativeItems | None":
        """The items of a log with drawn negatives; None if it has none."""
        facts, features = log.manifest.negatives, log.features
        if facts is None:
            return None
        block = features.block(features.item)
        codes = log.ids[:, block.columns.start].astype(np.int64) - block.first
        counts = np.bincount(codes[(log.labels == 1) & (codes > 0)], minlength=1 + len(block.field.values))[1:]
        rows = _row_of_each(log, _columns(features, (features.item, *facts.item_fields)), codes)
        known = counts > 0
        weights = None if log.weights is None else log.weights[rows[known]]
        return cls(facts, features, log.ids[rows[known]], weights, chances_of(counts[known], facts.by))

    @classmethod
    def read(cls, arrays: dict[str, Array], facts: DrawnNegatives, features: FeatureMap) -> "NegativeItems":
        """What `arrays` gave; ValueError if it does not fit the features of the model."""
        ids, weights, chances = (arrays.get(name) for name in ("ids", "weights", "chances"))
        shape = (len(chances) if chances is not None else 0, features.n_columns)
        if ids is None or chances is None or ids.shape != shape or ids.dtype != np.int32 or chances.ndim != 1:
            raise ValueError("its items are not those of the model")
        if (weights is not None) != features.weighted or (weights is not None and weights.shape != shape):
            raise ValueError("its weights are not those of the model")
        if not len(chances) or not bool((chances > 0).all()) or abs(float(chances.sum()) - 1) > 1e-6:
            raise ValueError("its chances do not sum to 1")
        for name in (features.item, *facts.item_fields, *facts.context):
            features.block(name)
        for field, first, columns in features.blocks:
            block = ids[:, columns]
            if not first <= block.min() <= block.max() < first + field.ids:
                raise ValueError(f"it has values of {field.name} that the model does not know")
        return cls(facts, features, ids, weights, chances)

    def arrays(self) -> dict[str, Array]:
        """All that `read` needs besides the facts and the features."""
        arrays: dict[str, Array] = {"ids": self.ids, "chances": self.chances}
        return arrays if self.weights is None else arrays | {"weights": self.weights}

    def complete(self, ids: Ids, weights: Floats | None, labels: Array, users: Integers) -> Completed:
        """Add negatives to the events of the users whose labels are all 1; a user's events are side by side.

        A user who has had every item gets none.
        """
        per_event, n_items = self.facts.per_event, len(self.chances)
        numbers = np.arange(len(labels))
        users = np.cumsum(np.diff(users, prepend=users[:1]) != 0) if len(users) else users
        codes = self._codes(ids)
        places = self._places(ids, users)
        had = np.unique((places * n_items + codes)[codes >= 0])
        disliked = np.zeros(len(labels), dtype=np.bool_)
        disliked[users[labels == 0]] = True
        full = exhausted(had, len(labels), n_items)[places] if len(had) else np.zeros(len(labels), dtype=np.bool_)
        events = numbers[~disliked[users] & ~full]
        if not len(events):
            return Completed(ids, weights, labels.astype(np.float32), numbers, np.full(len(labels), -1))
        keys = self._keys(ids, users)[events]
        drawn = self._drawn(np.repeat(places[events], per_event), had, keys)
        event = np.concatenate([numbers, np.repeat(events, per_event)])
        order = np.argsort(event, kind="stable")
        event = event[order]
        item = np.concatenate([np.full(len(labels), -1), drawn])[order]
        is_drawn, other = item >= 0, np.maximum(item, 0)
        replaced = is_drawn[:, None] & self._of_item
        return Completed(
            np.where(replaced, self.ids[other], ids[event]),
            None if weights is None else np.where(replaced, _some(self.weights)[other], weights[event]),
            np.where(is_drawn, 0, labels[event]).astype(np.float32),
            event,
            item,
        )

    @cached_property
    def _of_item(self) -> Booleans:
        """Which columns a drawn item brings along, `[C]`."""
        columns = np.zeros(self.features.n_columns, dtype=np.bool_)
        columns[_columns(self.features, (self.features.item, *self.facts.item_fields))] = True
        return columns

    @cached_property
    def _item_column(self) -> int:
        return int(self.features.block(self.features.item).columns.start)

    @cached_property
    def _place_of_id(self) -> Integers:
        """By id of the item in its field: the place among the items, or -1."""
        block = self.features.block(self.features.item)
        places = np.full(block.field.ids, -1)
        places[self.ids[:, self._item_column] - block.first] = np.arange(len(self.ids))
        return places

    @cached_property
    def _bounds(self) -> Doubles:
        return np.cumsum(self.chances)

    def _codes(self, ids: Ids) -> Integers:
        return self._place_of_id[ids[:, self._item_column] - self.features.block(self.features.item).first]

    def _places(self, ids: Ids, users: Integers) -> Integers:
        """Numbers of the users, or of the users in their contexts."""
        if not self.facts.context:
            return users
        situation = _hashed(ids[:, _columns(self.features, self.facts.context)]) ^ _mixed(users.astype(np.uint64))
        places: Integers = np.unique(situation, return_inverse=True)[1]
        return places

    def _keys(self, ids: Ids, users: Integers) -> Words:
        """A word for each event: its ids, and how many equal events of the user came before it."""
        words = _hashed(ids)
        order = np.lexsort((words, users))
        fresh = np.ones(len(order), dtype=np.bool_)
        fresh[1:] = (np.diff(users[order]) != 0) | (np.diff(words[order]) != 0)
        starts = np.flatnonzero(fresh)
        before = np.empty(len(order), dtype=np.int64)
        before[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        return _mixed(words ^ _mixed(before.astype(np.uint64) ^ _mixed(np.array([self.facts.seed], dtype=np.uint64))))

    def _drawn(self, places: Integers, had: Integers, keys: Words) -> Integers:
        slots = np.tile(np.arange(self.facts.per_event, dtype=np.uint64), len(keys))
        words = _mixed(np.repeat(keys, self.facts.per_event) + slots)

        def uniforms(number: int, pending: Integers) -> Doubles:
            return (_mixed(words[pending] + np.uint64(number)) >> np.uint64(11)).astype(np.float64) * 2.0**-53

        def candidates(number: int, pending: Integers) -> Integers:
            return items_at(self._bounds, uniforms(number, pending))

        return draw_items(places, had, self.chances, candidates, lambda pending: uniforms(1 << 20, pending))


def _columns(features: FeatureMap, names: tuple[str, ...]) -> Integers:
    blocks = [features.block(name).columns for name in names]
    return np.concatenate([np.arange(block.start, block.stop) for block in blocks])


def _mixed(words: Words) -> Words:
    """Each word well mixed: SplitMix64 (Steele et al. 2014)."""
    words = words + _STEPS[0]
    words = (words ^ (words >> np.uint64(30))) * _STEPS[1]
    words = (words ^ (words >> np.uint64(27))) * _STEPS[2]
    return words ^ (words >> np.uint64(31))


def _hashed(ids: Ids) -> Words:
    """One word for each row."""
    columns = np.arange(ids.shape[1], dtype=np.uint64) << np.uint64(32)
    hashed: Words = _mixed(_mixed(ids.astype(np.uint64) + columns).sum(axis=1, dtype=np.uint64))
    return hashed


def _row_of_each(log: InteractionLog, columns: Integers, codes: Integers) -> Integers:
    """For each value of the item's field, a row that has its most frequent values in the columns; 0 if it has none."""
    parts: dict[str, Array] = {f"id {column}": log.ids[:, column] for column in columns}
    if log.weights is not None:
        parts |= {f"weight {column}": log.weights[:, column] for column in columns}
    best = (
        pl.DataFrame({"code": codes, **parts})
        .with_row_index("row")
        .filter(pl.col("code") > 0)
        .group_by(pl.exclude("row"))
        .agg(pl.len().alias("count"), pl.col("row").min())
        .sort("code", "count", "row", descending=[False, True, False])
        .unique("code", keep="first", maintain_order=True)
    )
    if best.is_empty():
        raise DataError("the log has no known item: lower min_count, and prepare the data again")
    rows = np.zeros(log.features.block(log.features.item).field.ids, dtype=np.int64)
    rows[best["code"].to_numpy()] = best["row"].to_numpy()
    return rows[1:]


def _some(weights: Floats | None) -> Floats:
    assert weights is not None
    return weights
