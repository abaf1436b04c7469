"""Any table users have at hand is read, and answered in its own kind."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from resus.data.readers.frames import as_frame, like
from resus.errors import DataError

FRAME = pl.DataFrame({"user": ["u", "v"], "clicks": [1, 2], "price": [0.5, 1.5]})
TABLES: dict[str, Any] = {
    "polars": FRAME,
    "lazy polars": FRAME.lazy(),
    "pandas": pd.DataFrame({"user": ["u", "v"], "clicks": [1, 2], "price": [0.5, 1.5]}, index=[7, 3]),
    "Arrow": FRAME.to_arrow(),
    "Arrow batch": FRAME.to_arrow().combine_chunks().to_batches()[0],
    "arrays": {"user": np.array(["u", "v"]), "clicks": np.array([1, 2]), "price": np.array([0.5, 1.5])},
    "lists": {"user": ["u", "v"], "clicks": [1, 2], "price": [0.5, 1.5]},
    "series": {"user": pl.Series("other", ["u", "v"]), "clicks": pd.Series([1, 2]), "price": (0.5, 1.5)},
}
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@every_table
def test_every_kind_of_table_is_read(table: Any) -> None:
    frame = as_frame(table)
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dict(as_series=False) == FRAME.to_dict(as_series=False)


ANSWER = pl.DataFrame({"user": ["u", "v"], "probability": [0.25, 0.75]})


@every_table
def test_the_answer_is_of_the_same_kind(table: Any) -> None:
    answer = like(table, ANSWER)
    expected = {pa.RecordBatch: pa.Table}.get(type(table), type(table))
    assert type(answer) is expected
    assert as_frame(answer).to_dict(as_series=False) == ANSWER.to_dict(as_series=False)


def test_a_pandas_answer_keeps_the_index_and_a_mapping_gets_arrays() -> None:
    assert like(TABLES["pandas"], ANSWER).index.tolist() == [7, 3]
    assert isinstance(like(TABLES["lists"], ANSWER)["probability"], np.ndarray)


def test_columns_of_different_lengths_are_named() -> None:
    with pytest.raises(DataError, match=r"the query has columns of different lengths: \{'a': 1, 'b': 2\}"):
        as_frame({"a": [1], "b": [1, 2]}, "the query")


@pytest.mark.parametrize("table", [[1, 2], "file.csv", None, pa.array([1, 2]), pd.Series([1, 2])])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(
        DataError, match=r"the query is a .*: give a polars or pandas frame, an Arrow table or stream, or a map"
    ):
        as_frame(table, "the query")
