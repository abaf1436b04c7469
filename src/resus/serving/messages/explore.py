"""What a request may ask about exploring, and what its answer says about it."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from resus.model.learners.plus.noise import SEEDS
from resus.serving.exploring import MOST_DRAWS, MOST_WIDTH, RULES, Exploring, Rule
from resus.serving.messages.values import Message


def _rule(given: Any) -> Any:
    if given is not None and given not in RULES:
        raise PydanticCustomError("rule", f"use {' or '.join(RULES)}, or leave it out")
    return given


class ExploringRequest(Message):
    """`explore` ranks by "thompson", a draw from the posterior, or "ucb", an upper bound, instead of by the mean.

    `seed` makes the draw; without it, the service draws one and tells it. `width` stretches how far from the mean
    candidates are ranked (default 1, 0 is greedy). `draws` is the number of draws behind the propensities of thompson
    (default 1000, fewer for large catalogues).
    """

    explore: Annotated[
        Rule | None, BeforeValidator(_rule), WithJsonSchema({"anyOf": [{"enum": list(RULES)}, {"type": "null"}]})
    ] = None
    seed: int | None = Field(default=None, ge=0, lt=SEEDS)
    width: float | None = Field(default=None, ge=0, le=MOST_WIDTH)
    draws: int | None = Field(default=None, ge=1, le=MOST_DRAWS)

    def check_exploring(self) -> Self:
        """For validators of the requests: settings of exploring need a rule."""
        if self.explore is None:
            for name in ("seed", "width", "draws"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} is a setting of explore: add explore ({' or '.join(RULES)}), or leave it out"
                    )
        return self

    @property
    def exploring(self) -> Exploring | None:
        if self.explore is None:
            return None
        return Exploring.of(self.explore, seed=self.seed, width=self.width, draws=self.draws)


class Exploration(Message):
    """The `rule`, the `seed` that repeats the answer, and the number of `draws` behind the propensities.

    A deterministic rule needs no draws.
    """

    rule: Rule
    seed: int
    width: float
    draws: int
