"""Negatives for a table: rows of label 0 beside the events of users whose events are all positive."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from resus.arrays import Booleans, Integers
from resus.data.fields.values import as_text
from resus.data.negatives.drawing import chances_of, draw_items, exhausted, items_at
from resus.data.negatives.settings import DrawnNegatives, NegativeSettings
from resus.errors import DataError
from resus.randomness import Purpose, generator

STEADY = 0.75  # agreement above chance from which a field belongs to the item


def with_negatives(
    frame: pl.DataFrame,
    settings: NegativeSettings,
    *,
    user: str,
    item: str,
    label: str,
    of_item: Sequence[str],
    may_be_of_item: Sequence[str],
    seed: int,
    times: pl.Series | None,
) -> tuple[pl.DataFrame, DrawnNegatives]:
    """The rows and their negatives: after all rows or, if rows have `times`, each after its event.

    A negative is the row of its event with label 0 and another item, which brings along its own fields. The items are
    drawn from those of all positive events; one may be drawn twice. With times, an item that the user has only later
    may be drawn: otherwise a drawn item would tell that the user never takes it. A user with an event of label 0 gets
    none. Fields that are not known to be `of_item` belong to the item if the rows say so.
    """
    positive = frame[label] == 1
    alone = frame.select((pl.col(label) == 1).all().over(user)).to_series()
    items = as_text(frame[item])
    known = items.filter(positive).unique().sort()
    codes = items.replace_strict(known, np.arange(len(known)), default=-1, return_dtype=pl.Int64).to_numpy()
    places = _places(frame, user, settings.context)
    counts = np.bincount(codes[positive.to_numpy()], minlength=len(known))
    had, since, now = _had(places * len(known) + codes, codes >= 0, times)
    possible = alone.to_numpy() & ~exhausted(had, int(places.max()) + 1, len(known))[places]
    events = np.flatnonzero(possible)
    if not len(events):
        raise DataError(
            "no negative can be drawn, because every user has had every item, or has an event of label 0: leave "
            "negatives out"
        )
    drawn = _drawn(places[events], had, counts, settings, seed, since, None if now is None else now[events])
    own = settings.item_fields
    if own is None:
        others = (name for name in may_be_of_item if name not in (item, *of_item))
        own = (*of_item, *(name for name in others if belongs_to_item(frame, name, user=user, item=item)))
    row_of_item = _row_of_each(codes, frame.select(own))
    rows = np.repeat(events, settings.per_event)
    copied = frame[row_of_item[drawn]].select([item, *own])
    negatives = frame[rows].with_columns(*copied, pl.lit(0, frame[label].dtype).alias(label))
    whole = pl.concat([frame, negatives])
    if times is not None:
        whole = whole[np.argsort(np.concatenate([np.arange(frame.height), rows]), kind="stable")]
    facts = DrawnNegatives(
        per_event=settings.per_event,
        by=settings.by,
        context=settings.context,
        item_fields=own,
        seed=seed,
        events=len(events),
        rows=len(rows),
    )
    return whole, facts


def belongs_to_item(frame: pl.DataFrame, name: str, *, user: str, item: str) -> bool:
    """Whether rows of one item and different users agree in a field far more than rows of different items.

    Agreement is counted above chance, as in Cohen's kappa. Rows of one user would agree in what describes the user.
    """
    column = frame[name]
    if column.dtype.is_nested():
        column = column.cast(pl.List(pl.String)).list.join("\0")
    rows = pl.DataFrame({"user": as_text(frame[user]), "item": as_text(frame[item]), "value": as_text(column)})
    rows = rows.unique(["user", "item"], keep="first", maintain_order=True).sort("item", maintain_order=True)
    values = rows["value"].fill_null("").rank("dense").to_numpy()
    same = (rows["item"] == rows["item"].shift(1)).fill_null(False).to_numpy()[1:]
    if not same.any():
        return False
    agreed = float((values[1:] == values[:-1])[same].mean())
    chance = float((values == np.roll(values, len(values) // 2)).mean())
    return agreed - chance >= STEADY * (1 - chance) > 0


def _places(frame: pl.DataFrame, user: str, context: tuple[str, ...]) -> Integers:
    """The number of the user, or of the user in the context, of each row."""
    named = pl.DataFrame([as_text(frame[name]).alias(name) for name in dict.fromkeys((user, *context))])
    return named.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()


def _had(keys: Integers, known: Booleans, times: pl.Series | None) -> tuple[Integers, Integers | None, Integers | None]:
    """What was had, sorted and distinct; when it was had first; and when each row is. The last two only with times."""
    if times is None:
        return np.unique(keys[known]), None, None
    now = times.rank("dense").to_numpy().astype(np.int64)
    order = np.lexsort((now[known], keys[known]))
    had, first = np.unique(keys[known][order], return_index=True)
    return had, now[known][order][first], now


def _drawn(
    places: Integers,
    had: Integers,
    counts: Integers,
    settings: NegativeSettings,
    seed: int,
    since: Integers | None,
    now: Integers | None,
) -> Integers:
    rng = generator(Purpose.SAMPLED_NEGATIVES, seed)
    chances = chances_of(counts, settings.by)
    bounds = np.cumsum(chances)

    def candidates(_: int, pending: Integers) -> Integers:
        if settings.by == "uniform":
            return rng.integers(len(chances), size=len(pending))
        return items_at(bounds, rng.random(len(pending)))

    repeated = np.repeat(places, settings.per_event)
    moments = None if now is None else np.repeat(now, settings.per_event)
    return draw_items(
        repeated, had, chances, candidates, lambda pending: rng.random(len(pending)), since=since, now=moments
    )


def _row_of_each(codes: Integers, values: pl.DataFrame) -> Integers:
    """For each item a row that has its most frequent values; the first such row."""
    rows = pl.DataFrame({"code": codes, "row": np.arange(len(codes))}).hstack(
        [column.alias(f"value {number}") for number, column in enumerate(values)]
    )
    best = (
        rows.filter(pl.col("code") >= 0)
        .group_by(pl.exclude("row"))
        .agg(pl.len().alias("count"), pl.col("row").min())
        .sort("code", "count", "row", descending=[False, True, False])
        .unique("code", keep="first", maintain_order=True)
    )
    return best["row"].to_numpy().astype(np.int64)
