"""Events of users."""

from pydantic import Field

from resus.serving.limits import MAX_EVENTS
from resus.serving.messages.values import FieldValues, Id, Label, Message, Time
from resus.serving.store import EventStatus


class InlineEvent(Message):
    """What a user did. Without a `time`, events count in the order given. The model ignores values it has never seen.

    The catalogue fills in missing fields of an `item` that it knows.
    """

    id: Id | None = None
    time: Time | None = None
    label: Label
    item: Id | None = None
    features: FieldValues = Field(default_factory=dict)


class PostedEvent(InlineEvent):
    """One event of one user. The same user and id again is the same event; it corrects label and time.

    `time` is an ISO time or in seconds since 1970, at most a day ahead, or a smaller number that grows.
    """

    id: Id
    user: Id
    time: Time


class EventsRequest(Message):
    events: list[PostedEvent] = Field(min_length=1, max_length=MAX_EVENTS)


class EventResult(Message):
    id: str
    status: EventStatus


class EventsAnswer(Message):
    """One result per event, in order, after all events are stored durably.

    `warnings` says what the events hold that the model does not know; without such, there are none.
    """

    results: list[EventResult]
    warnings: list[str] | None = None
