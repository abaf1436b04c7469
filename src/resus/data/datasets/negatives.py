"""Sampled negatives for logs that hold positives only."""

import numpy as np
import polars as pl

from resus.arrays import Integers
from resus.errors import DataError
from resus.randomness import Purpose, generator


def sample_negatives(
    logs: pl.DataFrame, *, user: str, item: str, context: list[str], per_log: int, seed: int
) -> pl.DataFrame:
    """`per_log` rows for each event: its user and context, with an item that the user never had in that context.

    Each item is drawn uniformly and independently from the distinct items of `logs`, so popular items are no likelier
    than rare ones, and an item may be drawn twice. The rows come event by event.
    """
    items = logs[item].unique().sort()
    codes = logs[item].replace_strict(items, np.arange(len(items)), return_dtype=pl.Int64).to_numpy()
    places = logs.select(pl.struct(user, *context).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    used = np.unique(places * len(items) + codes)
    _refuse_exhausted(logs, places, used, len(items), user)
    rng = generator(Purpose.SAMPLED_NEGATIVES, seed)
    bases = np.repeat(places * len(items), per_log)
    drawn = rng.integers(len(items), size=len(bases))
    pending = np.flatnonzero(np.isin(bases + drawn, used))
    while len(pending):
        drawn[pending] = rng.integers(len(items), size=len(pending))
        pending = pending[np.isin(bases[pending] + drawn[pending], used)]
    rows = np.repeat(np.arange(logs.height), per_log)
    return logs[rows].with_columns(items.gather(drawn).alias(item))


def _refuse_exhausted(logs: pl.DataFrame, places: Integers, used: Integers, n_items: int, user: str) -> None:
    """Refuse a user who had every item in one context."""
    full = np.flatnonzero(np.bincount(used // n_items) == n_items)
    if len(full):
        culprit = logs[user][int(np.argmax(places == full[0]))]
        raise DataError(f"user {culprit!r} has all {n_items} items in one context, so no negative can be drawn")
