"""An earlier and a newer log of one planted world: the newer one has other users, items and tags."""

from functools import cache

import polars as pl
from planted_models import events, log_of

from resus import InteractionLog

LATER_TAG = "festival"


def earlier_events() -> pl.DataFrame:
    """Users 0 to 39, items 0 to 14; no price is missing, so that it can serve as a score."""
    return _priced().filter((pl.col("user") < 40) & (pl.col("item") < 15))


def newer_events() -> pl.DataFrame:
    """Users 20 to 59, all items, and a third tag in some rows."""
    tags = pl.when(pl.col("item") > 15).then(pl.col("tags") + f"|{LATER_TAG}").otherwise(pl.col("tags"))
    return _priced().filter(pl.col("user") >= 20).with_columns(tags, price=pl.col("price") + 1.25)


def _priced() -> pl.DataFrame:
    return events().with_columns(pl.col("price").fill_null(2.0))


@cache
def earlier() -> InteractionLog:
    return log_of(earlier_events())


@cache
def newer() -> InteractionLog:
    return log_of(newer_events())
