"""A small planted table, and models that train on it in a moment."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import polars as pl

from resus import BuildOptions, FieldSchema, InteractionLog, Resus, TableSchema, build_log
from resus.config.settings import keys_of_kinds
from resus.data.datasets.planted import PlantedWorld, draw_events
from resus.model.learners import LEARNERS

SCHEMA = TableSchema(
    user="user",
    item="item",
    time="time",
    label="click",
    fields={"category": FieldSchema(), "price": FieldSchema(kind="numeric"), "tags": FieldSchema(kind="multi")},
)
FEW_STEPS = 2  # in which RESUS+ learns its scales, see conftest.py
KEEP = BuildOptions(duplicates="keep", single_events="keep")


class SmallSettings(dict[str, Any]):
    """Settings of a small RESUS-RR; `small | others` drops those that the kinds named by the others do not take."""

    def __or__(self, others: Mapping[str, Any]) -> "SmallSettings":  # type: ignore[override]
        learner = LEARNERS[others.get("learner.kind", self["learner.kind"])]
        kinds = {**learner.presets("paper"), **others}
        if ":" in kinds.get("predictor.kind", ""):
            kinds["predictor.kind"] = "external"
        return SmallSettings(keys_of_kinds({"predictor.rounds": 5} | dict(self), kinds) | dict(others))


TINY = SmallSettings(
    {
        "learner.kind": "ridge",
        "predictor.hidden_units": [8],
        "encoder.hidden_units": [8],
        "predictor.embedding_dim": 4,
        "encoder.embedding_dim": 4,
        "predictor.cin_maps": [4],
        "encoder.cin_maps": [4],
        "predictor.epochs": 2,
        "training.epochs": 2,
        "evaluation.max_size": 6,
    }
)


def events() -> pl.DataFrame:
    """Events with a category, a number, which is missing of some items, and several tags."""
    drawn = draw_events(PlantedWorld(users=60, items=20, events_per_user=12, seed=5))
    tags = pl.concat_str([pl.col("daypart"), pl.col("device")], separator="|")
    price = pl.when(pl.col("item") % 7 != 3).then(pl.col("item") * 1.5)
    return drawn.select("user", "time", "item", "category", "click", price=price, tags=tags)


def complete_events() -> pl.DataFrame:
    """The same events, and every item has a number."""
    return events().with_columns(price=pl.col("item") * 1.5)


def log_of(table: Any) -> InteractionLog:
    return build_log(table, SCHEMA, KEEP, name="mine")


@cache
def small_log() -> InteractionLog:
    return log_of(events())


def tiny(**options: Any) -> Resus:
    """RESUS-RR with tiny networks. `options` are those of Resus; its settings override the tiny ones."""
    parts = {"predictor": "external"} if "predictor" in options else {}
    parts |= {part: options[part] for part in ("predictor", "encoder", "learner") if isinstance(options.get(part), str)}
    kinds = {f"{part}.kind": kind for part, kind in parts.items()}
    settings = TINY | {**kinds, **options.pop("settings", {})}
    return Resus(settings={key: value for key, value in settings.items() if key not in kinds}, **options)
