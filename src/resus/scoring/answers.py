"""Score a block of candidates: many users at once, each from their own events."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from resus.arrays import Booleans, Floats, Integers
from resus.data.negatives.support import NegativeItems
from resus.episodes.batch import Features
from resus.model.personalizer import Personalizer
from resus.scoring.support_index import SupportIndex

TILE_ROWS = 8192
TILE_CELLS = 1 << 24  # most numbers in the supports and Gram matrices of a tile: bounds the memory of long histories
ENCODED_WIDTH = 512  # each support row counts as at least this many numbers


class Prediction(NamedTuple):
    """For each candidate: P(click) = σ(basis + residual). Ψ gives the basis, the user's events add the residual."""

    probability: Floats
    basis: Floats
    residual: Floats
    support: Integers  # number of the user's events behind the score

    @property
    def columns(self) -> dict[str, Floats | Integers]:
        """The columns of the answer, by name."""
        return self._asdict()


def answer(
    model: Personalizer,
    index: SupportIndex,
    users: pl.Series,
    asked: Features,
    negatives: NegativeItems | None = None,
) -> Prediction:
    """Score each candidate from its own user's events. For a user without events the score is Ψ's.

    Users whose events are all positive get drawn `negatives`, if the model learned from such.
    """
    starts, counts = index.find(users)
    rows_per_event = 1 + negatives.facts.per_event if negatives else 1
    basis = np.empty(len(users), dtype=np.float32)
    added = np.empty(len(users), dtype=np.float32)
    for rows in _tiles(counts * rows_per_event, starts):
        first, owner = np.unique(starts[rows], return_inverse=True)
        sizes = np.zeros(len(first), dtype=np.int64)
        sizes[owner] = counts[rows]
        filled = _filled(sizes)
        ids, weights, labels = index.events((first[:, None] + np.arange(filled.shape[1]))[filled])
        if negatives is not None:
            whole = negatives.complete(ids, weights, labels, np.repeat(np.arange(len(sizes)), sizes))
            ids, weights, labels = whole.ids, whole.weights, whole.labels
            events_of = np.repeat(np.arange(len(sizes)), sizes)[whole.event]
            filled = _filled(np.bincount(events_of, minlength=len(sizes)))
        scored = model.score(
            Features.of(ids, weights),
            torch.from_numpy(labels),
            torch.from_numpy(filled),
            asked.take(rows),
            torch.from_numpy(owner),
        )
        basis[rows], added[rows] = (values.numpy() for values in scored)
    probability = torch.from_numpy(basis + added).sigmoid().numpy()
    return Prediction(probability, basis, added, counts)


def _filled(sizes: Integers) -> Booleans:
    """`[U, S]`: the slots of the users' supports that hold a row."""
    filled: Booleans = np.arange(sizes.max(initial=0))[None, :] < sizes[:, None]
    return filled


def _tiles(counts: Integers, starts: Integers) -> Iterator[Integers]:
    """Rows to score together: users without events first, then whole users with supports of similar size."""
    order = np.lexsort((starts, counts))
    newcomers, rows = np.split(order, [int(np.searchsorted(counts[order], 1))])
    for begin in range(0, len(newcomers), TILE_ROWS):
        yield newcomers[begin : begin + TILE_ROWS]
    edges = np.append(np.flatnonzero(np.diff(starts[rows], prepend=-1)), len(rows))
    sizes = counts[rows[edges[:-1]]]
    first = 0
    while first < len(sizes):
        window = sizes[first : first + TILE_ROWS]
        cells = np.arange(1, len(window) + 1) * window * np.maximum(window, ENCODED_WIDTH)
        asked = edges[first + 1 : first + 1 + len(window)] - edges[first]
        last = first + max(1, int(((cells <= TILE_CELLS) & (asked <= TILE_ROWS)).sum()))
        yield rows[edges[first] : edges[last]]
        first = last
