"""The best items of the whole catalogue."""

from typing import Self

from pydantic import Field, model_validator

from resus.serving.limits import MAX_CANDIDATES, MAX_EVENTS
from resus.serving.messages.events import InlineEvent
from resus.serving.messages.values import FieldValues, Filter, Id, Message


class RecommendRequest(Message):
    """The best items of the catalogue for a stored `user`, for a user described by inline `events`, or for no user.

    `context` holds the fields that describe the situation. `filter` maps fields of the items to the values that are
    wanted: one value, a list of values of which one must hold, or for a number `{"at_least": 1, "at_most": 5}`.
    With `exclude_seen`, items of the user's events are left out.
    """

    user: Id | None = None
    events: list[InlineEvent] | None = Field(default=None, max_length=MAX_EVENTS)
    top: int = Field(default=10, ge=1, le=MAX_CANDIDATES)
    exclude_seen: bool = True
    context: FieldValues = Field(default_factory=dict)
    filter: Filter = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_user(self) -> Self:
        if self.user is not None and self.events is not None:
            raise ValueError("give a user or inline events, not both")
        if len({event.id is None for event in self.events or []}) > 1:
            raise ValueError("give every inline event an id, or none of them")
        return self


class Recommended(Message):
    """P(click) = σ(basis + residual)."""

    item: str
    title: str | None
    probability: float
    basis: float
    residual: float


class RecommendAnswer(Message):
    """The best items first. `ranked` is the number of items that were left after the filter and the seen ones."""

    user: str | None
    support: int
    model: str
    ranked: int
    answers: list[Recommended]
    warnings: list[str] | None = None
