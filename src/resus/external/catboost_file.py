"""A CatBoost model file, `.cbm`."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from resus.arrays import Doubles
from resus.data.fields.values import as_text
from resus.errors import ConfigError, RowError
from resus.external.columns import numbers, text
from resus.external.probabilities import not_binary, refuse_named_classes
from resus.external.scoring_model import broken_file, library

LOGISTIC = ("Logloss", "CrossEntropy")
BOOLEANS = {"true": "1", "false": "0"}  # how tables and CatBoost write them
ALL = -1  # threads, as CatBoost counts them
NEVER_SEEN = "a category that no table has"


@dataclass(frozen=True, eq=False)
class CatboostFile:
    """Trees on numbers, categories and text. It can score categories that it has never seen."""

    name: str
    reads: tuple[str, ...]
    model: Any
    categories: frozenset[int]
    words: frozenset[int]
    threads: int

    @classmethod
    def read(cls, path: Path, data: bytes, threads: int) -> Self:
        catboost = library("catboost", path.name)
        model = catboost.CatBoost()
        try:
            with tempfile.TemporaryDirectory() as own:  # from bytes, CatBoost takes files that are cut short
                (Path(own) / "model.cbm").write_bytes(data)
                model.load_model(f"{own}/model.cbm")
        except catboost.CatBoostError as error:
            raise broken_file(path, "CatBoost", error) from None
        loss = json.loads(model.get_metadata().get("params", "{}")).get("loss_function", {}).get("type", "unknown")
        if loss not in LOGISTIC:
            raise not_binary(path.name, f"its loss function is '{loss}', none of {', '.join(LOGISTIC)}")
        refuse_named_classes(model.classes_, path.name)
        if model.get_embedding_feature_indices():
            raise ConfigError(f"{path} reads embeddings, which tables do not hold: give a function that calls it")
        return cls(
            path.name,
            tuple(model.feature_names_),
            model,
            frozenset(model.get_cat_feature_indices()),
            frozenset(model.get_text_feature_indices()),
            threads or ALL,
        )

    def logits(self, frame: pl.DataFrame) -> Doubles:
        columns = {name: self._column(place, frame[:, place]) for place, name in enumerate(self.reads)}
        said = self._said(columns)
        for place in self.categories:
            name, booleans = self.reads[place], _booleans(frame[:, place])
            # the file lists no categories: if words score like a word that it never saw, it was not fitted on them
            if booleans is not None and np.array_equal(said, self._said(columns | {name: [NEVER_SEEN] * frame.height})):
                columns[name] = booleans
                said = self._said(columns)
        return said

    def _said(self, columns: dict[str, Any]) -> Doubles:
        rows = library("pandas", self.name).DataFrame(columns)
        said = self.model.predict(rows, prediction_type="RawFormulaVal", thread_count=self.threads)
        return np.asarray(said, dtype=np.float64)

    def _column(self, place: int, series: pl.Series) -> Any:
        if place in self.words:
            return text(series, missing="")
        if place not in self.categories:
            return numbers(series)
        absent = as_text(series).is_null().arg_true()
        if len(absent):
            what = "the value is missing, and CatBoost needs a category"
            raise RowError(int(absent[0]), series.name, what, "fill it in as for the training of the model")
        return text(series, missing="")


def _booleans(series: pl.Series) -> Any:
    """Booleans as CatBoost writes them; None if the column holds anything else."""
    words = as_text(series).str.to_lowercase()
    if series.is_empty() or not words.is_in(list(BOOLEANS)).all():
        return None
    return text(words.replace(BOOLEANS), missing="")
