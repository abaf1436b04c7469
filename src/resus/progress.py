"""How long-running work reports its progress."""

from typing import Protocol


class Progress(Protocol):
    """Called while work goes on. `total` is None while unknown; `unit` names what is counted."""

    def __call__(self, task: str, done: int, total: int | None, unit: str = "") -> None: ...


def silent(task: str, done: int, total: int | None, unit: str = "") -> None:
    """No progress output."""
