"""What a rule would have earned on decisions that another rule made and logged with its propensities.

    IPS                     mean of w·r,  w = π(a | x) / propensity
    self-normalised IPS     Σ w·r / Σ w
    doubly robust           mean of Σ_a π(a | x)·q(x, a) + w·(r − q(x, a logged))

π is the rule's probability of the logged choice, r the reward, q a model's guess of the reward. IPS and doubly robust
are unbiased if the propensities are right, whatever q is. Intervals are of draws of users with replacement.
"""

from dataclasses import dataclass

import numpy as np

from resus.arrays import Doubles, Integers
from resus.evaluation.intervals import drawn_users
from resus.randomness import Purpose, generator

FEWEST = 30  # effective decisions; an estimate of fewer says nothing


@dataclass(frozen=True, eq=False)
class RuleOnLog:
    """What a rule would do at each of N logged decisions."""

    chance: Doubles  # [N], π of the logged choice
    value: Doubles  # [N], Σ_a π(a | x)·q(x, a)


@dataclass(frozen=True, eq=False)
class LoggedDecisions:
    """N decisions of U users; `guess` is q of the logged choice."""

    users: Integers  # [N], 0 to U − 1
    propensity: Doubles
    reward: Doubles
    guess: Doubles


@dataclass(frozen=True)
class Estimate:
    """With the middle 95 % of the draws of users."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimates:
    """Of the mean reward of one rule. `effective` is (Σw)² / Σw², the decisions that the weights are worth."""

    ips: Estimate
    self_normalised: Estimate
    doubly_robust: Estimate
    effective: float

    @property
    def enough(self) -> bool:
        return self.effective >= FEWEST


def estimates_of(rule: RuleOnLog, logged: LoggedDecisions, *, draws: int, seed: int) -> Estimates:
    weights = rule.chance / logged.propensity
    robust = rule.value + weights * (logged.reward - logged.guess)
    count = int(logged.users.max()) + 1
    earned, weighed, corrected, decisions = (
        np.bincount(logged.users, values, count)
        for values in (weights * logged.reward, weights, robust, np.ones(len(weights)))
    )
    draw = drawn_users(count, draws, generator(Purpose.BOOTSTRAP, seed)).astype(np.float64)
    times = np.concatenate([np.ones((1, count)), draw])
    square = float((weights**2).sum())
    return Estimates(
        ips=_ratio(times @ earned, times @ decisions),
        self_normalised=_ratio(times @ earned, times @ weighed),
        doubly_robust=_ratio(times @ corrected, times @ decisions),
        effective=float(weights.sum()) ** 2 / square if square else 0.0,
    )


def _ratio(sums: Doubles, counts: Doubles) -> Estimate:
    """The first entry is that of all users once, the others are draws."""
    found = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return Estimate(float(found[0]), float(low), float(high))
