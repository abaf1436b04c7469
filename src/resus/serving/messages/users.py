"""What is stored about a user."""

from typing import Any

from pydantic import Field

from resus.serving.messages.values import FieldValues, Message


class StoredEvent(Message):
    id: str
    time: float
    label: float
    item: str | None
    features: dict[str, Any]


class UserAnswer(Message):
    """`stage` is "new", a cold-start stage of the evaluation ("I", "II", "III"), or "warm".

    `profile` holds the fields that describe the user: those that are stored, then those of the export.
    """

    user: str
    profile: dict[str, Any]
    support: int
    stage: str
    events: list[StoredEvent]


class ProfileRequest(Message):
    """The fields that describe a user. They replace those that are stored; without any, the stored profile is deleted.

    A null hides a value of the exported profile.
    """

    fields: FieldValues


class ProfileAnswer(Message):
    """The profile as it now counts: what is stored, and the other fields of the exported profile.

    `warnings` names fields and values that the model does not know; they do not count.
    """

    user: str
    profile: dict[str, Any]
    warnings: list[str] = Field(default_factory=list)


class Deleted(Message):
    deleted: bool
