"""What every kind of model is asked: raw columns of a table in, one logit per row out."""

import importlib
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from resus.arrays import Doubles
from resus.errors import ConfigError
from resus.extras import need_module

Reads = tuple[str, ...] | int | None
EVERY_THREAD = 0  # a library scores in as many threads as it likes


class ScoringModel(Protocol):
    """A model of the user's own, ready to score."""

    @property
    def name(self) -> str:
        """What messages call it: a file, a function, a class."""

    @property
    def reads(self) -> Reads:
        """Its columns by name; their number if it knows no names; None for all columns but the label."""

    def logits(self, frame: pl.DataFrame) -> Doubles:
        """`[N]` logits for a frame with exactly the columns that it reads, in that order."""


def library(module: str, name: str) -> Any:
    """Import the library that `name` needs, or say how to install it."""
    need_module(module, name)
    return importlib.import_module(module)


def broken_file(path: Path, kind: str, error: Exception | str) -> ConfigError:
    """The library refused a file; only the first line of its message is of use."""
    reason = str(error).strip().partition("\n")[0]
    return ConfigError(f"{path} is not a whole {kind} model ({reason}): save the model again, or name another file")
