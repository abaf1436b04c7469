"""An estimator in the manner of scikit-learn, one with `predict_proba`, as a model."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from resus.external.libraries import library
from resus.external.probabilities import logits_of, of_the_click, refuse_named_classes
from resus.external.scoring_model import Floats, Reads

_NAMES = ("feature_names_in_", "feature_names_")  # scikit-learn's and LightGBM's, CatBoost's


@dataclass(frozen=True, eq=False)
class Estimator:
    """Fitted on a pandas frame it gets one, of the columns that it names; fitted without names it gets an array."""

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

    def logits(self, frame: pl.DataFrame) -> Floats:
        classes = getattr(self.estimator, "classes_", None)  # of CatBoost, None before it is fitted
        refuse_named_classes(() if classes is None else classes, self.name)
        reads = self.reads
        if reads is None or tuple(frame.columns) == reads:
            library("pandas", self.name)
            answers = self.estimator.predict_proba(frame.to_pandas())
        else:
            answers = self.estimator.predict_proba(frame.to_numpy())
        return logits_of(of_the_click(answers, self.name), self.name)
