"""The answers to a block of queries: many users in one tile, each answered from its own events."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from resus.episodes.tensors import Features
from resus.model.personalizer import ResidualModel
from resus.model.predictors.neural import Predictor
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


@torch.no_grad()
def answer(
    predictor: Predictor, model: ResidualModel, index: SupportIndex, users: pl.Series, asked: Features
) -> Prediction:
    """Each query is answered from its own user's events; a user without any gets Ψ's answer."""
    starts, counts = index.find(users)
    basis = np.empty(len(users), dtype=np.float32)
    added = np.zeros(len(users), dtype=np.float32)
    for rows in _tiles(counts, starts):
        tile = asked.take(rows)
        basis[rows] = predictor.logits(tile).numpy()
        if counts[rows[-1]]:
            first, owner = np.unique(starts[rows], return_inverse=True)
            sizes = np.zeros(len(first), dtype=np.int64)
            sizes[owner] = counts[rows]
            mask = np.arange(sizes.max())[None, :] < sizes[:, None]
            events, labels = index.events((first[:, None] + np.arange(sizes.max())[None, :])[mask])
            outcomes = model.learner.outcomes(labels, predictor.logits(events))  # type: ignore[operator]
            filled = torch.from_numpy(mask)
            answers = model.learner(
                _spread(model.encoder(events), filled),
                filled,
                _spread(outcomes, filled),
                model.encoder(tile),
                torch.from_numpy(owner),
            )
            added[rows] = model.fusion(answers, torch.from_numpy(counts[rows])).numpy()
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


def _spread(values: torch.Tensor, filled: torch.Tensor) -> torch.Tensor:
    """`[n, ...]` values into the filled slots of `[U, S, ...]`, zeros elsewhere."""
    spread = values.new_zeros(*filled.shape, *values.shape[1:])
    spread[filled] = values
    return spread
