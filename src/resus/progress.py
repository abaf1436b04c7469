"""How long work tells its watcher where it stands."""

from typing import Protocol


class Progress(Protocol):
    """Called as the work goes on; `total` is None while it is unknown, `unit` says what is counted."""

    def __call__(self, task: str, done: int, total: int | None, unit: str = "") -> None: ...


def silent(task: str, done: int, total: int | None, unit: str = "") -> None:
    """Nobody watches."""
