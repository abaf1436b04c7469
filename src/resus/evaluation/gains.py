"""What each model gains over the base in each stage, and how sure that is: a paired bootstrap over users."""

from collections.abc import Mapping, Sequence

import numpy as np

from resus.errors import ConfigError
from resus.evaluation.bootstrap import Differences, differences, drawn_users, stage_draws
from resus.evaluation.results import Gain, Gains, ModelResults, StageGains
from resus.evaluation.staged import ScoredQueries
from resus.progress import Progress, silent
from resus.randomness import Purpose, generator

DRAWS = 200
MOST_DRAWS = 100_000  # more make an interval no better, and take memory for every user
FEWEST_DRAWS = 40  # of fewer, not even one lies in the outer 2.5 % of each side
FEWEST_USERS = 10  # fewer say too little of other users, however often they are drawn

_METRICS = ("auc", "gauc", "logloss")


def check_draws(draws: int) -> None:
    if draws != 0 and draws < FEWEST_DRAWS:
        raise ConfigError(
            f"{draws} draws are too few for a 95 % interval: take at least {FEWEST_DRAWS}, or 0 to leave out gains and "
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
    """Every other model minus the base on the same draws of users; `measured` is what `staged_results` found."""
    weights = drawn_users(int((scored.positions == 0).sum()), draws, generator(Purpose.BOOTSTRAP, seed))
    drawn = stage_draws(
        scored,
        list(scored.logits),
        stages=stages,
        weights=weights,
        metrics=_METRICS,
        progress=progress,
        task=f"gains over {base}: {draws} draws of users",
    )
    found: dict[str, dict[str, StageGains]] = {}
    for model in scored.logits:
        if model != base:
            compared = differences(drawn[model], drawn[base])
            found[model] = {
                stage: StageGains(
                    **{
                        metric: _gain(compared[stage, metric], _fewest_users(measured[base], stage, metric))
                        for metric in _METRICS
                    }
                )
                for stage in stages
            }
    return Gains(draws=draws, models=found)


def _gain(compared: Differences, users: int) -> Gain:
    present = int((~np.isnan(compared.draws)).sum())
    tells = present >= FEWEST_DRAWS and users >= FEWEST_USERS
    low, high = compared.interval() if tells else (None, None)
    return Gain(difference=compared.observed, low=low, high=high, draws=present)


def _fewest_users(measured: ModelResults, stage: str, metric: str) -> int:
    """Users that the metric rests on at the stage's size that has the fewest."""
    of_sizes = [measured.sizes[k] for k in measured.stages[stage].sizes]
    return min((at_k.gauc_users if metric == "gauc" else at_k.users for at_k in of_sizes), default=0)
