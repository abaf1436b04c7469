"""A small planted table, and models that train on it in a moment."""

from typing import Any

import polars as pl

from resus import BuildOptions, FieldSchema, InteractionLog, Resus, TableSchema, build_log
from resus.data.datasets.planted import PlantedWorld, draw_events

SCHEMA = TableSchema(
    user="user",
    item="item",
    time="time",
    label="click",
    fields={"category": FieldSchema(), "price": FieldSchema(kind="numeric"), "tags": FieldSchema(kind="multi")},
)
KEEP = BuildOptions(duplicates="keep", single_events="keep")
TINY: dict[str, Any] = {
    "predictor.hidden_units": [8],
    "encoder.hidden_units": [8],
    "predictor.embedding_dim": 4,
    "encoder.embedding_dim": 4,
    "predictor.cin_maps": [4],
    "encoder.cin_maps": [4],
    "predictor.epochs": 2,
    "predictor.rounds": 5,
    "training.epochs": 2,
    "evaluation.max_size": 6,
}


def events() -> pl.DataFrame:
    """Events with a category, a number and several tags."""
    drawn = draw_events(PlantedWorld(users=60, items=20, events_per_user=12, seed=5))
    tags = pl.concat_str([pl.col("daypart"), pl.col("device")], separator="|")
    return drawn.select("user", "time", "item", "category", "click", price=pl.col("item") * 1.5, tags=tags)


def log_of(table: Any) -> InteractionLog:
    return build_log(table, SCHEMA, KEEP, name="mine")


def tiny(**options: Any) -> Resus:
    """A model with tiny networks. `options` are those of Resus; its settings override the tiny ones."""
    return Resus(settings=TINY | options.pop("settings", {}), **options)
