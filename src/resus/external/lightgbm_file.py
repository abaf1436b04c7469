"""A LightGBM model file, the text that `Booster.save_model` writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import polars as pl

from resus.arrays import Doubles
from resus.errors import ConfigError
from resus.external.columns import Categories, matrix
from resus.external.probabilities import logits_of, not_binary
from resus.external.scoring_model import broken_file, library

PARTS = ("tree\n", "\nend of trees\n", "\nend of parameters\n")  # LightGBM ends the whole process if one is missing


@dataclass(frozen=True, eq=False)
class LightgbmFile:
    """Trees on numbers and on pandas categories, which the file lists by column."""

    name: str
    reads: tuple[str, ...]
    booster: Any
    slope: float | None  # logit = slope * raw score; None for a random forest, whose raw score is not a logit
    listed: Mapping[int, Categories]
    threads: int

    @classmethod
    def read(cls, path: Path, data: bytes, threads: int) -> Self:
        lightgbm = library("lightgbm", path.name)
        try:
            content = data.decode("utf-8")
            if not all(part in content for part in PARTS):
                raise ValueError("it is something else, or cut short")
            booster = lightgbm.Booster(model_str=content)
        except (ValueError, lightgbm.basic.LightGBMError) as error:
            raise broken_file(path, "LightGBM", error) from None
        return cls(
            path.name,
            tuple(booster.feature_name()),
            booster,
            _slope(content, path.name),
            _listed(booster, content, path),
            threads,
        )

    def logits(self, frame: pl.DataFrame) -> Doubles:
        rows = matrix(frame, self.listed)
        if self.slope is None:
            return logits_of(self.booster.predict(rows, num_threads=self.threads), self.name)
        raw: Doubles = self.booster.predict(rows, raw_score=True, num_threads=self.threads)
        return raw * self.slope


def _slope(content: str, name: str) -> float | None:
    """P(click) = σ(slope · raw) if trees are summed; None if they are averaged. Other objectives are refused."""
    objective = re.search(r"^objective=(.*)$", content, re.MULTILINE)
    words = objective[1].split() if objective else ["unknown"]
    if words[0] not in ("binary", "cross_entropy"):
        raise not_binary(name, f"its objective is '{words[0]}', not binary or cross_entropy")
    if "\naverage_output\n" in content:
        return None
    return float(next((word.removeprefix("sigmoid:") for word in words if word.startswith("sigmoid:")), 1.0))


def _listed(booster: Any, content: str, path: Path) -> dict[int, Categories]:
    """By place, the categories of the columns that pandas held as categories."""
    known = booster.pandas_categorical or []
    columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", content, re.MULTILINE)
    places = [int(place) for place in columns[1].split(",")] if columns else []
    if known and len(known) != len(places):
        raise ConfigError(
            f"{path} does not say which columns its {len(known)} lists of categories belong to: "
            "give a function that calls it"
        )
    return {place: Categories.of(values) for place, values in zip(places, known, strict=True)} if known else {}
