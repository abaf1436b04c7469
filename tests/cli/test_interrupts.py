"""One Ctrl-C is reported once, even if several libraries raise an exception for it."""

import sys

import pytest

from resus.cli import main as entry


class Closing:
    """An object that fails when it is deleted."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def test_a_second_interrupt_while_files_close_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda caught: shown.append(caught.exc_type))

    def app() -> None:
        for error in (KeyboardInterrupt, ValueError):
            Closing(error)

    monkeypatch.setattr(entry, "app", app)
    entry.main()
    assert shown == [ValueError]
    Closing(KeyboardInterrupt)
    assert shown == [ValueError, KeyboardInterrupt]
