"""What every kind of model is asked: raw columns of a table in, one logit per row out."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.errors import DataError

Floats = npt.NDArray[np.float64]
Reads = tuple[str, ...] | int | None


class ScoringModel(Protocol):
    """Someone's model, ready to score."""

    @property
    def name(self) -> str:
        """As a sentence calls it: a file, a function, a class."""

    @property
    def reads(self) -> Reads:
        """Its columns by name; their number where it knows no names; None for all that a table has but the label."""

    def logits(self, frame: pl.DataFrame) -> Floats:
        """`[N]` of a frame that has exactly what it reads, in that order."""


class RowError(DataError):
    """A row that a model cannot score; whoever knows where the frame comes from says which one it is."""

    def __init__(self, row: int, column: str | None, what: str, fix: str) -> None:
        super().__init__(f"row {row + 1}{f', column {column!r}' if column else ''}: {what}; {fix}")
        self.row, self.column, self.what, self.fix = row, column, what, fix
