"""How an answer is to explore: the rule, and its settings."""

import secrets
from dataclasses import dataclass, replace
from typing import Literal, get_args

from resus.errors import DataError
from resus.model.learners.plus.noise import SEEDS

Rule = Literal["thompson", "ucb"]
RULES: tuple[Rule, ...] = get_args(Rule)
WIDTH, MOST_WIDTH = 1.0, 100.0
DRAWS, MOST_DRAWS = 1000, 10_000
MOST_SHOWN = 40  # characters of an unknown rule


@dataclass(frozen=True)
class Exploring:
    """How an answer is to explore. `draws` are those of the propensities."""

    rule: Rule
    seed: int
    width: float = WIDTH
    draws: int = DRAWS

    def for_user(self, number: int) -> "Exploring":
        """The user of this number in a table has a seed of their own: users with one seed would explore alike."""
        return replace(self, seed=(self.seed + number) % SEEDS)


def exploring_of(rule: str | None, *, seed: int | None, width: float | None, draws: int | None) -> Exploring | None:
    """None without a rule. What is not given has its default; a seed is then drawn."""
    if rule is None:
        for name, value in (("seed", seed), ("width", width), ("draws", draws)):
            if value is not None:
                raise DataError(f"{name} is a setting of explore: add explore ({' or '.join(RULES)}), or leave it out")
        return None
    known = next((known for known in RULES if known == rule), None)
    if known is None:
        raise DataError(f"explore is {str(rule)[:MOST_SHOWN]!r}: use {' or '.join(RULES)}, or leave it out")
    for name, value, least, most in (
        ("seed", seed, 0, SEEDS - 1),
        ("width", width, 0, MOST_WIDTH),
        ("draws", draws, 1, MOST_DRAWS),
    ):
        whole = name != "width"
        if value is not None and not (isinstance(value, int if whole else int | float) and least <= value <= most):
            kind = "a whole number" if whole else "a number"
            raise DataError(f"{name} is {value!r}: give {kind} from {least} to {most:,}")
    return Exploring(
        known,
        secrets.randbelow(SEEDS) if seed is None else seed,
        WIDTH if width is None else float(width),
        DRAWS if draws is None else draws,
    )
