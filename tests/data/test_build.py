from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.given import build_log
from resus.data.options import BuildOptions
from resus.data.schema import TableSchema
from resus.errors import DataError

SCHEMA = TableSchema(user="user", item="item", label="click", time="time")
ROWS = st.lists(
    st.tuples(st.sampled_from(["7", "07", "10", "9"]), st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 3)),
    min_size=1,
    max_size=30,
)


def frame_of(rows: list[tuple[str, str, int, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["user", "item", "click", "time"], orient="row")


@settings(deadline=None)
@given(rows=ROWS, numbers=st.booleans(), as_text=st.booleans())
def test_rows_are_ordered_by_user_and_time_and_ties_keep_their_order(
    rows: list[tuple[str, str, int, int]], numbers: bool, as_text: bool
) -> None:
    rows = [*rows, ("x" if not numbers else "8", "a", 0, 0), ("9", "b", 1, 1), ("9", "b", 0, 10)]
    frame = frame_of(rows)
    frame = frame.with_columns(pl.col("time").cast(pl.String)) if as_text else frame
    log = build_log(frame, SCHEMA, BuildOptions(duplicates="keep", single_events="keep"))
    expected = sorted(rows, key=lambda row: (int(row[0]) if numbers else 0, row[0], row[3]))
    users = list(dict.fromkeys(user for user, *_ in expected))
    assert log.user_ids.to_pylist() == users
    assert log.lengths.tolist() == [sum(row[0] == user for row in rows) for user in users]
    assert log.labels.tolist() == [label for _, _, label, _ in expected]
    vocabulary = log.features.fields[0].values
    assert [vocabulary[code - 1] for code in log.ids[:, 0]] == [item for _, item, _, _ in expected]


@settings(deadline=None)
@given(rows=ROWS, keep=st.sampled_from(["first", "last"]), timeless=st.booleans())
def test_one_of_several_equal_events_is_kept(rows: list[tuple[str, str, int, int]], keep: str, timeless: bool) -> None:
    rows = [*rows, ("1", "a", 0, 0), ("1", "b", 1, 0)]
    options = BuildOptions.model_validate({"duplicates": keep, "single_events": "keep"})
    schema = TableSchema(user="user", item="item", label="click") if timeless else SCHEMA
    log = build_log(frame_of(rows), schema, options)
    kept: dict[tuple[Any, ...], int] = {}
    for user, item, label, time in rows:
        key = (user, item) if timeless else (user, item, time)
        if keep == "last" or key not in kept:
            kept[key] = label
    assert (log.n_rows, log.labels.sum()) == (len(kept), sum(kept.values()))


def test_what_is_wrong_is_refused_with_its_row() -> None:
    rows = [("1", "a", 0, 0), ("1", "b", 1, 1), ("", "a", 0, 2)]
    with pytest.raises(DataError, match="the table, row 3, column 'user': the user is empty"):
        build_log(frame_of(rows), SCHEMA)


@pytest.mark.parametrize("label", [[True, False], ["1", "0"], [1.0, 0.0]])
def test_labels_of_any_type(label: list[Any]) -> None:
    table = {"user": [1, 1], "item": ["a", "b"], "click": label, "time": [1, 2]}
    assert np.array_equal(build_log(table, SCHEMA).labels, [1, 0])
