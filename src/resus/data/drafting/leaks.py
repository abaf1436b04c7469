"""Columns that give the label away: what is known only after a click, such as the time spent on a page."""

import numpy as np
import polars as pl

from resus.arrays import Booleans, Doubles
from resus.data.drafting.roles import Column

TOO_GOOD = 0.98  # AUC of a single column
SURE = 0.995  # share of clicks among the rows in which a column says something
FEW = 30  # such rows prove nothing
ENOUGH_ROWS = 200_000


def gives_label_away(column: Column, clicked: Booleans) -> str | None:
    """Why a column must not be a field; None if nothing speaks against it."""
    step = -(-len(clicked) // ENOUGH_ROWS)
    rows = slice(None, None, step)
    labels, text = clicked[rows], column.text[rows]
    share = float(labels.mean())
    if not FEW <= labels.sum() <= len(labels) - FEW:
        return None
    usual = text.fill_null("").mode()[0]
    says = (text.fill_null("") != usual).to_numpy()
    if says.sum() >= FEW and labels[says].mean() >= SURE and share <= 0.9:
        when = "is filled" if usual == "" else f"differs from {usual!r}"
        return f"it gives the label away: it {when} only in rows with label 1"
    if says.sum() >= FEW and labels[says].mean() <= 1 - SURE and share >= 0.1:
        when = "is filled" if usual == "" else f"differs from {usual!r}"
        return f"it gives the label away: it {when} only in rows with label 0"
    reached = _auc_of_column(column, text, labels, rows)
    if reached >= TOO_GOOD:
        return f"it gives the label away: alone it has an AUC of {reached:.3f}"
    return None


def _auc_of_column(column: Column, text: pl.Series, labels: Booleans, rows: slice) -> float:
    """Of a number, either way round; of other values by their share of clicks in the other half of the rows."""
    if column.numbers is not None and column.distinct > 2:
        numbers = column.numbers[rows]
        known = np.isfinite(numbers)
        found = _auc(numbers[known], labels[known])
        return max(found, 1 - found)
    half = np.arange(len(labels)) % 2 == 0
    learned = pl.DataFrame({"value": text.fill_null(""), "clicked": labels})
    shares = learned.filter(pl.Series(half)).group_by("value").agg(pl.col("clicked").mean())
    scores = learned.filter(pl.Series(~half)).join(shares, on="value", how="left", maintain_order="left")
    return _auc(scores["clicked_right"].fill_null(float(labels.mean())).to_numpy(), labels[~half])


def _auc(scores: Doubles, labels: Booleans) -> float:
    clicks = int(labels.sum())
    others = len(labels) - clicks
    if not clicks or not others:
        return 0.5
    ranks = pl.Series(scores).rank("average").to_numpy()
    return float((ranks[labels].sum() - clicks * (clicks + 1) / 2) / (clicks * others))
