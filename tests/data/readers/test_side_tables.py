"""Side tables: the log is that of a table joined by hand, and what does not match is named or counted."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resus import BuildOptions, TableSchema, build_log
from resus.checking import checked
from resus.data.doctor import examine
from resus.data.prepare import prepare_log
from resus.errors import DataError

KEEP = BuildOptions(duplicates="keep", single_events="keep")
ROLES = {"user": "who", "item": "what", "label": "click", "time": "at"}
USER_FIELDS = {"country": "categorical"}
ITEM_FIELDS = {"genres": "multi", "kind": "categorical", "year": "numeric"}
SCHEMA = """
user: who
item: what
label: click
time: at
users: {path: people.csv, key: id, fields: {country: categorical}}
items: {path: things.parquet, fields: {genres: multi, price: numeric}}
"""


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_joined_table_gives_the_log_of_one_joined_by_hand(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*(st.integers(0, 5) for _ in range(2)), st.integers(0, 1)), min_size=1))
    rows = [*rows, (0, 0, 0), (0, 1, 1)]
    events = pl.DataFrame(rows, schema=["who", "what", "click"], orient="row").with_row_index("at")
    people = pl.DataFrame({"id": ["0", "1.0", "4"], "country": ["a", None, "b"]})
    things = pl.DataFrame({"what": [0.0, 1.0, 5.0], "genres": ["x|y", "z", "x"], "kind": [True, False, None]})
    things = things.with_columns(year=pl.Series([1990.0, 2001.5, 2020.0]))
    sides = {
        "users": {"frame": people, "key": "id", "fields": USER_FIELDS},
        "items": {"frame": things, "fields": ITEM_FIELDS},
    }
    log = build_log(events, checked(TableSchema, ROLES | sides), KEEP)
    by_hand = events.join(
        pl.DataFrame({"who": [0, 1, 4], "country": people["country"]}), on="who", how="left", maintain_order="left"
    ).join(things.cast({"what": pl.Int64}), on="what", how="left", maintain_order="left")
    expected = build_log(by_hand, checked(TableSchema, ROLES | {"fields": USER_FIELDS | ITEM_FIELDS}), KEEP)
    assert log.content_hash == expected.content_hash
    assert log.manifest.table is not None
    assert (log.manifest.table.of_user, log.manifest.table.of_item) == (("country",), ("genres", "kind", "year"))
    counts = log.manifest.sides["users"]
    assert counts.events == sum(user not in (0, 1, 4) for user, *_ in rows)
    assert counts.missing == len({user for user, *_ in rows} - {0, 1, 4})
    assert counts.unused == len({0, 1, 4} - {user for user, *_ in rows})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "events.csv").write_text(
        "who,what,click,at\n" + "".join(f"u{row % 3},{row % 4},{row % 2},{row}\n" for row in range(12))
    )
    (tmp_path / "people.csv").write_text("id,country\nu0,de\nu1,fr\nu2,\n")
    pl.DataFrame({"what": range(4), "genres": [["x"], ["y", "z"], [], None], "price": [1.0, 2, 3, 4]}).write_parquet(
        tmp_path / "things.parquet"
    )
    return tmp_path


def run(place: Path) -> Any:
    return prepare_log(str(place / "events.csv"), place / "log", schema=place / "schema.yaml")


def test_it_works_with_files_and_is_made_again_when_a_side_table_changes(place: Path) -> None:
    log = run(place)
    assert [field.name for field in log.features.fields] == ["what", "country", "genres", "price"]
    assert {Path(file.path).name for file in log.manifest.files} == {"events.csv", "people.csv", "things.parquet"}
    assert [side.sentence("user") for side in log.manifest.sides.values()] == ["", ""]
    (place / "people.csv").write_text("id,country\nu0,de\nu1,it\nu9,it\n")
    os.utime(place / "people.csv", ns=(1, 1))
    again = run(place)
    assert again.content_hash != log.content_hash
    problems, notices = examine(place / "events.csv", TableSchema.read(place / "schema.yaml"))
    assert problems == []
    (notice,) = notices
    assert "people.csv: 1 user has no row (4 of the events, the first in events.csv, row 4)" in notice
    assert "1 of 3 rows names no user of the events, first row 4" in notice


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda place: (place / name).write_text(text)


def things(**columns: Any) -> Callable[[Path], object]:
    whole = {"what": list(range(4)), "genres": ["x"] * 4, "price": [1.0] * 4} | columns
    return lambda place: pl.DataFrame(whole).write_parquet(place / "things.parquet")


def needed_price(place: Path) -> None:
    (place / "schema.yaml").write_text(SCHEMA.replace("price: numeric", "price: {kind: numeric, missing: refuse}"))
    pl.DataFrame({"what": range(3), "genres": ["x"] * 3, "price": [1.0] * 3}).write_parquet(place / "things.parquet")


def pipe(place: Path) -> None:
    (place / "people.csv").unlink()
    os.mkfifo(place / "people.csv")


def misnamed(place: Path) -> None:
    (place / "schema.yaml").write_text(SCHEMA.replace("item: what", "item: whatt"))


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file of a pattern": (
        lambda place: (place / "schema.yaml").write_text(SCHEMA.replace("people.csv", "none-*.csv")),
        r"none-\*\.csv: no file matches the pattern",
    ),
    "no file": (lambda place: (place / "people.csv").unlink(), r"people\.csv: the file does not exist"),
    "no key": (
        write("people.csv", "idd,country\nu0,de\n"),
        r"people\.csv, column 'id': the key of the users is missing.*key: idd",
    ),
    "an item that the schema misspells": (
        misnamed,
        r"^\S*events\.csv, column 'whatt': the schema says 'item: whatt', but there is no such column among who, what, "
        r"click, at; did you mean 'what'\?$",
    ),
    "no field": (write("people.csv", "id,contry\nu0,de\n"), r"people\.csv, column 'country': .*did you mean 'contry'"),
    "no row": (write("people.csv", "id,country\n"), r"people\.csv: there is no row of data"),
    "no match": (
        write("people.csv", "id,country\n0,de\n1,fr\n"),
        r"people\.csv, row 2, column 'id': none of its 2 rows names a user of the events: .*'0'.*'u0'",
    ),
    "twice": (
        write("people.csv", "id,country\nu0,de\nu1,fr\nu0,de\n"),
        r"people\.csv, row 4, column 'id': 'u0' is listed twice, here and in row 2",
    ),
    "an empty key": (
        write("people.csv", "id,country\nu0,de\n,fr\n"),
        r"people\.csv, row 3, column 'id': the user is empty",
    ),
    "a short row": (write("people.csv", "id,country\nu0,de\nu1\n"), r"people\.csv, row 3: 1 field instead of 2"),
    "a number in two spellings": (
        things(what=["0", "1", "1.0", "2"]),
        r"things\.parquet, row 3, column 'what': '1' is listed twice",
    ),
    "no number": (
        things(price=["1", "2", "x", "4"]),
        r"things\.parquet, row 3, column 'price': 'x' is not a finite number",
    ),
    "an item without a row whose number is needed": (
        needed_price,
        r"events\.csv, row 5, column 'price': item '3' has no row in .*things\.parquet, and the field must not be "
        r"missing \(the first of 3 such rows\)",
    ),
    "a list": (things(price=[[1.0]] * 4), r"things\.parquet, column 'price': each cell holds several values"),
    "damaged": (write("things.parquet", "PAR1"), r"things\.parquet: it is not a whole Parquet file"),
    "a pipe": (
        pipe,
        r"people\.csv: it cannot be read \(it is a named pipe",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_and_nothing_stays(place: Path, case: str) -> None:
    spoil, sentence = WRONG[case]
    spoil(place)
    before = set(place.iterdir())
    with pytest.raises(DataError, match=sentence) as refusal:
        run(place)
    assert "\n" not in str(refusal.value)
    assert set(place.iterdir()) == before
    problems, _ = examine(place / "events.csv", TableSchema.read(place / "schema.yaml"))
    assert str(refusal.value).startswith(str(problems[0]))
