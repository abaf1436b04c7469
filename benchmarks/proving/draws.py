"""The metrics of one cell on many draws of users. Cells of one data set share the draws, so that they can be paired."""

from collections.abc import Mapping, Sequence

import numpy as np

from resus.arrays import Array, Doubles, Integers
from resus.evaluation.intervals import StageDraws, drawn_users, resamplers_of, stage_draws
from resus.evaluation.metrics import DrawCounts
from resus.evaluation.population import ScoredQueries
from resus.randomness import Purpose, generator

METRICS = ("auc", "gauc", "logloss")
DRAWS = 2000
BINS = 512


def draws_of_cell(
    scored: ScoredQueries, *, n_users: int, stages: Mapping[str, Sequence[int]], draws: int = DRAWS
) -> StageDraws:
    """By stage and metric: with all test users once, then in each draw.

    Users are drawn from all users of the log, whatever the seed: a user who is a test user of several seeds comes up
    equally often in each.
    """
    (method,) = scored.logits
    everyone = drawn_users(n_users, draws, generator(Purpose.METHOD_BOOTSTRAP, 0))
    weights = everyone[:, scored.users[scored.positions == 0]]
    resamplers = resamplers_of(METRICS) | {"auc": binned_auc}
    return stage_draws(scored, [method], stages=stages, weights=weights, resamplers=resamplers)[method]


def binned_auc(labels: Array, scores: Array, users: Integers, weights: DrawCounts) -> Doubles:
    """AUC of all rows, once per row of `weights` [B, U], with scores in `BINS` bins of equal mass.

    Rows of one bin count as tied, which is wrong by about 1 / BINS² and makes all draws two products of matrices.
    """
    edges = np.unique(np.sort(scores)[np.arange(1, BINS) * len(scores) // BINS])
    bins = np.searchsorted(edges, scores, side="right")
    clicked = labels > 0
    drawn = weights.astype(np.float32)  # sums of whole numbers below 2 ** 24 are exact
    clicks, others = (drawn @ _histograms(bins[own], users[own], drawn.shape[1]) for own in (clicked, ~clicked))
    below = np.cumsum(others, axis=1, dtype=np.float64) - others / 2
    pairs = clicks.sum(axis=1, dtype=np.float64) * others.sum(axis=1, dtype=np.float64)
    found = np.full(len(weights), np.nan)
    np.divide((clicks * below).sum(axis=1), pairs, out=found, where=pairs > 0)
    return found


def _histograms(bins: Integers, users: Integers, n_users: int) -> Array:
    """`[U, BINS]`: how many rows of each user are in each bin."""
    counts = np.bincount(users * BINS + bins, minlength=n_users * BINS)
    return counts.reshape(n_users, BINS).astype(np.float32)
