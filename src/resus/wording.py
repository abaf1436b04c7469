"""Advice in messages: it names an argument in Python, and an option on the command line."""

import contextlib
from collections.abc import Iterator

_state = {"in a command": False}


@contextlib.contextmanager
def on_the_command_line() -> Iterator[None]:
    """Messages name options of commands until the end of the block."""
    before = _state["in a command"]
    _state["in a command"] = True
    try:
        yield
    finally:
        _state["in a command"] = before


def advice(*, python: str, command: str) -> str:
    """What a reader can do, in the words of the side that the reader is on."""
    return command if _state["in a command"] else python


def option(name: str) -> str:
    """An option that has the same name on both sides."""
    return advice(python=f"{name}=", command=f"--{name.replace('_', '-')}")


def setting(key: str, value: str | float) -> str:
    """One option of `prepare` with a value to try."""
    text = value if isinstance(value, str) else f"{value:g}"
    return advice(
        python=f"{key}={value!r}" if isinstance(value, str) else f"{key}={text}", command=f"--set {key}={text}"
    )
