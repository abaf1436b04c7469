"""Ranking and calibration metrics on arrays. A metric that does not exist (one class only, no row) is nan, never 0."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from resus.errors import DataError

Vector = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


class Gauc(NamedTuple):
    """GAUC, the users it is the mean of, and the users left out because all their labels are equal."""

    value: float
    users: int
    left_out: int


def auc(labels: Vector, scores: Vector) -> float:
    """Share of (clicked, not clicked) pairs that the scores rank right, in float32; a tie is half right."""
    if len(labels) == 0:
        return float("nan")
    wins, clicks, others = _pairs(labels, scores, np.zeros(len(labels), dtype=np.int64))
    pairs = clicks[0] * others[0]
    return float(wins[0] / pairs) if pairs else float("nan")


def gauc(labels: Vector, scores: Vector, users: Vector) -> Gauc:
    """Mean of the users' own AUCs, weighted by their rows (Zhou et al. 2018, DIN); a user's rows stand together."""
    if len(labels) == 0:
        return Gauc(float("nan"), 0, 0)
    wins, clicks, others = pairs_by_user(labels, scores, users)
    counted = (clicks > 0) & (others > 0)
    if not counted.any():
        return Gauc(float("nan"), 0, len(counted))
    each = wins[counted] / (clicks[counted] * others[counted])
    rows = (clicks + others)[counted]
    return Gauc(float(each @ rows / rows.sum()), int(counted.sum()), int((~counted).sum()))


def logloss(labels: Vector, logits: Vector) -> float:
    """Mean negative log-likelihood, from logits so that a sure prediction does not overflow."""
    if len(labels) == 0:
        return float("nan")
    return float(row_losses(labels, logits).mean(dtype=np.float64))


def row_losses(labels: Vector, logits: Vector) -> Vector:
    """Negative log-likelihood of each row."""
    losses: Vector = np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))
    return losses


def calibration_error(labels: Vector, probabilities: Vector, bins: int = 20) -> float:
    """Expected calibration error over bins of equal mass; equal probabilities share a bin, so row order is nothing."""
    n = len(labels)
    if n == 0:
        return float("nan")
    edges = np.unique(np.sort(probabilities)[np.arange(1, bins) * n // bins])
    bin_of = np.searchsorted(edges, probabilities, side="right")
    surplus = np.bincount(bin_of, weights=probabilities.astype(np.float64) - labels)
    return float(np.abs(surplus).sum() / n)


def rela_impr(auc: float, base_auc: float) -> float:
    """Improvement of the AUC above chance, in percent of the base's (Yan et al. 2014); nan for a base without any."""
    return ((auc - 0.5) / (base_auc - 0.5) - 1) * 100 if base_auc > 0.5 else float("nan")


def pairs_by_user(labels: Vector, scores: Vector, users: Vector) -> tuple[Floats, Floats, Floats]:
    """Pairs ranked right, clicked rows and other rows of each user in the rows' order; a user's rows stand together."""
    return _pairs(labels, scores, np.cumsum(_changes(users)) - 1)


def _pairs(labels: Vector, scores: Vector, groups: npt.NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Per group: pairs ranked right, clicked rows, other rows. `groups` counts up from 0 without a gap.

    One sort of 64-bit words (31 bits of group, 32 of score, 1 of label) is several times faster than an argsort.
    """
    words = groups.astype(np.uint64) << np.uint64(33) | _ordered_bits(scores) | (labels > 0)
    words.sort()
    first_of_tie = np.flatnonzero(_changes(words >> np.uint64(1)))
    clicked = (words & np.uint64(1)).astype(np.int64)
    ties_clicks = np.add.reduceat(clicked, first_of_tie)
    ties_others = np.diff(first_of_tie, append=len(words)) - ties_clicks
    first_of_group = np.flatnonzero(_changes(words[first_of_tie] >> np.uint64(33)))
    clicks = np.add.reduceat(ties_clicks, first_of_group)
    others = np.add.reduceat(ties_others, first_of_group)
    below = np.cumsum(ties_others) - ties_others
    below -= np.repeat(below[first_of_group], np.diff(first_of_group, append=len(first_of_tie)))
    wins = np.add.reduceat(ties_clicks * (below + ties_others / 2), first_of_group)
    return wins, clicks.astype(np.float64), others.astype(np.float64)


def _ordered_bits(scores: Vector) -> npt.NDArray[np.uint64]:
    """Float32 scores as integers of the same order, one bit to the left: a negative number's bits run backwards."""
    floats = scores.astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0
    if np.isnan(floats).any():
        raise DataError(f"the score of row {int(np.isnan(floats).argmax())} is not a number: it has no rank")
    bits = floats.view(np.uint32)
    ordered = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    return ordered.astype(np.uint64) << np.uint64(1)


def _changes(values: Vector) -> npt.NDArray[np.bool_]:
    return np.concatenate([[True], values[1:] != values[:-1]])
