"""The same rows as CSV, Parquet, pandas, polars and JSON have the same ids and weights, for every field kind."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_models import KEEP
from pydantic import ValidationError

from resus import build_log
from resus.data.fields import KINDS
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import as_text, spelled
from resus.data.readers.frames import as_frame
from resus.data.readers.tables import read_plain, write_plain
from resus.data.schema import TableSchema
from resus.scoring.scorer import Scorer
from resus.serving.messages import PostedEvent, PredictRequest

WORDS = st.sampled_from(["a", "b", "True", "true", "FALSE", "3", "3.0", "007", "1.10", "1e5", "", "é x", 'q"', "x,y"])
FLOATS = st.integers(-9000, 9000).map(lambda number: number / 1000) | st.sampled_from([3.0, -0.0, 1e9, 0.5])
INTEGERS = st.integers(-3, 3) | st.integers(-(10**9), 10**9)
DAYS = st.dates(date(2024, 1, 1), date(2024, 1, 3))
TIMES = st.sampled_from([datetime(2024, 1, 1), datetime(2024, 1, 1, 10), datetime(2024, 1, 2, 0, 0, 0, 500)])
ZONED = TIMES.map(lambda moment: moment.replace(tzinfo=UTC))
CLOCKS = st.sampled_from([time(10), time(10, 30, 1), time(0, 0, 0, 500)])
NUMBER_TEXTS = FLOATS.map(str) | st.sampled_from([" 3 ", "+3", "1e2", "true", "False", ""])
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    pl.String: WORDS,
    pl.Boolean: st.booleans(),
    pl.Int64: INTEGERS,
    pl.Float64: FLOATS,
    pl.Date: DAYS,
    pl.Datetime: TIMES,
    pl.Datetime(time_zone="UTC"): ZONED,
    pl.Time: CLOCKS,
}
NUMBERS: dict[Any, st.SearchStrategy[Any]] = {
    pl.Boolean: st.booleans(),
    pl.Int64: INTEGERS,
    pl.Float64: FLOATS,
    pl.String: NUMBER_TEXTS,
}
LISTS = {
    pl.List(kind): st.lists(values | st.none(), max_size=4)
    for kind, values in SCALARS.items()
    if not getattr(kind, "time_zone", None)  # a list in pandas has no time zone
}
COLUMNS = {"categorical": SCALARS, "numeric": NUMBERS, "multi": SCALARS | LISTS}


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(1, 6))
    columns = {"item": pl.Series([f"i{row % 3}" for row in range(rows)])}
    for kind in KINDS:
        dtype = draw(st.sampled_from(list(COLUMNS[kind])))
        values = draw(st.lists(COLUMNS[kind][dtype] | st.none(), min_size=rows, max_size=rows))
        columns[kind] = pl.Series(values, dtype=dtype)
    return pl.DataFrame(columns)


ROLES = {"user": "user", "item": "item", "label": "click"}
SCHEMA = TableSchema.model_validate(ROLES | {"fields": {kind: kind for kind in KINDS}})


def written(value: Any) -> str:
    """As Python and pandas write a cell."""
    return "|".join(map(written, value)) if isinstance(value, list) else "" if value is None else str(value)


def forms(table: pl.DataFrame, folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """The same rows, as each kind of table has them."""
    yield "polars", table
    pandas = table.to_pandas()
    yield "pandas", as_frame(pandas)
    yield "Arrow", as_frame(table.to_arrow())
    write_plain(table, folder / "table.parquet")
    yield "Parquet", read_plain(folder / "table.parquet", SCHEMA)
    with (folder / "python.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([table.columns, *([written(cell) for cell in row] for row in table.iter_rows())])
    yield "CSV of Python", read_plain(folder / "python.csv", SCHEMA)
    if not any(dtype.is_nested() for dtype in table.dtypes):
        pandas.to_csv(folder / "pandas.csv", index=False)
        yield "CSV of pandas", read_plain(folder / "pandas.csv", SCHEMA)
        write_plain(table, folder / "polars.csv")
        yield "CSV of polars", read_plain(folder / "polars.csv", SCHEMA)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_the_same_rows_have_the_same_ids_and_weights(table: pl.DataFrame, tmp_path: Path) -> None:
    features = FeatureMap.learn(table, SCHEMA)
    ids, weights = features.encode(table)
    assert weights is not None
    for name, form in forms(table, tmp_path):
        assert FeatureMap.learn(form, SCHEMA) == features, name
        assert features.unknown(form) == features.unknown(table), name
        found_ids, found_weights = features.encode(form)
        assert np.array_equal(found_ids, ids), name
        assert found_weights is not None
        assert np.array_equal(found_weights, weights), name
    rows = json.loads(json.dumps(table.to_dicts(), default=lambda moment: moment.isoformat()))
    found_ids, found_weights = features.encode_rows(rows)
    assert np.array_equal(found_ids, ids)
    assert found_weights is not None
    assert np.array_equal(found_weights, weights)


@settings(deadline=None)
@given(st.lists(WORDS | st.text("TRUEtruefals0123.-:T Z+", max_size=12), min_size=1))
def test_one_text_is_spelled_as_in_a_column_and_only_once(texts: list[str]) -> None:
    column = as_text(pl.Series(texts))
    assert [spelled(text) for text in texts] == column.to_list()
    assert as_text(column).equals(column)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["true", "True", "TRUE", True], "true"),
        (["false", "False", "FALSE", False], "false"),
        (["3", "3.0", "3.00", 3, 3.0, np.float32(3)], "3"),
        (["0", "-0.0", -0.0, 0], "0"),
        (["2024-01-31", "2024-01-31 00:00:00", date(2024, 1, 31), datetime(2024, 1, 31)], "2024-01-31"),
        (["2024-01-31 10:00:00.500", "2024-01-31T10:00:00.5", datetime(2024, 1, 31, 10, 0, 0, 500_000)], None),
        (
            [
                *("2024-01-31T10:00:00Z", "2024-01-31 10:00:00+0000", "2024-01-31T10:00:00.000+00:00"),
                *("2024-01-31T10:00Z", "2024-01-31 10:00:00+00", datetime(2024, 1, 31, 10, tzinfo=UTC)),
            ],
            "2024-01-31T10:00:00+00:00",
        ),
        (
            ["2024-01-31T10:00:00+01:00", "2024-01-31 10:00+01", "2024-01-31T10:00:00.0+0100"],
            "2024-01-31T10:00:00+01:00",
        ),
        (["2024-01-31T10:00", "2024-01-31 10:00:00", datetime(2024, 1, 31, 10)], "2024-01-31T10:00:00"),
        (["10:00:00", "10:00:00.000", time(10)], "10:00:00"),
        (["007"], "007"),
        (["1.10"], "1.10"),
        (["1e5"], "1e5"),
        (["tRUE"], "tRUE"),
    ],
)
def test_one_text_for_one_value(values: list[Any], text: str | None) -> None:
    found = {as_text(pl.Series([value]))[0] for value in values}
    assert len(found) == 1
    assert text is None or found == {text}
    assert as_text(pl.Series([None, float("nan")])).to_list() == [None, None]


LABELS: list[list[Any]] = [
    [True, False, True],
    [1, 0, 1],
    [1.0, 0.0, 1.0],
    ["true", "False", "1"],
    ["1.0", "0", "TRUE"],
]


@pytest.mark.parametrize("labels", LABELS)
def test_a_label_is_read_alike_everywhere(labels: list[Any], tmp_path: Path) -> None:
    table = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], "click": labels})
    schema = TableSchema.model_validate(ROLES)
    for name, form in forms(table, tmp_path):
        log = build_log(form, schema, KEEP)
        assert log.labels.tolist() == [1, 0, 1], name
        assert log.user_ids.to_pylist() == ["1", "2"], name
        model = Scorer(model=None, features=log.features, schema=schema)  # type: ignore[arg-type]  # reads labels only
        assert model.labels(form).tolist() == [1, 0, 1], name
    if all(isinstance(label, bool | int | float) for label in labels):
        posted = [{"item": "a", "label": label} for label in labels]
        read = PredictRequest.model_validate_json(json.dumps({"events": posted, "items": ["a"]}))
        assert [event.label for event in read.events or []] == [1, 0, 1]


TIMES_ALIKE: list[list[Any]] = [
    [date(2024, 2, 1), date(2024, 1, 31), date(2024, 2, 2)],
    ["2024-02-01", "2024-01-31", "2024-02-02"],
    [datetime(2024, 2, 1, 10), datetime(2024, 2, 1, 9, 59), datetime(2024, 2, 1, 10, 0, 0, 1)],
    ["2024-02-01T10:00", "2024-02-01 09:59:00", "2024-02-01T10:00:00.000001"],
    [datetime(2024, 2, 1, 10, tzinfo=timezone(timedelta(hours=hours))) for hours in (1, 2, 0)],
    ["2024-02-01T10:00:00+01:00", "2024-02-01T10:00:00+0200", "2024-02-01T10:00:00Z"],
    [1706781600, 1706781599, 1706781601],
    ["1706781600", "1706781599.5", "1706781601"],
]


@pytest.mark.parametrize("times", TIMES_ALIKE)
def test_events_are_in_the_order_of_their_times_everywhere(times: list[Any], tmp_path: Path) -> None:
    table = pl.DataFrame({"user": ["u"] * 3, "item": ["b", "a", "c"], "click": [0, 1, 0], "at": times})
    schema = TableSchema.model_validate(ROLES | {"time": "at"})
    for name, form in forms(table, tmp_path):
        log = build_log(form, schema, KEEP)
        found = [log.features.decode(row, None)["item"] for row in log.ids]
        assert found == ["a", "b", "c"], name


def test_an_integer_is_an_id_in_a_request_as_in_a_table() -> None:
    body = {"user": 5, "items": [7, "8", 9], "candidates": None}
    read = PredictRequest.model_validate_json(json.dumps(body))
    assert (read.user, read.items) == ("5", ["7", "8", "9"])
    event = {"id": 3, "user": 5, "item": 7, "label": True, "time": 0}
    posted = PostedEvent.model_validate_json(json.dumps(event))
    assert (posted.id, posted.user, posted.item, posted.label) == ("3", "5", "7", 1.0)
    for wrong in (True, 1.5, 2**64, ["a"]):
        with pytest.raises(ValidationError):
            PredictRequest.model_validate_json(json.dumps(body | {"user": wrong}))
        with pytest.raises(ValidationError):
            PredictRequest.model_validate_json(json.dumps(body | {"items": [wrong]}))
