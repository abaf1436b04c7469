"""Calls that a type checker must accept, and the types that it must know."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import polars as pl

import resus
from resus.model.learners import NearestSettings

log = resus.build_log(pl.DataFrame(), {"user": "u", "item": "i", "label": "y"}, duplicates="first", label_threshold=3)
assert_type(log, resus.InteractionLog)
resus.build_log(Path("events.csv"), "schema.yaml")
resus.prepare({"u": [1]}, "out", schema={"user": "u"}, single_events="drop", protocol="paper")

model = resus.Resus(learner="ridge", encoder="deepfm", protocol="paper", seed=3)
resus.Resus(
    learner=NearestSettings(similarity="cosine"), predictor="logits:model_score", settings={"training.epochs": 3}
)
assert_type(model.fit("data/mine"), resus.Resus)
model.fit(pl.DataFrame(), schema=Path("schema.yaml"), min_item_count=5)

frame, lazy = pl.DataFrame(), pl.LazyFrame()
assert_type(model.predict(frame, frame), pl.DataFrame)
assert_type(model.predict("support.csv", lazy), pl.LazyFrame)
assert_type(model.predict(frame, Path("query.csv")), pl.DataFrame)
assert_type(model.predict(frame, log), pl.DataFrame)
assert_type(model.predict(frame, {"u": np.array([1])}), dict[str, npt.NDArray[Any]])
assert_type(model.recommend(frame, top=5), pl.DataFrame)

results = model.evaluate(log, part="validation", duplicates="keep")
assert_type(results, resus.Results)
assert_type(results.to_frame(by="size"), pl.DataFrame)


class PandasLike:
    """What a type checker sees of a pandas frame."""

    columns: list[str]


assert_type(model.predict(PandasLike(), PandasLike()), PandasLike)
