"""The answers to a block of queries: many users in one tile, each answered from its own events."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from resus.episodes.tensors import Features
from resus.model.personalizer import Personalizer
from resus.scoring.support_index import SupportIndex

Floats = npt.NDArray[np.float32]
TILE_ROWS = 8192
TILE_CELLS = 1 << 24  # of a tile's supports and their Gram matrices: long histories must not fill the memory
ENCODED_WIDTH = 512  # cells that a support row takes at least


@dataclass(frozen=True, eq=False)
class Prediction:
    """Per query row: P(click) = σ(basis + residual); basis is Ψ's logit, residual what the user's events add."""

    probability: Floats
    basis: Floats
    residual: Floats
    support: npt.NDArray[np.int64]  # how many events stood behind the answer

    @property
    def columns(self) -> dict[str, npt.NDArray[np.float32] | npt.NDArray[np.int64]]:
        """As tables show it."""
        return {
            "probability": self.probability,
            "basis": self.basis,
            "residual": self.residual,
            "support": self.support,
        }


def answer(model: Personalizer, index: SupportIndex, users: pl.Series, asked: Features) -> Prediction:
    """Each query is answered from its own user's events; a user without any gets Ψ's answer."""
    starts, counts = index.find(users)
    basis = np.empty(len(users), dtype=np.float32)
    added = np.empty(len(users), dtype=np.float32)
    for rows in _tiles(counts, starts):
        first, owner = np.unique(starts[rows], return_inverse=True)
        sizes = np.zeros(len(first), dtype=np.int64)
        sizes[owner] = counts[rows]
        slots = np.arange(sizes.max())[None, :]
        filled = slots < sizes[:, None]
        events, labels = index.events((first[:, None] + slots)[filled])
        scored = model.score(events, labels, torch.from_numpy(filled), asked.take(rows), torch.from_numpy(owner))
        basis[rows], added[rows] = (values.numpy() for values in scored)
    probability = torch.from_numpy(basis + added).sigmoid().numpy()
    return Prediction(probability, basis, added, counts)


def _tiles(counts: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Query rows: those without support first, then whole users with supports of similar size, each in one tile."""
    order = np.lexsort((starts, counts))
    strangers, rows = np.split(order, [int(np.searchsorted(counts[order], 1))])
    for begin in range(0, len(strangers), TILE_ROWS):
        yield strangers[begin : begin + TILE_ROWS]
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
