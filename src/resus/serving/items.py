"""Changes of items while a model is served: new items, other fields, removals.

They are kept in a file of JSON lines beside the folder of the model. Every worker of the host reads what is new in it
before it answers. The changes outlive restarts, and apply again after a reload; without the file, the items are those
of the export.
"""

import logging
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import Field, ValidationError

from resus.errors import StorageError
from resus.files import append_line, lock_of, locked, open_regular, reason_of, write_text
from resus.serving.messages import FieldValues, Id, Message

MAX_BYTES = 1 << 26  # of the file
SHORTEN_BYTES = 1 << 23  # a longer file is written anew, with one line per item

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
        self._stream: BinaryIO | None = None  # held open, so that a file that replaces it is another one
        self._close: Callable[[], object] = lambda: None
        self._inode = 0
        self._read = 0  # bytes
        self._shortened = 0  # bytes of the file after it was shortened

    def add(self, change: ItemChange) -> None:
        """Append a change; it is durable when this returns."""
        if self._size() > SHORTEN_BYTES and self._size() > 2 * self._shortened:
            self._shorten()
        if self._size() > MAX_BYTES:
            raise StorageError(
                f"the changed items take more than {MAX_BYTES:,} bytes: export again, and delete the file"
            )
        append_line(self._path, change.model_dump_json(exclude_unset=True))

    def has_news(self) -> bool:
        """Whether there may be changes since the last call of `news`; asked before every answer."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  # faster than by Path
        except OSError:
            return False
        return found.st_ino != self._inode or found.st_size > self._read

    def news(self) -> list[ItemChange]:
        """The changes since the last call. A file that was shortened is read again: it says the same."""
        try:
            if self._stream is None or self._inode != self._path.stat().st_ino:
                self._close()
                self._stream = open_regular(self._path)
                self._close = weakref.finalize(self, self._stream.close)
                self._inode, self._read = os.fstat(self._stream.fileno()).st_ino, 0
            self._stream.seek(self._read)
            lines = self._stream.read()
        except OSError as error:
            raise StorageError(f"the changed items in {self._path} cannot be read: {reason_of(error)}") from None
        whole = lines.rfind(b"\n") + 1  # a line that is still being written comes next time
        self._read += whole
        return [change for line in lines[:whole].splitlines() if (change := _parsed(line))]

    def _shorten(self) -> None:
        """Write the file anew with one line per item, unless another process has just done so."""
        with locked(lock_of(self._path)):
            before = self._size()
            if before > SHORTEN_BYTES:
                lines = (
                    ItemChange(item=item, **change).model_dump_json(exclude_unset=True)
                    for item, change in latest(ItemChanges(self._path).news()).items()
                )
                write_text(self._path, "".join(f"{line}\n" for line in lines))
            self._shortened = self._size()
        log.info("shortened the changed items from %d to %d bytes", before, self._shortened)

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.is_file() else 0


def _parsed(line: bytes) -> ItemChange | None:
    try:
        return ItemChange.model_validate_json(line) if line else None
    except ValidationError:
        log.warning("a line of the changed items cannot be read, so it is left out")
        return None


def latest(changes: Sequence[ItemChange]) -> dict[str, dict[str, Any]]:
    """What the changes of each item come to: its new fields and title, and whether it is removed."""
    found: dict[str, dict[str, Any]] = {}
    for change in changes:
        merged = found.setdefault(change.item, {"fields": {}})
        merged["removed"] = change.removed
        merged["fields"] |= change.fields
        if "title" in change.model_fields_set:
            merged["title"] = change.title
    return found
