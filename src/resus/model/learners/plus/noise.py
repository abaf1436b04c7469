"""Standard normal numbers that can be looked up in any order: each is a function of a seed and of what it is for.

So a draw gives an item the same number whichever other items are asked for, offline and live, today and tomorrow. The
numbers are hashes (the finalizer of splitmix64) turned into normal ones in pairs (Box and Muller).
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from resus.arrays import Array, Floats

Words = npt.NDArray[np.uint64]

SEEDS = 1 << 53  # seeds are smaller, so that every JSON reader keeps them exact
STEP = np.uint64(0x9E3779B97F4A7C15)
HALF = 24  # bits of a uniform number in 32 bits


class Part(IntEnum):
    """What of a user a number is drawn for."""

    BIAS = 1
    VALUE = 2
    TASTE = 3
    EVENT = 4


def normals(seeds: int | Array, part: Part, keys: Array, draws: int) -> Floats:
    """`[..., draws]`, where `[...]` is the shape of seeds and keys together."""
    own = np.uint64(part * int(STEP) % (1 << 64))
    start = _mixed(_mixed(np.atleast_1d(seeds).astype(np.uint64) + STEP) + own)  # arrays wrap around in silence
    start = _mixed(start + np.atleast_1d(keys).astype(np.uint64) * STEP)
    pairs = np.arange(1, draws // 2 + draws % 2 + 1, dtype=np.uint64) * STEP
    words = _mixed(start[..., None] + pairs)
    radius = ((words >> np.uint64(64 - HALF)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-HALF)
    np.sqrt(np.float32(-2) * np.log(radius, out=radius), out=radius)
    angle = (words & np.uint64((1 << HALF) - 1)).astype(np.float32) * np.float32(2 * np.pi * 2.0**-HALF)
    found = np.empty((*words.shape[:-1], 2 * words.shape[-1]), dtype=np.float32)
    found[..., 0::2] = radius * np.cos(angle)
    found[..., 1::2] = radius * np.sin(angle)
    return found[..., :draws]


def _mixed(words: Words) -> Words:
    """Every bit of a word decides about every bit of the result."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed
