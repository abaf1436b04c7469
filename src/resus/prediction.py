"""Scores for users whom nobody trained on: a table of what they did, a table of what to score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from resus.data.features import FeatureMap, as_text
from resus.episodes.tensors import Features
from resus.errors import DataError
from resus.model import ResidualModel
from resus.predictors.neural import Predictor

Floats = npt.NDArray[np.float32]
TILE_USERS = 512


@dataclass(frozen=True, eq=False)
class Prediction:
    """Per query row: P(click) = σ(basis + residual); basis is Ψ's logit, residual what the user's events add."""

    probability: Floats
    basis: Floats
    residual: Floats
    support: npt.NDArray[np.int64]  # how many events stood behind the answer


@dataclass(frozen=True, eq=False)
class Columns:
    """The names of the user, label and time columns."""

    user: str
    label: str
    time: str | None
    label_threshold: float | None


@torch.no_grad()
def predict(
    predictor: Predictor,
    model: ResidualModel,
    features: FeatureMap,
    support: pl.DataFrame,
    query: pl.DataFrame,
    columns: Columns,
) -> Prediction:
    """Each query is answered from its own user's support rows; a user without any gets Ψ's answer."""
    known = _Side.of(support, features, columns, predictor, model, "the support")
    asked = _Side.of(query, features, columns, predictor, model, "the query")
    labels = _labels(support, columns)
    order = _by_user(known.users, support, columns)
    sorted_users = known.users.gather(order)
    starts = sorted_users.search_sorted(asked.users, side="left").to_numpy().astype(np.int64)
    counts = sorted_users.search_sorted(asked.users, side="right").to_numpy().astype(np.int64) - starts

    added = np.zeros(len(asked.users), dtype=np.float32)
    residuals = torch.from_numpy(labels[order]) - known.basis[torch.from_numpy(order)].sigmoid()
    encoded = known.encoded[torch.from_numpy(order)]
    personal = np.flatnonzero(counts)
    first_of_user, user_of_query = np.unique(starts[personal], return_inverse=True)
    size_of_user = np.zeros(len(first_of_user), dtype=np.int64)
    size_of_user[user_of_query] = counts[personal]
    for first in range(0, len(first_of_user), TILE_USERS):
        users = slice(first, first + TILE_USERS)
        sizes = size_of_user[users]
        mask = np.arange(sizes.max())[None, :] < sizes[:, None]
        slots = torch.from_numpy(first_of_user[users][:, None] + np.where(mask, np.arange(sizes.max())[None, :], 0))
        of_tile = np.flatnonzero((user_of_query >= first) & (user_of_query < first + TILE_USERS))
        owner = torch.from_numpy(user_of_query[of_tile] - first)
        answers = model.learner(
            encoded[slots],
            torch.from_numpy(mask),
            residuals[slots],
            asked.encoded[torch.from_numpy(personal[of_tile])],
            owner,
        )
        added[personal[of_tile]] = model.fusion(answers, torch.from_numpy(sizes)[owner]).numpy()
    basis = asked.basis.numpy()
    probability = torch.from_numpy(basis + added).sigmoid().numpy()
    return Prediction(probability, basis, added, counts)


@dataclass(frozen=True, eq=False)
class _Side:
    """Support or query rows, seen through Ψ and Φ."""

    users: pl.Series
    basis: torch.Tensor
    encoded: torch.Tensor

    @classmethod
    def of(
        cls,
        frame: pl.DataFrame,
        features: FeatureMap,
        columns: Columns,
        predictor: Predictor,
        model: ResidualModel,
        where: str,
    ) -> "_Side":
        if columns.user not in frame.columns:
            raise DataError(f"{where} has no column '{columns.user}', which says whose rows these are")
        ids, weights = features.encode(frame, where)
        users = as_text(frame[columns.user])
        if users.null_count():
            row = int(users.is_null().arg_true()[0])
            raise DataError(f"{where}, column '{columns.user}', row {row + 1}: the user is empty; fill it in")
        tensors = Features(torch.from_numpy(ids), None if weights is None else torch.from_numpy(weights))
        if frame.height == 0:
            width = int(model.encoder.width)  # type: ignore[arg-type]
            return cls(users, torch.zeros(0), torch.zeros(0, width))
        return cls(users, predictor.logits(tensors), model.encoder(tensors))


def _labels(support: pl.DataFrame, columns: Columns) -> Floats:
    if columns.label not in support.columns:
        raise DataError(f"the support has no column '{columns.label}': it must say what the user did with each row")
    labels = support[columns.label].cast(pl.Float64, strict=False)
    if columns.label_threshold is not None:
        labels = (labels >= columns.label_threshold).cast(pl.Float64)
    bad = ~labels.is_in([0.0, 1.0]).fill_null(False)
    if bad.any():
        row = int(bad.arg_true()[0])
        raise DataError(
            f"the support, column '{columns.label}', row {row + 1}: "
            f"{support[columns.label][row]!r} is not 0 or 1; mend it"
        )
    return labels.to_numpy().astype(np.float32)


def _by_user(users: pl.Series, support: pl.DataFrame, columns: Columns) -> npt.NDArray[np.int64]:
    """Rows by user, and by time where it is given: learners are free to weigh recent events."""
    keys: dict[str, Any] = {"user": users}
    if columns.time and columns.time in support.columns:
        keys["time"] = support[columns.time]
    return pl.DataFrame(keys).with_row_index().sort([*keys, "index"])["index"].to_numpy().astype(np.int64)
