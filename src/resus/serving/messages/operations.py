"""Whether the service works, and why it refuses a request."""

from typing import Literal

from resus.serving.messages.values import Message


class Health(Message):
    status: Literal["ok"]


class Refusal(Message):
    """One sentence: what is wrong, and what to do."""

    error: str
