"""Items of the catalogue, and changes of them."""

from typing import Literal

from pydantic import Field

from resus.serving.limits import MAX_TEXT
from resus.serving.messages.values import FieldValues, Message


class CatalogueItem(Message):
    item: str
    title: str | None
    count: int
    mean: float | None


class ItemRequest(Message):
    """What is new about an item. Fields that are left out stay as they are; of a new item they are unknown."""

    title: str | None = Field(default=None, max_length=MAX_TEXT)
    fields: FieldValues = Field(default_factory=dict)


class Changed(Message):
    item: str
    status: Literal["stored", "removed"]


class CatalogueAnswer(Message):
    items: list[CatalogueItem]
    size: int
