"""What every kind of model is asked: raw columns of a table in, one logit per row out."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

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
