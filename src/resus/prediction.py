"""Scores for users whom nobody trained on: a table of what they did, a table of what to score."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from resus.data.features import FeatureMap, as_text
from resus.data.schema import TableSchema
from resus.episodes.tensors import Features
from resus.errors import DataError
from resus.model import ResidualModel
from resus.predictors.neural import Predictor

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


@torch.no_grad()
def predict(
    predictor: Predictor,
    model: ResidualModel,
    features: FeatureMap,
    support: pl.DataFrame,
    query: pl.DataFrame,
    schema: TableSchema,
) -> Prediction:
    """Each query is answered from its own user's support rows; a user without any gets Ψ's answer."""
    users, asked_users = _users(support, schema, "the support"), _users(query, schema, "the query")
    labels = _labels(support, schema)
    order = users.arg_sort().to_numpy().astype(np.int64)
    known = _encode(features, support, "the support").take(order)
    asked = _encode(features, query, "the query")
    clicked = torch.from_numpy(labels[order])
    sorted_users = users.gather(order)
    starts = sorted_users.search_sorted(asked_users, side="left").to_numpy().astype(np.int64)
    counts = sorted_users.search_sorted(asked_users, side="right").to_numpy().astype(np.int64) - starts

    basis = np.empty(query.height, dtype=np.float32)
    added = np.zeros(query.height, dtype=np.float32)
    for rows in _tiles(counts, starts):
        tile = asked.take(rows)
        basis[rows] = predictor.logits(tile).numpy()
        if counts[rows[-1]]:
            first, owner = np.unique(starts[rows], return_inverse=True)
            sizes = np.zeros(len(first), dtype=np.int64)
            sizes[owner] = counts[rows]
            mask = np.arange(sizes.max())[None, :] < sizes[:, None]
            places = (first[:, None] + np.arange(sizes.max())[None, :])[mask]
            events = known.take(places)
            residuals = clicked[torch.from_numpy(places)] - predictor.logits(events).sigmoid()
            filled = torch.from_numpy(mask)
            answers = model.learner(
                _spread(model.encoder(events), filled),
                filled,
                _spread(residuals, filled),
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


def _encode(features: FeatureMap, frame: pl.DataFrame, where: str) -> Features:
    ids, weights = features.encode(frame, where)
    return Features(torch.from_numpy(ids), None if weights is None else torch.from_numpy(weights))


def _users(frame: pl.DataFrame, schema: TableSchema, where: str) -> pl.Series:
    if schema.user not in frame.columns:
        raise DataError(f"{where} has no column '{schema.user}', which says whose rows these are")
    users = as_text(frame[schema.user])
    empty = users.is_null() | (users == "")
    if empty.any():
        row = int(empty.arg_true()[0])
        raise DataError(f"{where}, column '{schema.user}', row {row + 1}: the user is empty; fill it in")
    return users


def _labels(support: pl.DataFrame, schema: TableSchema) -> Floats:
    if schema.label not in support.columns:
        raise DataError(f"the support has no column '{schema.label}': it must say what the user did with each row")
    labels = support[schema.label].cast(pl.Float64, strict=False).fill_nan(None)
    if schema.label_threshold is not None:
        labels = (labels >= schema.label_threshold).cast(pl.Float64)
    bad = ~labels.is_in([0.0, 1.0]).fill_null(False)
    if bad.any():
        row = int(bad.arg_true()[0])
        wanted = "0 or 1" if schema.label_threshold is None else "a number"
        raise DataError(
            f"the support, column '{schema.label}', row {row + 1}: "
            f"{support[schema.label][row]!r} is not {wanted}; write {wanted}"
        )
    return labels.to_numpy().astype(np.float32)
