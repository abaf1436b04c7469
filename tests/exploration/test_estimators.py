"""Estimates from logged choices against worlds whose true value is known."""

import numpy as np
import pytest

from resus.arrays import Doubles
from resus.exploration.estimators import Estimate, Estimates, LoggedDecisions, RuleOnLog, estimates_of

USERS, EACH, CANDIDATES = 300, 20, 4


def logged_world(seed: int, *, guess: str = "good") -> tuple[RuleOnLog, LoggedDecisions, float]:
    """Choices of a known random policy, another policy on them, and the true mean reward of that one."""
    random = np.random.default_rng(seed)
    decisions = USERS * EACH
    owners = np.repeat(np.arange(USERS), EACH)
    generous = random.normal(size=USERS)[owners, None]
    chances = 1 / (1 + np.exp(-(generous + random.normal(size=(decisions, CANDIDATES)))))
    logging, wanted = random.dirichlet(np.ones(CANDIDATES), decisions), 0.9 * np.eye(CANDIDATES)[chances.argmax(axis=1)]
    wanted += 0.1 / CANDIDATES
    logging = 0.1 / CANDIDATES + 0.9 * logging
    chosen = (random.random((decisions, 1)) > logging.cumsum(axis=1)).sum(axis=1).clip(max=CANDIDATES - 1)
    at = np.arange(decisions), chosen
    rewards = (random.random(decisions) < chances[at]).astype(np.float64)
    guesses = {"good": chances, "wrong": 1 - chances}[guess]
    rule = RuleOnLog(wanted[at], (wanted * guesses).sum(axis=1))
    logged = LoggedDecisions(owners, logging[at], rewards, guesses[at])
    return rule, logged, float((wanted * chances).sum(axis=1).mean())


def all_of(found: Estimates) -> dict[str, Estimate]:
    return {"ips": found.ips, "self-normalised": found.self_normalised, "doubly robust": found.doubly_robust}


@pytest.mark.parametrize("guess", ["good", "wrong"])
def test_intervals_hold_the_true_value_whatever_the_guess(guess: str) -> None:
    held, misses, worlds = dict.fromkeys(("ips", "self-normalised", "doubly robust"), 0), [], 40
    for seed in range(worlds):
        rule, logged, truth = logged_world(seed, guess=guess)
        for name, one in all_of(estimates_of(rule, logged, draws=200, seed=1)).items():
            held[name] += one.low <= truth <= one.high
        misses.append(logged.reward.mean() - truth)
    assert min(held.values()) >= 33, held  # 38 expected
    assert abs(float(np.mean(misses))) > 0.1, "the logged choices earn something else"


def test_the_estimates_are_the_written_out_sums() -> None:
    rule, logged, _ = logged_world(3)
    weights = [chance / propensity for chance, propensity in zip(rule.chance, logged.propensity, strict=True)]
    earned = sum(w * r for w, r in zip(weights, logged.reward, strict=True))
    corrected = [
        value + w * (r - q) for value, w, r, q in zip(rule.value, weights, logged.reward, logged.guess, strict=True)
    ]
    found = estimates_of(rule, logged, draws=40, seed=1)
    assert found.ips.value == pytest.approx(earned / len(weights))
    assert found.self_normalised.value == pytest.approx(earned / sum(weights))
    assert found.doubly_robust.value == pytest.approx(sum(corrected) / len(weights))
    assert found.effective == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))


def test_a_good_guess_narrows_the_doubly_robust_interval() -> None:
    rule, logged, _ = logged_world(4)
    found = estimates_of(rule, logged, draws=200, seed=1)
    assert width(found.doubly_robust) < 0.8 * width(found.ips)


def test_users_are_drawn_as_a_whole() -> None:
    """With one reward per user, twenty rows of a user say no more than one."""
    random = np.random.default_rng(5)
    rewards, ones = (random.random(USERS) < 0.5).astype(np.float64), np.ones(USERS)
    once = estimates_of(
        RuleOnLog(ones, ones), LoggedDecisions(np.arange(USERS), ones, rewards, ones), draws=400, seed=1
    )
    many = np.ones(USERS * EACH)
    own = LoggedDecisions(np.repeat(np.arange(USERS), EACH), many, rewards.repeat(EACH), many)
    often = estimates_of(RuleOnLog(many, many), own, draws=400, seed=1)
    assert width(often.ips) == pytest.approx(width(once.ips))


def test_a_rule_that_never_agrees_with_the_log_is_told_apart() -> None:
    rule, logged, _ = logged_world(6)
    never = estimates_of(RuleOnLog(np.zeros_like(rule.chance), rule.value), logged, draws=40, seed=1)
    assert (never.effective, never.enough) == (0.0, False)
    assert estimates_of(rule, logged, draws=40, seed=1).enough


def width(one: Estimate) -> float:
    return one.high - one.low


def test_propensities_from_draws_give_weights_that_are_right_on_average() -> None:
    """(1 + hits) / (1 + draws) with the shown draw among the hits: the mean of its inverse is 1 / p, but for rare p."""
    random, draws = np.random.default_rng(7), 100
    for chance in (0.5, 0.1, 0.03):
        hits: Doubles = random.binomial(draws, chance, size=200_000).astype(np.float64)
        inverse = (1 + draws) / (1 + hits)
        error = inverse.std() / np.sqrt(len(inverse))
        assert abs(inverse.mean() - (1 - (1 - chance) ** (draws + 1)) / chance) < 5 * error
