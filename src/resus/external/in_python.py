"""Models that live in Python: a function of a frame, and an estimator with `predict_proba` like scikit-learn's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from resus.arrays import Doubles
from resus.errors import DataError
from resus.external.probabilities import logits_of, of_the_click, refuse_named_classes
from resus.external.scoring_model import Reads, library

_NAMES = ("feature_names_in_", "feature_names_")  # scikit-learn's and LightGBM's, CatBoost's


@dataclass(frozen=True, eq=False)
class Function:
    """It gets all columns of the table but the label, and returns N logits in anything that holds numbers."""

    call: Callable[[pl.DataFrame], Any]
    reads: None = None

    @property
    def name(self) -> str:
        return f"the function '{getattr(self.call, '__qualname__', type(self.call).__name__)}'"

    def logits(self, frame: pl.DataFrame) -> Doubles:
        said = self.call(frame)
        try:
            return np.asarray(said, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a torch tensor that requires gradients
            reason = str(error).partition("\n")[0]
            raise DataError(f"{self.name} gave no array of numbers ({reason}): return one logit per row") from None


@dataclass(frozen=True, eq=False)
class Estimator:
    """If it was fitted on a pandas frame, it gets one with the same columns; otherwise it gets an array."""

    estimator: Any

    @property
    def name(self) -> str:
        return f"the estimator {type(self.estimator).__name__}"

    @property
    def reads(self) -> Reads:
        for attribute in _NAMES:
            names = getattr(self.estimator, attribute, None)
            if names is not None:
                return tuple(map(str, names))
        count: int | None = getattr(self.estimator, "n_features_in_", None)
        return count

    def logits(self, frame: pl.DataFrame) -> Doubles:
        classes = getattr(self.estimator, "classes_", None)  # CatBoost's is None before it is fitted
        refuse_named_classes(() if classes is None else classes, self.name)
        reads = self.reads
        if reads is None or tuple(frame.columns) == reads:
            library("pandas", self.name)
            answers = self.estimator.predict_proba(frame.to_pandas())
        else:
            answers = self.estimator.predict_proba(frame.to_numpy())
        return logits_of(of_the_click(answers, self.name), self.name)
