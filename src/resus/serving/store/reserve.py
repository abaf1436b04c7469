"""Disk that only deletions use: a small file beside a store, which gives way when the disk is full."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from resus.errors import StorageError
from resus.files import storage_errors

RESERVE_BYTES = 4 << 20  # of disk that only deletions use, or an eighth of what is free
TRIES = 3  # of a deletion on a full disk: another one may reserve the disk in between
Returned = TypeVar("Returned")


class Reserve:
    """The reserve of one store. Its workers share it."""

    def __init__(self, store: Path) -> None:
        self._path, self._folder = store.with_name(f".{store.name}.reserve"), store.parent
        self._bytes = 0

    def free_bytes(self) -> int:
        """Of the disk, without the reserve."""
        space = os.statvfs(self._folder)
        return space.f_bavail * space.f_frsize

    def fill(self) -> None:
        """Reserve an eighth of what is free, or again as much as before, if there is as much."""
        with contextlib.suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                reserved, free = os.fstat(handle).st_size, self.free_bytes()
                self._bytes = max(self._bytes, reserved, min(RESERVE_BYTES, free // 8))
                wanted = min(self._bytes, reserved + free)
                if reserved < wanted:
                    os.posix_fallocate(handle, 0, wanted)
            finally:
                os.close(handle)

    def spend(self, work: Callable[[], Returned], is_out_of_space: Callable[[BaseException | None], bool]) -> Returned:
        """Do work that may use the disk that is reserved. What is free afterwards is reserved first."""
        try:
            for _ in range(TRIES):
                try:
                    return work()
                except StorageError as error:
                    if not is_out_of_space(error.__cause__):
                        raise
                with storage_errors(self._path):
                    self._path.unlink(missing_ok=True)
            return work()
        finally:
            self.fill()

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
