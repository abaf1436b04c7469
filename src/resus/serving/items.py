"""Changes of items while a model is served: new items, other fields, removals.

They are kept in a file of JSON lines beside the folder of the model. Every worker of the host reads what is new in it
before it answers. The changes outlive restarts, and apply again after a reload; without the file, the items are those
of the export.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from resus.errors import StorageError
from resus.files import append_line
from resus.serving.messages import FieldValues, Id, Message

MAX_BYTES = 1 << 26  # of the file

log = logging.getLogger("resus.serving")


class ItemChange(Message):
    """One line of the file."""

    item: Id
    title: str | None = None
    fields: FieldValues = Field(default_factory=dict)
    removed: bool = False


class ItemChanges:
    """The changes in a file. Any process of the host may add to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0  # bytes

    def add(self, change: ItemChange) -> None:
        """Append a change; it is durable when this returns."""
        if self._path.is_file() and self._path.stat().st_size > MAX_BYTES:
            raise StorageError(
                f"the changed items take more than {MAX_BYTES:,} bytes: export again, and delete the file"
            )
        append_line(self._path, change.model_dump_json(exclude_unset=True))

    def has_news(self) -> bool:
        """Whether there may be changes since the last call of `news`; asked before every answer."""
        try:
            return os.stat(self._path).st_size > self._read  # noqa: PTH116  # faster than by Path
        except OSError:
            return False

    def news(self) -> list[ItemChange]:
        """The changes since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines.rfind(b"\n") + 1  # a line that is still being written comes next time
        self._read += whole
        return [change for line in lines[:whole].splitlines() if (change := _parsed(line))]


def _parsed(line: bytes) -> ItemChange | None:
    try:
        return ItemChange.model_validate_json(line) if line else None
    except ValidationError:
        log.warning("a line of the changed items cannot be read, so it is left out")
        return None


def latest(changes: Sequence[ItemChange]) -> dict[str, dict[str, Any]]:
    """What the changes of each item come to: its removal, or its new title and fields."""
    found: dict[str, dict[str, Any]] = {}
    for change in changes:
        if change.removed:
            found[change.item] = {"removed": True}
            continue
        merged = found.setdefault(change.item, {})
        merged["removed"] = False
        merged["fields"] = {**merged.get("fields", {}), **change.fields}
        if "title" in change.model_fields_set:
            merged["title"] = change.title
    return found
