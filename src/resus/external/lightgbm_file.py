"""A LightGBM model file, the text that `Booster.save_model` writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import polars as pl

from resus.errors import ConfigError
from resus.external.columns import Categories, matrix
from resus.external.libraries import library, no_model
from resus.external.probabilities import logits_of, not_binary
from resus.external.scoring_model import Floats

PARTS = ("tree\n", "\nend of trees\n", "\nend of parameters\n")  # LightGBM ends the whole process where one is missing


@dataclass(frozen=True, eq=False)
class LightgbmFile:
    """Trees on numbers; pandas' categories, which the file lists by column, are looked up in it."""

    name: str
    reads: tuple[str, ...]
    booster: Any
    slope: float | None  # of the logit over the raw score; None for a random forest, whose raw score is no logit
    listed: Mapping[int, Categories]

    @classmethod
    def read(cls, path: Path) -> Self:
        lightgbm = library("lightgbm", path.name)
        try:
            content = path.read_text(encoding="utf-8")
            if not all(part in content for part in PARTS):
                raise ValueError("it is another text, or cut short")
            booster = lightgbm.Booster(model_str=content)
        except (ValueError, lightgbm.basic.LightGBMError) as error:
            raise no_model(path, "LightGBM", error) from None
        return cls(
            path.name,
            tuple(booster.feature_name()),
            booster,
            _slope(content, path.name),
            _listed(booster, content, path),
        )

    def logits(self, frame: pl.DataFrame) -> Floats:
        rows = matrix(frame, self.listed)
        if self.slope is None:
            return logits_of(self.booster.predict(rows), self.name)
        raw: Floats = self.booster.predict(rows, raw_score=True)
        return raw * self.slope


def _slope(content: str, name: str) -> float | None:
    """P(click) = σ(slope · raw) for the objectives of which this is so, where trees are summed up and not averaged."""
    objective = re.search(r"^objective=(.*)$", content, re.MULTILINE)
    words = objective[1].split() if objective else ["unknown"]
    if words[0] not in ("binary", "cross_entropy"):
        raise not_binary(name, f"its objective is '{words[0]}', not binary or cross_entropy")
    if "\naverage_output\n" in content:
        return None
    return float(next((word.removeprefix("sigmoid:") for word in words if word.startswith("sigmoid:")), 1.0))


def _listed(booster: Any, content: str, path: Path) -> dict[int, Categories]:
    """By place, the categories of the columns that were of pandas' kind."""
    known = booster.pandas_categorical or []
    columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", content, re.MULTILINE)
    places = [int(place) for place in columns[1].split(",")] if columns else []
    if known and len(known) != len(places):
        raise ConfigError(
            f"{path} does not say which columns its {len(known)} lists of categories belong to: "
            "hand it over as a function that calls it"
        )
    return {place: Categories.of(values) for place, values in zip(places, known, strict=True)} if known else {}
