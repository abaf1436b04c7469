"""An XGBoost model file, `.json` or `.ubj` as `save_model` writes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from resus.arrays import Doubles
from resus.errors import ConfigError
from resus.external.columns import Categories, matrix
from resus.external.probabilities import not_binary
from resus.external.scoring_model import broken_file, library

_END = 8  # bytes with the brace that ends both formats
LOGISTIC = ("binary:logistic", "binary:logitraw", "reg:logistic")


@dataclass(frozen=True, eq=False)
class XgboostFile:
    """Trees on numbers and on categories, which files of version 3.1 and later list."""

    name: str
    reads: tuple[str, ...] | int
    booster: Any
    listed: Mapping[int, Categories]
    threads: int

    @classmethod
    def read(cls, path: Path, data: bytes, threads: int) -> Self:
        xgboost = library("xgboost", path.name)
        booster = xgboost.Booster()
        if not data[-_END:].rstrip().endswith(b"}"):  # XGBoost takes all memory for sizes that it reads from garbage
            raise broken_file(path, "XGBoost", "it is something else, or cut short")
        try:
            booster.load_model(bytearray(data))
            objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
        except (xgboost.core.XGBoostError, UnicodeDecodeError):  # XGBoost's message is a stack of addresses
            raise broken_file(path, "XGBoost", "the library cannot read it") from None
        if objective not in LOGISTIC:
            raise not_binary(path.name, f"its objective is '{objective}', none of {', '.join(LOGISTIC)}")
        booster.set_param({"nthread": threads})
        names = booster.feature_names
        reads = tuple(names) if names else booster.num_features()
        return cls(path.name, reads, booster, _listed(booster, path), threads)

    def logits(self, frame: pl.DataFrame) -> Doubles:
        rows = library("xgboost", self.name).DMatrix(
            matrix(frame, self.listed),
            nthread=self.threads,
            feature_names=self.booster.feature_names,
            feature_types=self.booster.feature_types,
            enable_categorical=True,
        )
        best = self.booster.attr("best_iteration")  # early stopping: XGBClassifier uses the best trees, too
        trees = (0, int(best) + 1) if best is not None else (0, 0)
        margins = self.booster.predict(rows, output_margin=True, iteration_range=trees)
        return np.asarray(margins, dtype=np.float64)


def _listed(booster: Any, path: Path) -> dict[int, Categories]:
    """By place, the categories that the file lists. Without a list the codes of the values are unknown."""
    places = [place for place, kind in enumerate(booster.feature_types or []) if kind == "c"]
    if not places:
        return {}
    if not hasattr(booster, "get_categories"):
        raise ConfigError(f"{path.name} has categories, which need XGBoost 3.1: pip install 'xgboost>=3.1'")
    lists = [values for _, values in booster.get_categories(export_to_arrow=True).to_arrow()]
    for place in places:
        if lists[place] is None:
            column = f"'{booster.feature_names[place]}'" if booster.feature_names else f"{place + 1}"
            raise ConfigError(
                f"{path} does not list the categories of its column {column}: fit it on a pandas frame and save it "
                "with XGBoost 3.1 or later, or give a function that calls it"
            )
    return {place: Categories.of(lists[place].to_pylist()) for place in places}
