"""How sure a difference between two models is: users drawn anew with replacement, both models on the same draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from resus.evaluation.staged import ScoredQueries

Vector = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

METRICS = ("auc", "gauc")


@dataclass(frozen=True, eq=False)
class Differences:
    """One model's metric minus the other's: on the users as they are, and on each draw, nan where a draw has none."""

    observed: float
    draws: Floats  # [B]

    def interval(self) -> tuple[float, float]:
        """The middle 95 % of the draws."""
        draws = self.draws[~np.isnan(self.draws)]
        if len(draws) == 0:
            return float("nan"), float("nan")
        low, high = np.quantile(draws, [0.025, 0.975])
        return float(low), float(high)

    def p_value(self) -> float:
        """Share of draws as far from the observed difference as no difference is, the observed one among them."""
        draws = self.draws[~np.isnan(self.draws)]
        if len(draws) == 0:
            return float("nan")
        as_far = np.abs(draws - self.observed) >= abs(self.observed)
        return float((1 + as_far.sum()) / (1 + len(draws)))


def paired_bootstrap(
    scored: ScoredQueries,
    method: str,
    against: str,
    *,
    stages: Mapping[str, Sequence[int]],
    weights: Floats,
) -> dict[tuple[str, str], Differences]:
    """By stage and metric: the mean over the stage's sizes, as `staged_results` takes it, of the paired differences.

    A draw is a row of `weights` [B, U]: how often each user of the scored rows, in their order, comes up.
    """
    users = np.cumsum(scored.positions == 0) - 1
    weights = np.concatenate([np.ones((1, users[-1] + 1)), weights])  # the users as they are come first
    by_size: dict[int, Floats] = {}  # [metric, 1 + B]
    for k in sorted({k for members in stages.values() for k in members}):
        rows = np.flatnonzero(scored.positions >= k)
        ours, theirs = (
            _resampled(scored.labels[rows], scored.logits_at(model, scored.sizes.index(k), rows), users[rows], weights)
            for model in (method, against)
        )
        by_size[k] = ours - theirs
    found = {}
    for stage, members in stages.items():
        for metric, values in zip(METRICS, _mean_of_present([by_size[k] for k in members]), strict=True):
            found[stage, metric] = Differences(float(values[0]), values[1:])
    return found


def drawn_users(users: int, replicates: int, rng: np.random.Generator) -> Floats:
    """How often each user comes up in each draw of as many users with replacement, [B, U]."""
    return rng.multinomial(users, np.full(users, 1 / users), size=replicates).astype(np.float64)


def resampled_auc(labels: Vector, scores: Vector, users: Integers, weights: Floats) -> Floats:
    """AUC of all rows together, once per row of `weights` [B, U], where user u's rows count `weights[:, u]` times.

    The scores are sorted once; a draw is then one running sum of weights. nan where a draw has one class only.
    """
    order = np.argsort(scores, kind="stable")
    clicked, others = order[labels[order] > 0], order[labels[order] <= 0]
    lower, upper = _places(scores[clicked], scores[others])
    of_clicked, of_others = users[clicked], users[others]
    below = np.zeros(len(others) + 1)  # weight of the first j others
    found = np.full(len(weights), np.nan)
    for draw, weight in enumerate(weights):
        np.cumsum(weight[of_others], out=below[1:])
        counts = weight[of_clicked]
        pairs = counts.sum() * below[-1]
        if pairs:
            found[draw] = counts @ (below[lower] + below[upper]) / (2 * pairs)
    return found


def resampled_gauc(labels: Vector, scores: Vector, users: Integers, weights: Floats) -> Floats:
    """Mean of the users' own AUCs, weighted by rows times `weights` [B, U]; users with one class are left out."""
    ranks = np.unique(scores, return_inverse=True)[1]
    places = users * len(ranks) + ranks  # user by user, then by score
    is_click = labels > 0
    others = np.sort(places[~is_click])
    lower, upper = _places(places[is_click], others)
    of_users_before = np.searchsorted(others, users[is_click] * len(ranks))
    everyone = weights.shape[1]
    wins = np.bincount(users[is_click], (lower + upper) / 2 - of_users_before, everyone)
    clicks = np.bincount(users[is_click], minlength=everyone)
    rows = np.bincount(users, minlength=everyone)
    pairs = clicks * (rows - clicks)
    counted = pairs > 0
    weighted_rows = weights[:, counted] * rows[counted]
    total = weighted_rows.sum(axis=1)
    return _ratio(weighted_rows @ (wins[counted] / pairs[counted]), total)


def _resampled(labels: Vector, scores: Vector, users: Integers, weights: Floats) -> Floats:
    return np.stack([measure(labels, scores, users, weights) for measure in (resampled_auc, resampled_gauc)])


def _places(clicked: Vector, others: Vector) -> tuple[Integers, Integers]:
    """How many of the sorted others each clicked row beats, without its ties and with them: a tie is half right."""
    return np.searchsorted(others, clicked, side="left"), np.searchsorted(others, clicked, side="right")


def _mean_of_present(values: Sequence[Floats]) -> Floats:
    """Mean over the arrays, entry by entry, of what is a number; nan where nothing is."""
    stacked = np.stack(values)
    present = ~np.isnan(stacked)
    return _ratio(np.where(present, stacked, 0).sum(axis=0), present.sum(axis=0))


def _ratio(parts: Floats, wholes: Vector) -> Floats:
    """nan where the whole is 0."""
    found = np.full(parts.shape, np.nan)
    np.divide(parts, wholes, out=found, where=wholes > 0)
    return found
