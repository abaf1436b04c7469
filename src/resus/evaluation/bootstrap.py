"""How sure a difference between two models is: users drawn anew with replacement, both models on the same draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from resus.evaluation.metrics import pairs_by_user, row_losses
from resus.evaluation.staged import ScoredQueries
from resus.progress import Progress, silent

Vector = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Counts = npt.NDArray[np.uint16]
StageDraws = dict[tuple[str, str], Floats]  # by stage and metric, [1 + B]: on the users as they are, then on each draw


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
    weights: Counts,
    metrics: Sequence[str],
) -> dict[tuple[str, str], Differences]:
    """By stage and metric, one model against another on the same draws; the arguments are those of `stage_draws`."""
    of_models = stage_draws(scored, [method, against], stages=stages, weights=weights, metrics=metrics)
    return differences(of_models[method], of_models[against])


def stage_draws(
    scored: ScoredQueries,
    models: Sequence[str],
    *,
    stages: Mapping[str, Sequence[int]],
    weights: Counts,
    metrics: Sequence[str],
    progress: Progress = silent,
    task: str = "drawing users",
) -> dict[str, StageDraws]:
    """Per model, by stage and metric: the mean over the stage's sizes, as `staged_results` takes it, on every draw.

    A draw is a row of `weights` [B, U]: how often each user of the scored rows, in their order, comes up.
    """
    users = np.cumsum(scored.positions == 0) - 1
    as_they_are = np.ones((1, users[-1] + 1), dtype=weights.dtype)
    weights = np.concatenate([as_they_are, weights])
    sizes = sorted({k for members in stages.values() for k in members})
    by_size: dict[tuple[str, int], Floats] = {}  # [metric, 1 + B]
    progress(task, 0, len(sizes) * len(models))
    for k in sizes:
        rows = np.flatnonzero(scored.positions >= k)
        labels, own = scored.labels[rows], users[rows]
        for model in models:
            logits = scored.logits_at(model, scored.sizes.index(k), rows)
            by_size[model, k] = np.stack([_RESAMPLED[metric](labels, logits, own, weights) for metric in metrics])
            progress(task, len(by_size), len(sizes) * len(models))
    found: dict[str, StageDraws] = {model: {} for model in models}
    for model in models:
        for stage, members in stages.items():
            means = _mean_of_present([by_size[model, k] for k in members])
            found[model] |= {(stage, metric): values for metric, values in zip(metrics, means, strict=True)}
    return found


def differences(ours: StageDraws, theirs: StageDraws) -> dict[tuple[str, str], Differences]:
    """Draw by draw."""
    subtracted = {key: values - theirs[key] for key, values in ours.items()}
    return {key: Differences(float(values[0]), values[1:]) for key, values in subtracted.items()}


def drawn_users(users: int, replicates: int, rng: np.random.Generator) -> Counts:
    """How often each user comes up in each draw of as many users with replacement, [B, U]."""
    drawn = np.empty((replicates, users), dtype=np.uint16)
    for draw in drawn:
        draw[:] = rng.multinomial(users, np.full(users, 1 / users))
    return drawn


def resampled_auc(labels: Vector, scores: Vector, users: Integers, weights: Counts) -> Floats:
    """AUC of all rows together, once per row of `weights` [B, U], where user u's rows count `weights[:, u]` times.

    The scores are sorted once; a draw is then one running sum of weights. nan where a draw has one class only.
    """
    order = np.argsort(scores)
    is_click = labels[order] > 0
    clicked, others = order[is_click], order[~is_click]
    lower, upper = _places(scores[clicked], scores[others])
    tied = np.flatnonzero(lower < upper)
    of_clicked, of_others = users[clicked], users[others]
    running = np.zeros(len(others) + 1, dtype=np.int64)  # a running sum of whole numbers is the faster one, and exact
    found = np.full(len(weights), np.nan)
    for draw, weight in enumerate(weights):
        np.cumsum(weight.take(of_others), dtype=np.int64, out=running[1:])
        below = running.astype(np.float64)  # weight of the first j others
        counts = weight.take(of_clicked).astype(np.float64)
        pairs = counts.sum() * below[-1]
        if pairs:
            half_right = counts[tied] @ (below[upper[tied]] - below[lower[tied]])
            found[draw] = (counts @ below.take(lower) + half_right / 2) / pairs
    return found


def resampled_gauc(labels: Vector, scores: Vector, users: Integers, weights: Counts) -> Floats:
    """Mean of the users' own AUCs, weighted by rows times `weights` [B, U]; users with one class are left out.

    A user's rows stand together.
    """
    totals, rows = np.zeros((2, weights.shape[1]))
    if len(labels):
        wins, clicks, others = pairs_by_user(labels, scores, users)
        counted = (clicks > 0) & (others > 0)
        own = users[np.flatnonzero(np.diff(users, prepend=-1))][counted]
        rows[own] = (clicks + others)[counted]
        totals[own] = rows[own] * wins[counted] / (clicks * others)[counted]
    return _mean_by_draw(totals, rows, weights)


def resampled_logloss(labels: Vector, logits: Vector, users: Integers, weights: Counts) -> Floats:
    """Mean loss of the rows, where user u's rows count `weights[:, u]` times; a draw without a row has none."""
    everyone = weights.shape[1]
    totals = np.bincount(users, row_losses(labels, logits), everyone)
    return _mean_by_draw(totals, np.bincount(users, minlength=everyone), weights)


_RESAMPLED = {"auc": resampled_auc, "gauc": resampled_gauc, "logloss": resampled_logloss}


def _mean_by_draw(totals: Vector, rows: Vector, weights: Counts) -> Floats:
    """The drawn users' totals over their rows, once per row of `weights` [B, U]; nan where nobody has a row."""
    both = np.stack([totals, rows], axis=1)
    sums = np.array([weight @ both for weight in weights])  # draw by draw: as floats the weights would fill the memory
    return _ratio(sums[:, 0], sums[:, 1])


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
