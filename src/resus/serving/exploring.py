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


@dataclass(frozen=True)
class Exploring:
    """How an answer is to explore. `draws` are those of the propensities."""

    rule: Rule
    seed: int
    width: float = WIDTH
    draws: int = DRAWS

    @classmethod
    def of(
        cls, rule: str, *, seed: int | None = None, width: float | None = None, draws: int | None = None
    ) -> "Exploring":
        """What is not given has its default; the seed is then drawn."""
        known = next((known for known in RULES if known == rule), None)
        if known is None:
            raise DataError(f"explore is {rule!r}: use {' or '.join(RULES)}")
        for name, value, least, most in (
            ("seed", seed, 0, SEEDS - 1),
            ("width", width, 0, MOST_WIDTH),
            ("draws", draws, 1, MOST_DRAWS),
        ):
            if value is not None and not least <= value <= most:
                raise DataError(f"{name} is {value}: give a number from {least} to {most:,}")
        return cls(
            known,
            secrets.randbelow(SEEDS) if seed is None else seed,
            WIDTH if width is None else float(width),
            DRAWS if draws is None else draws,
        )

    def for_user(self, number: int) -> "Exploring":
        """The user of this number in a table has a seed of their own: users with one seed would explore alike."""
        return replace(self, seed=(self.seed + number) % SEEDS)
