"""The rows of a live user's support if negatives are drawn: the events, and after each event what was drawn for it.

A new event changes few rows: its own, those drawn for it, and rows of its item that were drawn before.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from resus.arrays import Doubles, Floats, Integers
from resus.data.negatives.support import Completed, NegativeItems
from resus.model.inference.parts import Rows

NO_ROWS = np.empty(0, dtype=np.int64)


class Change(NamedTuple):
    """How to get from one support to the next: remove rows, then insert rows, then set labels."""

    removed: Integers  # places in the old support, descending
    inserted: Integers  # places in the new one, ascending
    relabelled: Integers  # places in the new one
    rows: Rows  # all rows of the new one
    labels: Doubles

    @property
    def is_small(self) -> bool:
        return not len(self.labels) or 2 * (len(self.removed) + len(self.inserted)) < len(self.labels)


@dataclass(frozen=True, eq=False)
class DrawnSupport:
    """The events of one user, and the rows that follow from them. `serials` tell events apart."""

    items: NegativeItems
    events: Rows
    labels: Doubles  # [k]
    serials: Integers  # [k]
    next_serial: int
    whole: Completed
    keys: Integers  # [n], of the rows: the event, and what was drawn for it

    @classmethod
    def empty(cls, items: NegativeItems) -> "DrawnSupport":
        width = items.features.n_columns
        weights = np.empty((0, width), dtype=np.float32) if items.features.weighted else None
        rows, none = Rows(np.empty((0, width), dtype=np.int32), weights), np.empty(0)
        whole = Completed(*rows, none.astype(np.float32), NO_ROWS, NO_ROWS)
        return cls(items, rows, none, NO_ROWS, 0, whole, NO_ROWS)

    @property
    def nbytes(self) -> int:
        arrays = (*self.events, self.labels, self.serials, *self.whole, self.keys)
        return sum(array.nbytes for array in arrays if array is not None)

    def filled(self, events: Rows, labels: Doubles) -> "DrawnSupport":
        """With these events instead of all others."""
        count = len(labels)
        serials = np.arange(self.next_serial, self.next_serial + count)
        return replace(
            self, events=events, labels=labels, serials=serials, next_serial=self.next_serial + count
        )._completed()

    def inserted(self, place: int, event: Rows, label: float, *, drop_oldest: bool) -> "DrawnSupport":
        first = 1 if drop_oldest else 0
        weights = None
        if self.events.weights is not None and event.weights is not None:
            weights = np.insert(self.events.weights, place, event.weights[0], axis=0)[first:]
        return replace(
            self,
            events=Rows(np.insert(self.events.ids, place, event.ids[0], axis=0)[first:], weights),
            labels=np.insert(self.labels, place, label)[first:],
            serials=np.insert(self.serials, place, self.next_serial)[first:],
            next_serial=self.next_serial + 1,
        )._completed()

    def corrected(self, place: int, label: float) -> "DrawnSupport":
        labels = self.labels.copy()
        labels[place] = label
        return replace(self, labels=labels)._completed()

    def removed(self, place: int) -> "DrawnSupport":
        left = np.delete(np.arange(len(self.labels)), place)
        return replace(
            self, events=self.events.take(left), labels=self.labels[left], serials=self.serials[left]
        )._completed()

    def change_to(self, new: "DrawnSupport") -> Change:
        kept = np.isin(new.keys, self.keys)
        gone = np.flatnonzero(~np.isin(self.keys, new.keys))
        labels = new.whole.labels.astype(np.float64)
        moved = np.flatnonzero(kept)[np.delete(self.whole.labels, gone) != labels[kept]]
        return Change(gone[::-1], np.flatnonzero(~kept), moved, Rows(new.whole.ids, new.whole.weights), labels)

    def by_event(self, parts: Floats) -> Floats:
        """Parts of all rows `[N, n]` → of the events `[N, k]`, each with those of what was drawn for it."""
        return self.whole.by_event(parts)

    def _completed(self) -> "DrawnSupport":
        whole = self.items.complete(*self.events, self.labels, np.zeros(len(self.labels), dtype=np.int64))
        starts = np.flatnonzero(whole.item < 0)
        slots = np.arange(len(whole.event)) - starts[whole.event]
        span = self.items.facts.per_event + 1
        keys = (self.serials[whole.event] * span + slots) * (len(self.items.chances) + 1) + whole.item + 1
        return replace(self, whole=whole, keys=keys)
