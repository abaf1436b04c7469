"""A function of a frame as a model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from resus.errors import DataError
from resus.external.scoring_model import Floats


@dataclass(frozen=True, eq=False)
class Function:
    """It gets every column of the table but the label, and gives N logits in whatever holds numbers."""

    call: Callable[[pl.DataFrame], Any]
    reads: None = None

    @property
    def name(self) -> str:
        return f"the function '{getattr(self.call, '__qualname__', type(self.call).__name__)}'"

    def logits(self, frame: pl.DataFrame) -> Floats:
        said = self.call(frame)
        try:
            return np.asarray(said, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's, of a tensor that wants gradients
            reason = str(error).partition("\n")[0]
            raise DataError(f"{self.name} gave no array of numbers ({reason}): let it give one logit a row") from None
