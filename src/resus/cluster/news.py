"""Progress of a worker far away: it leaves its last word in the run folder, and the one who waits reads it there."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resus.files import write_text
from resus.progress import Progress

SECONDS = 0.5


def leave_in(path: Path) -> Progress:
    """A progress call for the worker."""
    last: dict[str, Any] = {"task": "", "at": 0.0}

    def leave(task: str, done: int, total: int | None, unit: str = "") -> None:
        now = time.monotonic()
        if task != last["task"] or now - last["at"] >= SECONDS or done == total:
            last.update(task=task, at=now)
            write_text(path, json.dumps([task, done, total, unit]))

    return leave


@contextlib.contextmanager
def told_from(path: Path, progress: Progress) -> Iterator[None]:
    """Pass on what is left there while the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SECONDS):
            tell()

    def tell() -> None:
        with contextlib.suppress(OSError, ValueError):  # not there yet, or just gone with the checkpoints
            progress(*json.loads(path.read_text(encoding="utf-8")))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        tell()
