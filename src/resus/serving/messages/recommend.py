"""The best items of the whole catalogue."""

from typing import Any, Self

from pydantic import Field, model_validator

from resus.serving.limits import MAX_CANDIDATES, MAX_EVENTS, MAX_EXPLAINED, MAX_ID
from resus.serving.messages.events import InlineEvent
from resus.serving.messages.explore import Exploration, ExploringRequest
from resus.serving.messages.values import FieldValues, Filter, Id, Message


class RecommendRequest(ExploringRequest):
    """The best items of the catalogue for a stored `user`, for a user described by inline `events`, or for no user.

    `context` holds the fields that describe the situation. `filter` maps fields of the items to the values that are
    wanted: one value, a list of values of which one must hold, or for a number `{"at_least": 1, "at_most": 5}`.
    With `exclude_seen`, items of the user's events are left out. `offset` skips the best items, to go on from an
    earlier answer. `search` shows only items whose id or title contains the text, with their ranks among all items.
    With `describe`, each answer also has its ranks and its fields. `explore` ranks by "thompson", a draw from the
    posterior, or "ucb", an upper bound, with `seed`, `width` and `draws`.
    """

    user: Id | None = None
    events: list[InlineEvent] | None = Field(default=None, max_length=MAX_EVENTS)
    top: int = Field(default=10, ge=1, le=MAX_CANDIDATES)
    offset: int = Field(default=0, ge=0, le=2**31)
    search: str = Field(default="", max_length=MAX_ID)
    describe: bool = False
    exclude_seen: bool = True
    context: FieldValues = Field(default_factory=dict)
    filter: Filter = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_way_of_asking(self) -> Self:
        if self.user is not None and self.events is not None:
            raise ValueError("give a user or inline events, not both")
        if len({event.id is None for event in self.events or []}) > 1:
            raise ValueError("give every inline event an id, or none of them")
        if self.describe and self.top > MAX_EXPLAINED:
            raise ValueError(f"describe takes at most {MAX_EXPLAINED} answers: lower top, and go on with offset")
        return self


class Recommended(Message):
    """P(click) = σ(basis + residual).

    With `describe`: `rank` is its place among all items that were ranked, from 1; `rank_without_events` is the place
    that the shared model alone would give it; `fields` describe the item. With `explore`, `ranked_by` is the logit by
    which the rule ranks it, `propensity` the probability that the rule puts it at this place, and `rank` its place
    without exploring.
    """

    item: str
    title: str | None
    probability: float
    basis: float
    residual: float
    rank: int | None = None
    rank_without_events: int | None = None
    fields: dict[str, Any] | None = None
    ranked_by: float | None = None
    propensity: float | None = None


class ExplorationOfItems(Exploration):
    """`greedy` are the items that these places would have without exploring."""

    greedy: list[str]


class RecommendAnswer(Message):
    """The best items first. `ranked` is the number of items that were left after the filter and the seen ones.

    With `search`, `found` is the number of them that contain the text. `exploration` is there if the request explores.
    """

    user: str | None
    support: int
    model: str
    ranked: int
    found: int | None = None
    answers: list[Recommended]
    exploration: ExplorationOfItems | None = None
    warnings: list[str] | None = None
