"""Rows of a support or query table, checked; errors count the rows of the whole table, of which this may be a block."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import as_numbers, as_text
from resus.data.schema import TableSchema
from resus.errors import DataError

SUPPORT, QUERY = "the support", "the query"


def check_columns(present: Collection[str], features: FeatureMap, schema: TableSchema, where: str) -> None:
    """Refuse a table without the columns that it takes, before any row is read."""
    if schema.user not in present:
        raise DataError(f"{where} has no column '{schema.user}', which says whose rows these are")
    if where == SUPPORT and schema.label not in present:
        raise DataError(f"{where} has no column '{schema.label}': it must say what the user did with each row")
    features.check_columns(present, where)


def users_of(frame: pl.DataFrame, schema: TableSchema, where: str, first_row: int = 0) -> pl.Series:
    """The rows' users as text."""
    users = as_text(frame[schema.user])
    empty = users.is_null() | (users == "")
    if empty.any():
        row = first_row + int(empty.arg_true()[0])
        raise DataError(f"{where}, column '{schema.user}', row {row + 1}: the user is empty; fill it in")
    return users


def labels_of(support: pl.DataFrame, schema: TableSchema, first_row: int = 0) -> npt.NDArray[np.float32]:
    """What the users did, as 0 and 1."""
    labels = pl.Series(as_numbers(support[schema.label])[0]).fill_nan(None)
    if schema.label_threshold is not None:
        labels = (labels >= schema.label_threshold).cast(pl.Float64)
    bad = ~labels.is_in([0.0, 1.0]).fill_null(False)
    if bad.any():
        row = int(bad.arg_true()[0])
        wanted = "0 or 1" if schema.label_threshold is None else "a number"
        raise DataError(
            f"{SUPPORT}, column '{schema.label}', row {first_row + row + 1}: "
            f"{support[schema.label][row]!r} is not {wanted}; write {wanted}"
        )
    return labels.to_numpy().astype(np.float32)
