"""Which queries are asked at each support size, and every metric on them, by size and by stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from resus.arrays import Floats, Integers
from resus.errors import DataError
from resus.evaluation.metrics import METRICS, RELATIVE, Aucs, users_with_both_labels
from resus.evaluation.results import FixedPopulation, ModelResults, SizeMetrics, StageMetrics

Values = dict[str, float]  # by metric


@dataclass(frozen=True, eq=False)
class ScoredQueries:
    """Every row of the evaluated users, user by user, with each model's logit at each support size.

    Row n is a query at size k if `positions[n] >= k`. Its support is rows 0..k-1 of the user, so no support row is a
    query. Metrics never read the logit of a row that is support at that size.
    """

    labels: Floats  # [N] in {0, 1}
    users: Integers  # [N], the rows of a user are adjacent
    positions: Integers  # [N] place of the row among the user's rows, from 0
    sizes: tuple[int, ...]
    logits: dict[str, Floats]  # [N, len(sizes)], or [N, 1] for a model that ignores the support

    def __post_init__(self) -> None:
        rows = len(self.labels)
        assert self.users.shape == self.positions.shape == (rows,)
        assert list(self.sizes) == sorted(set(self.sizes)), "sizes ascend"
        starts = np.concatenate([[True], self.users[1:] != self.users[:-1]])[:rows]
        assert len(np.unique(self.users)) == starts.sum(), "the rows of a user are adjacent"
        first_rows = np.flatnonzero(starts)
        expected = np.arange(rows) - np.repeat(first_rows, np.diff(first_rows, append=rows))
        assert np.array_equal(self.positions, expected), "positions count the rows of a user from 0, in order"
        for name, logits in self.logits.items():
            assert logits.shape in {(rows, 1), (rows, len(self.sizes))}, f"{name}: one logit per row and size"

    def logits_at(self, model: str, size: int, rows: Integers) -> Floats:
        """The model's logits of `rows`; `size` is an index into `sizes`."""
        logits = self.logits[model]
        values: Floats = logits[rows, size % logits.shape[1]]
        finite = np.isfinite(values)
        if not finite.all():
            raise DataError(
                f"{model} gives row {int(rows[~finite][0])} the logit {values[~finite][0]} at support size "
                f"{self.sizes[size]}: every logit must be finite; check the model's inputs and training"
            )
        return values


@dataclass(frozen=True)
class Yardsticks:
    """The models that others are compared with: the base, and in a planted world the two bounds of the truth."""

    base: str
    oracle: str | None = None
    crowd: str | None = None

    def compare(self, measured: Mapping[str, Values]) -> dict[str, Values]:
        """Every relative measure of every model."""
        aucs = {model: values["auc"] for model, values in measured.items()}
        base, crowd, oracle = (
            float("nan") if name is None else aucs[name] for name in (self.base, self.crowd, self.oracle)
        )
        return {
            model: {name: measure.function(Aucs(own, base, crowd, oracle)) for name, measure in RELATIVE.items()}
            for model, own in aucs.items()
        }


def staged_results(
    scored: ScoredQueries,
    *,
    stages: Mapping[str, Sequence[int]],
    base: str,
    oracle: str | None = None,
    crowd: str | None = None,
) -> dict[str, ModelResults]:
    """Every model on exactly the same queries, at every size and in every stage.

    A user with k rows or fewer has no query at size k, so the population shrinks with k. Each model is therefore also
    measured on a fixed population: users with more than k_max rows, with their rows from k_max on as the queries.
    """
    yardsticks = Yardsticks(base, oracle, crowd)
    sizes = _by_size(scored, [np.flatnonzero(scored.positions >= k) for k in scored.sizes], yardsticks)
    summary = _by_stage(sizes, stages, yardsticks)
    fixed_sizes = fixed_population(scored, yardsticks)
    fixed_summary = _by_stage(fixed_sizes, stages, yardsticks)
    found = {}
    for model in scored.logits:
        last = fixed_sizes[model][scored.sizes[-1]]
        fixed = FixedPopulation(
            users=last.users, queries=last.queries, stages=fixed_summary[model], sizes=fixed_sizes[model]
        )
        found[model] = ModelResults(
            stages=summary[model], sizes=sizes[model], fixed_population=fixed if last.queries else None
        )
    return found


def fixed_population(scored: ScoredQueries, yardsticks: Yardsticks) -> dict[str, dict[int, SizeMetrics]]:
    """Per model and size, with the same queries throughout: rows from k_max on, of users with more than k_max rows."""
    late = np.flatnonzero(scored.positions >= scored.sizes[-1])
    return _by_size(scored, [late] * len(scored.sizes), yardsticks)


def _by_size(
    scored: ScoredQueries, queries: Sequence[Integers], yardsticks: Yardsticks
) -> dict[str, dict[int, SizeMetrics]]:
    """Per model and size; `queries` holds the rows to score at each size."""
    found: dict[str, dict[int, SizeMetrics]] = {model: {} for model in scored.logits}
    measured: dict[str, Values] = {}
    for size, (k, rows) in enumerate(zip(scored.sizes, queries, strict=True)):
        labels, users = scored.labels[rows], scored.users[rows]
        counts = {
            "users": len(np.unique(users)),
            "queries": len(rows),
            "gauc_users": users_with_both_labels(labels, users),
        }
        for model, logits in scored.logits.items():
            if size and rows is queries[size - 1] and logits.shape[1] == 1:
                continue  # the same queries and the same logits as at the size before
            own = scored.logits_at(model, size, rows)
            measured[model] = {name: metric.function(labels, own, users) for name, metric in METRICS.items()}
        compared = yardsticks.compare(measured)
        for model, values in measured.items():
            found[model][k] = SizeMetrics.model_validate({**values, **compared[model], **counts})
    return found


def _by_stage(
    sizes: Mapping[str, Mapping[int, SizeMetrics]], stages: Mapping[str, Sequence[int]], yardsticks: Yardsticks
) -> dict[str, dict[str, StageMetrics]]:
    found: dict[str, dict[str, StageMetrics]] = {model: {} for model in sizes}
    for stage, members in stages.items():
        means: dict[str, Values] = {}
        for model, at_sizes in sizes.items():
            asked = [at_sizes[k].metrics for k in members if at_sizes[k].queries]
            means[model] = {metric: _mean([values[metric] for values in asked]) for metric in METRICS}
        compared = yardsticks.compare(means)
        for model, values in means.items():
            counted = [k for k in members if sizes[model][k].queries]
            found[model][stage] = StageMetrics.model_validate({**values, **compared[model], "sizes": counted})
    return found


def _mean(values: Sequence[float | None]) -> float:
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else float("nan")
