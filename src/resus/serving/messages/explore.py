"""What a request may ask about exploring, and what its answer says about it."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from resus.model.learners.plus.noise import SEEDS
from resus.serving.exploring import MOST_DRAWS, MOST_WIDTH, RULES, Exploring, Rule, exploring_of
from resus.serving.messages.values import Message

_RULE = {"anyOf": [{"type": "string", "enum": list(RULES)}, {"type": "null"}]}


class ExploringRequest(Message):
    """`explore` ranks by "thompson", a draw from the posterior, or "ucb", an upper bound, instead of by the mean.

    `seed` makes the draw; without it, the service draws one and tells it. `width` stretches how far from the mean
    candidates are ranked (default 1, 0 is greedy). `draws` is the number of draws behind the propensities of thompson
    (default 1000, fewer for large catalogues).
    """

    explore: Annotated[str | None, WithJsonSchema(_RULE)] = None
    seed: int | None = Field(default=None, ge=0, lt=SEEDS)
    width: float | None = Field(default=None, ge=0, le=MOST_WIDTH)
    draws: int | None = Field(default=None, ge=1, le=MOST_DRAWS)

    @property
    def exploring(self) -> Exploring | None:
        """None for a request that does not explore; DataError for an unknown rule, or for settings without a rule."""
        return exploring_of(self.explore, seed=self.seed, width=self.width, draws=self.draws)


class Exploration(Message):
    """The `rule`, the `seed` that repeats the answer, and the number of `draws` behind the propensities.

    A deterministic rule needs no draws.
    """

    rule: Rule
    seed: int
    width: float
    draws: int
