"""Every metric is one record in `METRICS`. Evaluation, gains, tables, figures and pages follow the records.

A metric that does not exist (only one class, or no row) is nan, never 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from resus.arrays import Array, Booleans, Doubles, Integers
from resus.errors import DataError

DrawCounts = npt.NDArray[np.uint16]  # how often each user comes up in each draw, [B, U]
MetricFunction = Callable[[Array, Array, Array], float]  # of labels, logits and users
Resampler = Callable[[Array, Array, Integers, DrawCounts], Doubles]  # of labels, logits, users and counts: [B]


class Aucs(NamedTuple):
    """The AUC of a model and of the models it is compared with; nan for one that was not measured."""

    own: float
    base: float
    crowd: float
    oracle: float


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number about a model: its key in results, how readers see it, and which way is better.

    `heading` is the title in short lines, for a narrow column. `needs_truth`: it exists in a planted world only.
    """

    name: str
    title: str
    meaning: str
    higher_is_better: bool = True
    form: str = "{:.4f}"
    heading: str = ""
    needs_truth: bool = False

    @property
    def direction(self) -> str:
        return f"{'higher' if self.higher_is_better else 'lower'} is better"

    def show(self, value: float | None) -> str:
        return "–" if value is None else self.form.format(value)

    def best(self, values: Mapping[str, float | None], rivals: Sequence[str]) -> set[str]:
        """The rivals with the best shown value; none if there are fewer than two values to compare."""
        present = {name: value for name in rivals if (value := values[name]) is not None}
        if len(present) < 2:
            return set()
        top = self.show(max(present.values()) if self.higher_is_better else min(present.values()))
        return {name for name, value in present.items() if self.show(value) == top}


@dataclass(frozen=True, kw_only=True)
class Metric(Measure):
    """A measure of one model on a set of queries.

    `function` takes labels, logits and users; the rows of a user are adjacent. `resampler` computes the same on many
    draws of users; a metric without one has no gains. `within_users` says that only users with both labels count.
    """

    function: MetricFunction
    resampler: Resampler | None = None
    within_users: bool = False


@dataclass(frozen=True, kw_only=True)
class RelativeMeasure(Measure):
    """A measure of a model compared with others, computed from their AUCs. For a stage these are the mean AUCs."""

    function: Callable[[Aucs], float]


def auc(labels: Array, scores: Array) -> float:
    """Share of (clicked, not clicked) pairs that the scores rank right, in float32. A tie counts half."""
    if len(labels) == 0:
        return float("nan")
    wins, clicks, others = _pairs(labels, scores, np.zeros(len(labels), dtype=np.int64))
    pairs = clicks[0] * others[0]
    return float(wins[0] / pairs) if pairs else float("nan")


def resampled_auc(labels: Array, scores: Array, users: Integers, weights: DrawCounts) -> Doubles:
    """AUC of all rows, once per row of `weights` [B, U]; the rows of user u count `weights[:, u]` times.

    Scores are sorted once, so a draw is one running sum of weights. nan if a draw has only one class.
    """
    order = np.argsort(scores)
    is_click = labels[order] > 0
    clicked, others = order[is_click], order[~is_click]
    lower, upper = (np.searchsorted(scores[others], scores[clicked], side=side) for side in ("left", "right"))
    tied = np.flatnonzero(lower < upper)
    of_clicked, of_others = users[clicked], users[others]
    running = np.zeros(len(others) + 1, dtype=np.int64)  # sums of integers are exact, and faster than of floats
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


def gauc(labels: Array, scores: Array, users: Array) -> float:
    """Mean AUC of the users who have both labels, weighted by their rows (Zhou et al. 2018, DIN)."""
    if len(labels) == 0:
        return float("nan")
    wins, clicks, others = _pairs_by_user(labels, scores, users)
    counted = (clicks > 0) & (others > 0)
    if not counted.any():
        return float("nan")
    rows = (clicks + others)[counted]
    return float(wins[counted] / (clicks * others)[counted] @ rows / rows.sum())


def resampled_gauc(labels: Array, scores: Array, users: Integers, weights: DrawCounts) -> Doubles:
    """Mean AUC of the users who have both labels, weighted by their rows times `weights` [B, U]."""
    totals, rows = np.zeros((2, weights.shape[1]))
    if len(labels):
        wins, clicks, others = _pairs_by_user(labels, scores, users)
        counted = (clicks > 0) & (others > 0)
        own = users[_changes(users)][counted]
        rows[own] = (clicks + others)[counted]
        totals[own] = rows[own] * wins[counted] / (clicks * others)[counted]
    return _mean_by_draw(totals, rows, weights)


def logloss(labels: Array, logits: Array) -> float:
    """Mean negative log-likelihood. It takes logits, so that a confident prediction does not overflow."""
    return float(_row_losses(labels, logits).mean(dtype=np.float64)) if len(labels) else float("nan")


def resampled_logloss(labels: Array, logits: Array, users: Integers, weights: DrawCounts) -> Doubles:
    """Mean loss of the rows; the rows of user u count `weights[:, u]` times. nan if a draw has no row."""
    everyone = weights.shape[1]
    totals = np.bincount(users, _row_losses(labels, logits), everyone)
    return _mean_by_draw(totals, np.bincount(users, minlength=everyone), weights)


def calibration_error(labels: Array, probabilities: Array, bins: int = 20) -> float:
    """Expected calibration error over bins of equal mass. Equal probabilities share a bin, in any order of rows."""
    n = len(labels)
    if n == 0:
        return float("nan")
    edges = np.unique(np.sort(probabilities)[np.arange(1, bins) * n // bins])
    bin_of = np.searchsorted(edges, probabilities, side="right")
    surplus = np.bincount(bin_of, weights=probabilities.astype(np.float64) - labels)
    return float(np.abs(surplus).sum() / n)


def rela_impr(auc: float, base_auc: float) -> float:
    """Improvement of the AUC above 0.5, in percent of the base's (Yan et al. 2014); nan if the base has none."""
    return ((auc - 0.5) / (base_auc - 0.5) - 1) * 100 if base_auc > 0.5 else float("nan")


def gap_closed(aucs: Aucs) -> float:
    """The share of the way from the AUC of the crowd to that of the oracle; nan if these are equal."""
    gap = aucs.oracle - aucs.crowd
    return (aucs.own - aucs.crowd) / gap if gap else float("nan")


def users_with_both_labels(labels: Array, users: Array) -> int:
    """How many users a metric within users counts. The rows of a user are adjacent."""
    if len(labels) == 0:
        return 0
    first = np.flatnonzero(_changes(users))
    clicks = np.add.reduceat(labels > 0, first, dtype=np.int64)
    return int(((clicks > 0) & (clicks < np.diff(first, append=len(users)))).sum())


AUC = Metric(
    name="auc",
    title="AUC",
    meaning="how often a click ranks above a non-click, all users in one list",
    function=lambda labels, logits, _: auc(labels, logits),
    resampler=resampled_auc,
)
GAUC = Metric(
    name="gauc",
    title="GAUC",
    meaning="how often a click ranks above a non-click, within each user",
    function=gauc,
    resampler=resampled_gauc,
    within_users=True,
)
LOGLOSS = Metric(
    name="logloss",
    title="Logloss",
    heading="Log-\nloss",
    meaning="how much the clicks surprise the model",
    function=lambda labels, logits, _: logloss(labels, logits),
    resampler=resampled_logloss,
    higher_is_better=False,
)
CALIBRATION = Metric(
    name="calibration_error",
    title="Calibration error",
    heading="calib.\nerror",
    meaning="distance from predicted to observed click rate, over 20 bins",
    function=lambda labels, logits, _: calibration_error(labels, _probabilities(logits)),
    higher_is_better=False,
)
RELA_IMPR = RelativeMeasure(
    name="rela_impr",
    title="RelaImpr",
    heading="Rela-\nImpr",
    meaning="((AUC − 0.5) / (AUC of the base − 0.5) − 1) · 100 %",
    form="{:+.1f}%",
    function=lambda aucs: rela_impr(aucs.own, aucs.base),
)
GAP_CLOSED = RelativeMeasure(
    name="gap_closed",
    title="Gap closed",
    heading="gap\nclosed",
    meaning="share of the way from the AUC of the crowd to that of the oracle",
    form="{:.0%}",
    function=gap_closed,
    needs_truth=True,
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in (AUC, GAUC, LOGLOSS, CALIBRATION)}
RELATIVE: dict[str, RelativeMeasure] = {measure.name: measure for measure in (RELA_IMPR, GAP_CLOSED)}


def _probabilities(logits: Array) -> Array:
    with np.errstate(over="ignore"):  # exp(-logit) may be inf, which rightly gives the probability 0
        probabilities: Array = 1 / (1 + np.exp(-logits))
    return probabilities


def _row_losses(labels: Array, logits: Array) -> Array:
    losses: Array = np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))
    return losses


def _mean_by_draw(totals: Array, rows: Array, weights: DrawCounts) -> Doubles:
    """The totals of the drawn users over their rows, once per row of `weights` [B, U]; nan if no user has a row."""
    both = np.stack([totals, rows], axis=1)
    sums = np.array([weight @ both for weight in weights])  # draw by draw: all weights as floats would fill the memory
    found = np.full(len(weights), np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=found, where=sums[:, 1] > 0)
    return found


def _pairs_by_user(labels: Array, scores: Array, users: Array) -> tuple[Doubles, Doubles, Doubles]:
    """Per user, in the order of the rows: pairs ranked right, clicked rows, other rows."""
    return _pairs(labels, scores, np.cumsum(_changes(users)) - 1)


def _pairs(labels: Array, scores: Array, groups: Integers) -> tuple[Doubles, Doubles, Doubles]:
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


def _ordered_bits(scores: Array) -> npt.NDArray[np.uint64]:
    """Float32 scores as integers of the same order, shifted left by one; a negative number's bits run backwards."""
    floats = scores.astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0
    if np.isnan(floats).any():
        raise DataError(f"the score of row {int(np.isnan(floats).argmax())} is not a number: it has no rank")
    bits = floats.view(np.uint32)
    ordered = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    return ordered.astype(np.uint64) << np.uint64(1)


def _changes(values: Array) -> Booleans:
    """True at the first row, and wherever the value differs from the row before."""
    return np.concatenate([[True], values[1:] != values[:-1]])
