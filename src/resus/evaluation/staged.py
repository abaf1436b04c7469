"""From scores to results: every metric at every support size, the stages, and the fixed population."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from resus.errors import ConfigError, DataError
from resus.evaluation.metrics import auc, calibration_error, gauc, logloss, rela_impr
from resus.evaluation.results import FixedPopulation, ModelResults, SizeMetrics, StageMetrics

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_AVERAGED = ("auc", "gauc", "logloss", "calibration_error")


@dataclass(frozen=True, eq=False)
class ScoredQueries:
    """Every row of the evaluated users, user by user, with each model's logit at each support size.

    Row n is a query at size k where `positions[n] >= k`; its support is its user's rows 0..k-1, so a support row is
    never a query. A logit of a row that is support at that size is not read.
    """

    labels: Floats  # [N] in {0, 1}
    users: Integers  # [N], each user's rows together
    positions: Integers  # [N] place of the row in its user's order, from 0
    sizes: tuple[int, ...]
    logits: dict[str, Floats]  # [N, len(sizes)], or [N, 1] where the support is ignored

    def __post_init__(self) -> None:
        rows = len(self.labels)
        assert self.users.shape == self.positions.shape == (rows,)
        assert list(self.sizes) == sorted(set(self.sizes)), "sizes ascend"
        starts = np.concatenate([[True], self.users[1:] != self.users[:-1]])[:rows]
        assert len(np.unique(self.users)) == starts.sum(), "each user's rows stand together"
        first_rows = np.flatnonzero(starts)
        expected = np.arange(rows) - np.repeat(first_rows, np.diff(first_rows, append=rows))
        assert np.array_equal(self.positions, expected), "positions count each user's rows from 0, in order"
        for name, logits in self.logits.items():
            assert logits.shape in {(rows, 1), (rows, len(self.sizes))}, f"{name}: one logit per row and size"

    def logits_at(self, model: str, size: int, rows: Integers) -> Floats:
        """The model's logits of `rows` at the `size`-th support size."""
        logits = self.logits[model]
        values: Floats = logits[rows, size % logits.shape[1]]
        finite = np.isfinite(values)
        if not finite.all():
            raise DataError(
                f"{model} gives row {int(rows[~finite][0])} the logit {values[~finite][0]} at support size "
                f"{self.sizes[size]}: every logit must be finite; look at the model's inputs and training"
            )
        return values


@dataclass(frozen=True)
class _Yardsticks:
    """The models that the others are held against."""

    base: str
    oracle: str | None
    crowd: str | None

    def compare(self, aucs: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """RelaImpr over the base and the share of the gap from crowd to oracle that each model closes."""
        gap = floor = float("nan")
        if self.oracle is not None and self.crowd is not None:
            floor = aucs[self.crowd]
            gap = (aucs[self.oracle] - floor) or float("nan")
        return {
            model: {"rela_impr": rela_impr(value, aucs[self.base]), "gap_closed": (value - floor) / gap}
            for model, value in aucs.items()
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

    The population shrinks with k, since a user with no more than k rows has no query. So each model is scored once
    more on a fixed population, users with more than k_max rows, whose rows from k_max on are the queries at every k.
    """
    _check_names(scored, stages, [base, oracle, crowd])
    yardsticks = _Yardsticks(base, oracle, crowd)
    sizes = _by_size(scored, [np.flatnonzero(scored.positions >= k) for k in scored.sizes], yardsticks)
    summary = _by_stage(sizes, stages, yardsticks)
    fixed_sizes = fixed_population(scored, base=base, oracle=oracle, crowd=crowd)
    fixed_summary = _by_stage(fixed_sizes, stages, yardsticks)
    return {
        model: ModelResults(
            stages=summary[model],
            sizes=sizes[model],
            fixed_population=FixedPopulation(
                users=fixed_sizes[model][scored.sizes[-1]].users,
                queries=fixed_sizes[model][scored.sizes[-1]].queries,
                stages=fixed_summary[model],
                sizes=fixed_sizes[model],
            )
            if fixed_sizes[model][scored.sizes[-1]].queries
            else None,
        )
        for model in scored.logits
    }


def fixed_population(
    scored: ScoredQueries, *, base: str, oracle: str | None = None, crowd: str | None = None
) -> dict[str, dict[int, SizeMetrics]]:
    """Per model and size, on the same queries throughout: rows from k_max on, of users that have more than k_max."""
    late = np.flatnonzero(scored.positions >= scored.sizes[-1])
    return _by_size(scored, [late] * len(scored.sizes), _Yardsticks(base, oracle, crowd))


def _by_size(
    scored: ScoredQueries, queries: Sequence[Integers], yardsticks: _Yardsticks
) -> dict[str, dict[int, SizeMetrics]]:
    """Per model and size; `queries` holds the rows to score at each size."""
    found: dict[str, dict[int, SizeMetrics]] = {model: {} for model in scored.logits}
    measured: dict[str, dict[str, float]] = {}
    for size, (k, rows) in enumerate(zip(scored.sizes, queries, strict=True)):
        labels, users = scored.labels[rows], scored.users[rows]
        population = {"users": len(np.unique(users)), "queries": len(rows)}
        for model, logits in scored.logits.items():
            if size and rows is queries[size - 1] and logits.shape[1] == 1:
                continue  # the same queries and the same logits as at the size before
            measured[model] = _measure(labels, users, scored.logits_at(model, size, rows))
        compared = yardsticks.compare({model: values["auc"] for model, values in measured.items()})
        for model, values in measured.items():
            found[model][k] = SizeMetrics.model_validate({**values, **compared[model], **population})
    return found


def _measure(labels: Floats, users: Integers, logits: Floats) -> dict[str, float]:
    within = gauc(labels, logits, users)
    with np.errstate(over="ignore"):  # exp(-logit) of a sure "no" is inf, and its probability rightly 0
        probabilities = 1 / (1 + np.exp(-logits))
    return {
        "auc": auc(labels, logits),
        "gauc": within.value,
        "gauc_users": within.users,
        "logloss": logloss(labels, logits),
        "calibration_error": calibration_error(labels, probabilities),
    }


def _by_stage(
    sizes: Mapping[str, Mapping[int, SizeMetrics]], stages: Mapping[str, Sequence[int]], yardsticks: _Yardsticks
) -> dict[str, dict[str, StageMetrics]]:
    found: dict[str, dict[str, StageMetrics]] = {model: {} for model in sizes}
    for stage, members in stages.items():
        means = {}
        for model, of_model in sizes.items():
            asked = [of_model[k] for k in members if of_model[k].queries]
            means[model] = {metric: _mean([getattr(at_k, metric) for at_k in asked]) for metric in _AVERAGED}
        compared = yardsticks.compare({model: values["auc"] for model, values in means.items()})
        for model, values in means.items():
            counted = [k for k in members if sizes[model][k].queries]
            found[model][stage] = StageMetrics.model_validate({**values, **compared[model], "sizes": counted})
    return found


def _mean(values: Sequence[float | None]) -> float:
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else float("nan")


def _check_names(scored: ScoredQueries, stages: Mapping[str, Sequence[int]], yardsticks: Sequence[str | None]) -> None:
    for model in yardsticks:
        if model is not None and model not in scored.logits:
            raise ConfigError(f"no model '{model}' was scored to compare with: choose from {', '.join(scored.logits)}")
    for stage, members in stages.items():
        missing = [str(k) for k in members if k not in scored.sizes]
        if missing:
            raise ConfigError(
                f"stage {stage} asks for support size {', '.join(missing)}, which was not scored: add it to the sizes"
            )
