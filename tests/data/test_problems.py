from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.options import BuildOptions
from resus.data.problems import Problem, find_problems, refuse
from resus.data.schema import TableSchema
from resus.errors import DataError

SCHEMA = TableSchema.model_validate(
    {
        "user": "user",
        "item": "item",
        "label": "click",
        "time": "time",
        "fields": {
            "price": {"kind": "numeric", "missing": "refuse"},
            "colour": "categorical",
            "genres": "multi",
        },
    }
)
RATED = SCHEMA.model_copy(update={"label_threshold": 3.0})
LINES = pl.Series(range(2, 100))
Rows = dict[str, list[Any]]


def good_rows(n: int) -> Rows:
    return {
        "user": [f"u{row % 2}" for row in range(n)],
        "item": [f"i{row}" for row in range(n)],
        "click": [row % 2 for row in range(n)],
        "time": list(range(n)),
        "price": [row / 4 for row in range(n)],
        "colour": [None if row % 3 else "red" for row in range(n)],
        "genres": [["a", "b"] if row % 2 else [] for row in range(n)],
    }


def texts(rows: Rows) -> Rows:
    return {name: [None if cell is None else str(cell) for cell in column] for name, column in rows.items()}


def find(rows: Rows, schema: TableSchema = SCHEMA, *, as_text: bool = False) -> list[Problem]:
    frame = pl.DataFrame(texts(rows) if as_text else rows, strict=False)
    return find_problems(frame, schema, BuildOptions(), where="events.csv", lines=LINES[: frame.height])


@given(n=st.integers(4, 40).map(lambda half: half * 2), as_text=st.booleans())
def test_a_good_table_has_no_problem(n: int, as_text: bool) -> None:
    assert find(good_rows(n), as_text=as_text) == []


CELL_FAULTS: list[tuple[str, Any, str]] = [
    ("user", None, "the user is empty"),
    ("user", "  ", "the user is empty"),
    ("item", None, "the item is empty"),
    ("item", "", "the item is empty"),
    ("click", None, "the value is missing"),
    ("click", float("nan"), "missing"),
    ("click", 0.5, "neither 0 nor 1"),
    ("click", -1, "neither 0 nor 1"),
    ("time", None, "the time is missing"),
    ("price", None, "the value is missing"),
    ("price", float("inf"), "not a finite number"),
]
TEXT_FAULTS: list[tuple[str, str, str]] = [
    ("click", "yes", "'yes' is not a finite number"),
    ("click", "nan", "'nan' is not a finite number"),
    ("time", "soon", "'soon' is neither a number nor a date"),
    ("price", "4,5", "'4,5' is not a finite number"),
]


@settings(deadline=None)
@given(fault=st.sampled_from(CELL_FAULTS), rows=st.sets(st.integers(0, 9), min_size=1, max_size=3))
def test_one_fault_gives_one_problem_with_its_first_row(fault: tuple[str, Any, str], rows: set[int]) -> None:
    column, cell, what = fault
    table = good_rows(10)
    for row in rows:
        table[column][row] = cell
    found = find(table)
    assert [(problem.row, problem.column) for problem in found] == [(min(rows) + 2, column)]
    assert what in found[0].what
    assert (f"first of {len(rows)}" in found[0].what) == (len(rows) > 1)


@pytest.mark.parametrize("missing", ["mean", "zero", "flag"])
@pytest.mark.parametrize("cell", [None, float("nan")])
def test_a_missing_number_is_a_problem_only_if_the_schema_refuses_it(missing: str, cell: float | None) -> None:
    roles = SCHEMA.model_dump()
    roles["fields"]["price"] = {"kind": "numeric", "missing": missing}
    table = good_rows(10)
    table["price"][3] = cell
    assert find(table, TableSchema.model_validate(roles)) == []
    assert [problem.what for problem in find(table)] == ["the value is missing"]


@given(fault=st.sampled_from(TEXT_FAULTS), row=st.integers(0, 9))
def test_text_that_does_not_parse_is_named(fault: tuple[str, str, str], row: int) -> None:
    column, cell, what = fault
    table = texts(good_rows(10))
    table[column][row] = cell
    assert [(problem.row, problem.column) for problem in find(table)] == [(row + 2, column)]
    assert what in find(table)[0].what


def test_all_faults_are_found_together() -> None:
    table = texts(good_rows(20))
    for row, (column, cell, _) in enumerate(TEXT_FAULTS):
        table[column][row] = cell
    table["user"][10] = ""
    table["item"][11] = ""
    table["user"][12] = "alone"
    for name in table:
        table[name][15] = table[name][13]
    del table["colour"]
    found = {(problem.row, problem.column) for problem in find(table)}
    assert found == {
        (None, "colour"),
        (2, "click"),
        (4, "time"),
        (5, "price"),
        (12, "user"),
        (13, "item"),
        (14, "user"),
        (17, "user"),
    }


@given(n=st.integers(3, 12), original=st.integers(0, 11), copy=st.integers(0, 11), timeless=st.booleans())
def test_a_repeated_event_names_both_rows(n: int, original: int, copy: int, timeless: bool) -> None:
    original, copy = sorted((original % n, copy % n))
    table = good_rows(2 * n)
    for name in table:
        table[name][n + copy] = table[name][original]
    schema = SCHEMA.model_copy(update={"time": None}) if timeless else SCHEMA
    repeated = [problem for problem in find(table, schema) if "same user" in problem.what]
    assert [problem.row for problem in repeated] == [n + copy + 2]
    assert f"as in row {original + 2}" in repeated[0].what


def test_the_same_user_and_item_in_another_context_is_no_repetition() -> None:
    table = good_rows(8)
    for name in ("user", "item"):
        table[name][3] = table[name][1]
    timeless = SCHEMA.model_copy(update={"time": None})
    assert find(table) == find(table, timeless) == []


@pytest.mark.parametrize(("schema", "value"), [(SCHEMA, 1), (SCHEMA, 0), (RATED, 5), (RATED, 2.5)])
def test_labels_that_are_all_equal(schema: TableSchema, value: float) -> None:
    table = good_rows(6) | {"click": [value] * 6}
    found = find(table, schema)
    assert [problem.column for problem in found] == ["click"]
    assert f"every label is {int(value >= 3) if schema is RATED else value}" in found[0].what


def test_a_rating_is_no_fault_where_there_is_a_threshold() -> None:
    table = good_rows(6) | {"click": [1, 2, 3, 4, 5, 4.5]}
    assert find(table, RATED) == []
    assert len(find(table, SCHEMA)) == 1


def test_a_misspelt_column_is_answered_with_the_nearest() -> None:
    table = good_rows(6)
    table["users"] = table.pop("user")
    (problem,) = find(table)
    assert problem.column == "user"
    assert problem.fix == "did you mean 'users'?"


def test_an_empty_table_and_a_list_where_one_value_belongs() -> None:
    assert "no row" in find({name: [] for name in good_rows(1)})[0].what
    table = good_rows(6) | {"colour": [["red"]] * 6}
    (problem,) = find(table)
    assert (problem.column, "multi" in problem.fix) == ("colour", True)


@pytest.mark.parametrize(
    "convert", [lambda t: f"2024-01-{t + 1:02d}", lambda t: f"2024-01-{t + 1:02d}T10:00:00", lambda t: t + 0.5]
)
def test_dates_and_numbers_are_times(convert: Callable[[int], Any]) -> None:
    table = good_rows(8)
    table["time"] = [convert(time) for time in table["time"]]
    assert find(table) == find(table, as_text=True) == []


def test_line_numbers_come_from_the_file_where_they_are_known() -> None:
    table = good_rows(6)
    table["price"][4] = None
    for lines, row in ((None, 5), (pl.Series([2, 3, 9, 10, 40, 41]), 40)):
        (problem,) = find_problems(pl.DataFrame(table), SCHEMA, BuildOptions(), where="x", lines=lines)
        assert problem.row == row


def test_checks_that_are_not_asked_for_are_not_made() -> None:
    table = good_rows(6)
    table["user"][0] = "alone"
    table["user"][3], table["item"][3], table["time"][3] = table["user"][1], table["item"][1], table["time"][1]
    assert len(find(table)) == 2
    options = BuildOptions(duplicates="keep", single_events="drop")
    assert find_problems(pl.DataFrame(table), SCHEMA, options, where="x") == []


def test_refuse_says_one_sentence_and_how_many_more() -> None:
    refuse([])
    problem = Problem("events.csv", 7, "price", "the value is missing", "fill it")
    with pytest.raises(DataError) as one:
        refuse([problem])
    assert str(one.value) == "events.csv, row 7, column 'price': the value is missing; fill it"
    with pytest.raises(DataError, match=r"fill it \(and 2 more, see the error's 'problems'\)$"):
        refuse([problem] * 3)
