"""How certain a gain is: users are drawn with replacement, and all models are measured on the same draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from resus.arrays import Doubles
from resus.errors import ConfigError
from resus.evaluation.metrics import METRICS, DrawCounts, Metric, Resampler
from resus.evaluation.population import ScoredQueries
from resus.evaluation.results import Gain, Gains, ModelResults, StageGains
from resus.progress import Progress, silent
from resus.randomness import Purpose, generator

DRAWS = 200
MOST_DRAWS = 100_000  # more do not improve an interval, and take memory for every user
FEWEST_DRAWS = 40  # with fewer, no draw lies in the outer 2.5 % of each side
FEWEST_USERS = 10  # fewer say too little about other users, however often they are drawn

StageDraws = dict[tuple[str, str], Doubles]  # by stage and metric, [1 + B]: all users once, then each draw


@dataclass(frozen=True, eq=False)
class Differences:
    """A model's metric minus another's: with all users once, and in each draw. nan if a draw lacks the metric."""

    observed: float
    draws: Doubles  # [B]

    @property
    def present(self) -> Doubles:
        return self.draws[~np.isnan(self.draws)]

    def interval(self) -> tuple[float, float]:
        """The middle 95 % of the draws."""
        if len(self.present) == 0:
            return float("nan"), float("nan")
        low, high = np.quantile(self.present, [0.025, 0.975])
        return float(low), float(high)

    def p_value(self) -> float:
        """Share of draws that are as far from the observed difference as 0 is, counting the observed one."""
        if len(self.present) == 0:
            return float("nan")
        as_far = np.abs(self.present - self.observed) >= abs(self.observed)
        return float((1 + as_far.sum()) / (1 + len(self.present)))


def check_draws(draws: int) -> None:
    if draws != 0 and draws < FEWEST_DRAWS:
        raise ConfigError(
            f"{draws} draws are too few for a 95 % interval: take at least {FEWEST_DRAWS}, or 0 to skip gains and "
            "coverage"
        )
    if draws > MOST_DRAWS:
        raise ConfigError(f"{draws:,} draws are more than an interval needs: take at most {MOST_DRAWS:,}")


def gains_over(
    base: str,
    scored: ScoredQueries,
    measured: Mapping[str, ModelResults],
    *,
    stages: Mapping[str, Sequence[int]],
    draws: int,
    seed: int,
    progress: Progress = silent,
) -> Gains:
    """Every other model minus the base, for every metric that can be resampled; `measured` is of `staged_results`."""
    metrics = [metric for metric in METRICS.values() if metric.resampler is not None]
    drawn = stage_draws(
        scored,
        list(scored.logits),
        stages=stages,
        weights=drawn_users(int((scored.positions == 0).sum()), draws, generator(Purpose.BOOTSTRAP, seed)),
        resamplers=resamplers_of([metric.name for metric in metrics]),
        progress=progress,
        task=f"gains over {base}: {draws} draws of users",
    )
    users = {(stage, metric): _fewest_users(measured[base], stage, metric) for stage in stages for metric in metrics}
    found: dict[str, dict[str, StageGains]] = {}
    for model in scored.logits:
        if model != base:
            compared = differences(drawn[model], drawn[base])
            found[model] = {
                stage: StageGains.model_validate(
                    {metric.name: _gain(compared[stage, metric.name], users[stage, metric]) for metric in metrics}
                )
                for stage in stages
            }
    return Gains(draws=draws, models=found)


def stage_draws(
    scored: ScoredQueries,
    models: Sequence[str],
    *,
    stages: Mapping[str, Sequence[int]],
    weights: DrawCounts,
    resamplers: Mapping[str, Resampler],
    progress: Progress = silent,
    task: str = "drawing users",
) -> dict[str, StageDraws]:
    """Per model, by stage and metric: the mean over the sizes of the stage, in every draw.

    A draw is a row of `weights` [B, U]: how often each user, in the order of the scored rows, comes up. `resamplers`
    are by metric, such as those of `resamplers_of`.
    """
    users = np.cumsum(scored.positions == 0) - 1
    all_once = np.ones((1, users[-1] + 1), dtype=weights.dtype)
    weights = np.concatenate([all_once, weights])
    sizes = sorted({k for members in stages.values() for k in members})
    by_size: dict[tuple[str, int], Doubles] = {}  # [metric, 1 + B]
    progress(task, 0, len(sizes) * len(models))
    for k in sizes:
        rows = np.flatnonzero(scored.positions >= k)
        labels, own = scored.labels[rows], users[rows]
        for model in models:
            logits = scored.logits_at(model, scored.sizes.index(k), rows)
            by_size[model, k] = np.stack([drawn(labels, logits, own, weights) for drawn in resamplers.values()])
            progress(task, len(by_size), len(sizes) * len(models))
    found: dict[str, StageDraws] = {model: {} for model in models}
    for model in models:
        for stage, members in stages.items():
            means = _mean_of_present([by_size[model, k] for k in members])
            found[model] |= {(stage, metric): values for metric, values in zip(resamplers, means, strict=True)}
    return found


def resamplers_of(metrics: Sequence[str]) -> dict[str, Resampler]:
    found = {metric: resampler for metric in metrics if (resampler := METRICS[metric].resampler) is not None}
    assert len(found) == len(metrics), "every metric can be resampled"
    return found


def differences(ours: StageDraws, theirs: StageDraws) -> dict[tuple[str, str], Differences]:
    subtracted = {key: values - theirs[key] for key, values in ours.items()}
    return {key: Differences(float(values[0]), values[1:]) for key, values in subtracted.items()}


def drawn_users(users: int, replicates: int, rng: np.random.Generator) -> DrawCounts:
    """[B, U]: how often each user comes up when as many users are drawn with replacement, for each of B draws."""
    drawn = np.empty((replicates, users), dtype=np.uint16)
    for draw in drawn:
        draw[:] = rng.multinomial(users, np.full(users, 1 / users))
    return drawn


def _gain(compared: Differences, users: int) -> Gain:
    present = len(compared.present)
    enough = present >= FEWEST_DRAWS and users >= FEWEST_USERS
    low, high = compared.interval() if enough else (None, None)
    return Gain(difference=compared.observed, low=low, high=high, draws=present)


def _fewest_users(measured: ModelResults, stage: str, metric: Metric) -> int:
    """How many users the metric counts at the size of the stage that has the fewest."""
    at_sizes = [measured.sizes[k] for k in measured.stages[stage].sizes]
    return min((at_k.gauc_users if metric.within_users else at_k.users for at_k in at_sizes), default=0)


def _mean_of_present(values: Sequence[Doubles]) -> Doubles:
    """Mean over the arrays, entry by entry, without nan; nan if all entries are nan."""
    stacked = np.stack(values)
    present = ~np.isnan(stacked)
    found = np.full(stacked.shape[1:], np.nan)
    np.divide(np.where(present, stacked, 0).sum(axis=0), present.sum(axis=0), out=found, where=present.any(axis=0))
    return found
