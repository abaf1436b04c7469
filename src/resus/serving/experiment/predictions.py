"""The last scores that two models gave for a user and an item, until an event says what the user did.

All workers share one table of a fixed size, without locks: an event may reach another worker than the question did.
A newer score takes the slot of an older one. Each slot is sealed with its own content, so that one that two workers
write at the same time is never taken for a score.
"""

import ctypes
import multiprocessing
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from resus.arrays import Array, Floats

SLOT_BITS = 19  # half a million scores, in 12 MiB
WINDOW_SECONDS = 3600
BEGINNING = 1_700_000_000  # seconds since 1970; times are counted from here, in 31 bits
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd number that mixes the bits of a product


class Seen(NamedTuple):
    """Log-odds of one item for one user, by both models, and whether the second one answered."""

    first: float
    second: float
    by_second: bool


def shared_memory(bits: int = SLOT_BITS) -> Any:
    """Memory that processes see which are started with it."""
    return multiprocessing.get_context("spawn").RawArray(ctypes.c_uint64, 3 << bits)


class Predictions:
    """`pair` names the two models: scores of other models are not found."""

    def __init__(self, memory: Any, pair: str) -> None:
        table: Array = np.frombuffer(memory, dtype=np.uint64).reshape(3, -1)
        self._sealed, self._scores, self._about = table
        self._shift = np.uint64(65 - len(self._sealed).bit_length())
        self._pair = blake2b(pair.encode()).digest()

    def note(self, user: str, items: Sequence[str | None], first: Floats, second: Floats, *, by_second: bool) -> None:
        known = [place for place, item in enumerate(items) if item is not None]
        owner = self._owner(user)
        codes = _codes([items[place] or "" for place in known])
        both = np.stack([first[known], second[known]], axis=1).astype(np.float32)
        scores = both.view(np.uint64)[:, 0]
        about = (codes << np.uint64(32)) | np.uint64(_now() << 1 | by_second)
        slots = self._slots(owner, codes)
        self._scores[slots], self._about[slots] = scores, about
        self._sealed[slots] = owner ^ scores ^ about

    def take(self, user: str, item: str) -> Seen | None:
        """The latest scores, once, if they are recent."""
        owner, codes = self._owner(user), _codes([item])
        slots = self._slots(owner, codes)
        sealed, scores, about = self._sealed[slots], self._scores[slots], self._about[slots]
        if (sealed ^ scores ^ about != owner).any() or (about >> np.uint64(32) != codes).any():
            return None
        self._sealed[slots] = 0
        second = int(about[0]) & 0xFFFFFFFF
        if _now() - (second >> 1) > WINDOW_SECONDS:
            return None
        one, other = scores.view(np.float32).tolist()
        return Seen(one, other, bool(second & 1))

    def forget(self, user: str) -> None:
        """Drop all scores of a user."""
        self._sealed[self._sealed ^ self._scores ^ self._about == self._owner(user)] = 0

    def clear(self) -> None:
        """Drop the scores of all models."""
        self._sealed[:] = 0

    def _owner(self, user: str) -> Array:
        digest = blake2b(user.encode(), key=self._pair, digest_size=8).digest()
        return np.frombuffer(digest, dtype=np.uint64)

    def _slots(self, owner: Array, codes: Array) -> Array:
        slots: Array = ((owner ^ (codes * SPREAD)) * SPREAD) >> self._shift
        return slots


def _codes(items: Sequence[str]) -> Array:
    return np.array([crc32(item.encode()) for item in items], dtype=np.uint64)


def _now() -> int:
    return int(time.time()) - BEGINNING
