"""What `resus explore` writes: `results.json` of a simulation or of a replay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from resus.arrays import Array, Doubles
from resus.evaluation.intervals import drawn_users
from resus.evaluation.results import Record
from resus.exploration.estimators import FEWEST, Estimates
from resus.exploration.simulation import ORACLE, Course
from resus.files import write_json
from resus.randomness import Purpose, generator

GREEDY, EXPLORING = "greedy", ("thompson", "ucb")
WANTED = 1.3  # times as many liked items as greedy: exploring pays well


class Value(Record):
    """A mean over users, with the middle 95 % of draws of users. Without such, there is too little to say anything."""

    value: float
    low: float
    high: float


class RuleCourse(Record):
    """One rule, after 1, 2, 3 … events of each user."""

    liked: list[Value]  # items found that the user likes
    share: list[Value]  # of the items of the catalogue that the user likes
    regret: list[Value]  # cumulated: liked items that the oracle can expect beyond those of the rule


class Simulated(Record):
    """A simulation. `pace` is the number of liked items over that of greedy, after all events."""

    kind: Literal["simulation"] = "simulation"
    model: str
    world: dict[str, Any]
    users: int
    events: int
    width: float
    seed: int
    draws: int
    rules: dict[str, RuleCourse]
    pace: dict[str, Value]


class OnLog(Record):
    """The mean reward of a rule. `effective` is the number of decisions that its weights are worth."""

    ips: Value
    self_normalised: Value
    doubly_robust: Value
    effective: float
    enough: bool


class ReplayedLog(Record):
    """Estimates from a log. `logged` is the mean reward of the logged choices."""

    kind: Literal["replay"] = "replay"
    model: str
    table: str
    users: int
    decisions: int
    width: float
    seed: int
    draws: int
    logged: Value
    rules: dict[str, OnLog]


def simulated(course: Course, *, draws: int, seed: int, **facts: Any) -> Simulated:
    users, events = course.likes[ORACLE].shape
    draw = drawn_users(users, draws, generator(Purpose.BOOTSTRAP, seed)).astype(np.float64)
    times = np.concatenate([np.ones((1, users)), draw]) / users  # [1 + B, U]
    found = {rule: np.cumsum(likes, axis=1, dtype=np.float64) for rule, likes in course.likes.items()}
    rules = {
        rule: RuleCourse(
            liked=_values(times @ liked),
            share=_values((times @ liked) / (times @ course.likeable)[:, None]),
            regret=_values(times @ np.cumsum(course.regret[rule], axis=1)),
        )
        for rule, liked in found.items()
    }
    base = times @ found[GREEDY][:, -1:]
    pace = {
        rule: _values(np.divide(times @ liked[:, -1:], base, out=np.zeros_like(base), where=base > 0))[0]
        for rule, liked in found.items()
        if rule not in (GREEDY, ORACLE)
    }
    return Simulated(users=users, events=events, seed=seed, draws=draws, rules=rules, pace=pace, **facts)


def replayed(rules: Mapping[str, Estimates], logged: tuple[Array, Doubles], **facts: Any) -> ReplayedLog:
    """`logged` are the users of the decisions and the rewards."""
    owners, rewards = logged
    users, draws, seed = int(owners.max()) + 1, facts["draws"], facts["seed"]
    draw = drawn_users(users, draws, generator(Purpose.BOOTSTRAP, seed)).astype(np.float64)
    times = np.concatenate([np.ones((1, users)), draw])
    mean = (times @ np.bincount(owners, rewards, users)) / (times @ np.bincount(owners, minlength=users))
    told = {
        rule: OnLog(
            effective=found.effective,
            enough=found.enough,
            **{
                name: Value(value=one.value, low=one.low, high=one.high)
                for name, one in (
                    ("ips", found.ips),
                    ("self_normalised", found.self_normalised),
                    ("doubly_robust", found.doubly_robust),
                )
            },
        )
        for rule, found in rules.items()
    }
    return ReplayedLog(users=users, decisions=len(rewards), logged=_values(mean[:, None])[0], rules=told, **facts)


def write(found: Simulated | ReplayedLog, folder: Path) -> Path:
    path = folder / "results.json"
    write_json(path, found.model_dump())
    return path


def verdicts(found: Simulated) -> list[str]:
    """What exploring buys or costs, a sentence for each rule that explores."""
    said = []
    for rule in EXPLORING:
        pace = found.pace[rule]
        after = f"{rule} finds {pace.value:.2f} times as many liked items as greedy in {found.events} events"
        interval = f"({pace.low:.2f} … {pace.high:.2f})"
        if pace.low > 1:
            judged = "it pays" if pace.value >= WANTED else "it pays a little"
        else:
            judged = "it costs" if pace.high < 1 else "no clear difference"
        said.append(f"{after} {interval}: {judged}")
    return said


def too_small(found: ReplayedLog) -> list[str]:
    """Rules about which the log says too little."""
    few = [rule for rule, one in found.rules.items() if not one.enough]
    if not few:
        return []
    sizes = ", ".join(f"{rule} {found.rules[rule].effective:.1f}" for rule in few)
    return [
        f"too few decisions agree with {', '.join(few)} to say anything (effective: {sizes}; at least {FEWEST} are "
        "needed): log more decisions, or choices with fewer candidates"
    ]


def _values(drawn: Doubles) -> list[Value]:
    """`[1 + B, T]`: all users once, then the draws."""
    low, high = np.quantile(drawn[1:], [0.025, 0.975], axis=0)
    columns = zip(drawn[0].tolist(), low.tolist(), high.tolist(), strict=True)
    return [Value(value=value, low=least, high=most) for value, least, most in columns]
