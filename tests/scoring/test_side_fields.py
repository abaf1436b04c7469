"""Tables to score may leave out the fields of side tables: the scores are those of tables joined by hand."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from planted_models import events, tiny
from resus_process import refused_here, resus_here, succeed_here

from resus import Resus, TableSchema, build_log
from resus.errors import ConfigError, DataError, ResusWarning
from resus.scoring.blocks import FrameBlocks
from resus.scoring.scorer import SUPPORT

SCHEMA = """
user: user
item: item
time: time
label: click
fields: {tags: multi}
users: {path: users.csv, key: who, fields: {country: categorical}}
items: {path: items.parquet, fields: {category: categorical, price: numeric}}
"""
ANSWER = ("probability", "basis", "residual", "support")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events, a table of users, a table of items, and a run in `run`."""
    folder = tmp_path_factory.mktemp("place")
    table = events()
    countries = pl.Series("country", ["de", "fr", "it"])
    users = table.select(who="user").unique(maintain_order=True)
    users = users.with_columns(country=countries.gather((users["who"] % 3).cast(pl.UInt32)))
    users.write_csv(folder / "users.csv")
    table.group_by("item", maintain_order=True).agg(pl.col("category", "price").first()).write_parquet(
        folder / "items.parquet"
    )
    bare = table.drop("category", "price")
    bare.write_csv(folder / "events.csv")
    (folder / "schema.yaml").write_text(SCHEMA)
    tiny().fit(folder / "events.csv", schema=folder / "schema.yaml").save(folder / "run")
    known = pl.col("time") < 5
    bare.filter(known).write_csv(folder / "support.csv")
    bare.filter(~known).drop("click").write_csv(folder / "query.csv")
    return folder


def joined(frame: pl.DataFrame, place: Path) -> pl.DataFrame:
    users = pl.read_csv(place / "users.csv").rename({"who": "user"})
    items = pl.read_parquet(place / "items.parquet")
    for other, key in ((users, "user"), (items, "item")):
        frame = frame.join(other, on=key, how="left", maintain_order="left")
    return frame


def by_hand(place: Path) -> pl.DataFrame:
    """The scores of tables that hold all fields."""
    support, query = (joined(pl.read_csv(place / name), place) for name in ("support.csv", "query.csv"))
    return Resus.load(place / "run").predict(support, query).select(ANSWER)


def test_tables_without_the_fields_are_joined_as_prepare_does(place: Path, tmp_path: Path) -> None:
    expected = by_hand(place)
    model = Resus.load(place / "run")
    assert model.predict(place / "support.csv", place / "query.csv").select(ANSWER).equals(expected)
    for name in ("support", "query"):
        pq.write_table(pl.read_csv(place / f"{name}.csv").to_arrow(), tmp_path / f"{name}.parquet")
    words = ["predict", place / "run", "--support", tmp_path / "support.parquet", "--query", tmp_path / "query.parquet"]
    succeed_here(*words, "--out", "out.parquet", "--block-rows", 7, cwd=tmp_path)
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found.columns == [*pl.read_csv(place / "query.csv").columns, *ANSWER], "the joined fields are not in it"
    np.testing.assert_allclose(found.select(ANSWER).to_numpy(), expected.to_numpy(), atol=1e-5)
    words = ["predict", place / "run", "--support", place / "support.csv", "--query", place / "query.csv"]
    succeed_here(*words, "--explain", "--out", "out.csv", cwd=tmp_path)
    assert pl.read_csv(tmp_path / "out.csv")["support"].equals(expected["support"])


def test_recommend_joins_too(place: Path) -> None:
    model = Resus.load(place / "run")
    log, support = place / "events.csv", pl.read_csv(place / "support.csv")
    recommended = model.recommend(support, log, top=3)
    assert recommended.equals(model.recommend(joined(support, place), log, top=3))


def test_a_filter_that_matches_nothing_and_a_context_that_is_none_are_told(place: Path) -> None:
    model, log = Resus.load(place / "run"), place / "events.csv"
    with pytest.warns(ResusWarning, match="the filter matches no item"):
        assert model.recommend(place / "support.csv", log, filter={"category": "none"}).is_empty()
    with pytest.raises(DataError, match="context: 'nothing' is not a field of the situation"):
        model.recommend(place / "support.csv", log, context={"nothing": 1})


def test_tables_may_be_folders_of_parts(place: Path, tmp_path: Path) -> None:
    support = pl.read_csv(place / "support.csv")
    support.head(40).write_csv(tmp_path / "part-0.csv")
    support.slice(40).write_csv(tmp_path / "part-1.csv")
    model, query = Resus.load(place / "run"), place / "query.csv"
    expected = by_hand(place)
    for parts in (tmp_path, tmp_path / "part-*.csv"):
        assert model.predict(parts, query).select(ANSWER).equals(expected)
    with pytest.raises(DataError, match="no file matches the pattern"):
        model.predict(tmp_path / "none-*.csv", query)


def test_a_column_of_the_table_wins_and_no_side_table_is_read(place: Path, tmp_path: Path) -> None:
    model = Resus.load(place / "run")
    support, query = (joined(pl.read_csv(place / f"{name}.csv"), place) for name in ("support", "query"))
    other = query.with_columns(country=pl.lit("it"))
    expected = model.predict(support, other)
    assert not expected.equals(model.predict(support, query))
    assert model.predict(support, other.drop("category", "price")).equals(expected)
    assert model.predict(support, other, users=tmp_path / "none.csv", items=tmp_path / "none.csv").equals(expected)


def test_users_and_items_without_a_row_are_told(place: Path, tmp_path: Path) -> None:
    pl.read_csv(place / "users.csv").filter(pl.col("who") > 3).write_csv(tmp_path / "some.csv")
    words = ["predict", place / "run", "--support", place / "support.csv", "--query", place / "query.csv"]
    said = resus_here(*words, "--users", "some.csv", "--out", "out.csv", cwd=tmp_path).stderr
    support = pl.read_csv(place / "support.csv")
    rows = support.filter(pl.col("user") <= 3)
    first = 1 + int((support["user"] <= 3).arg_true()[0])
    assert (
        f"some.csv: {rows['user'].n_unique()} users have no row ({rows.height} of the rows of the support, the first "
        f"in the support, row {first}), so the fields are missing there" in said
    )
    assert "of the rows of the query" in said
    assert "rows name no" not in said, "users who are not asked about are no news"
    model, people = Resus.load(place / "run"), pl.read_csv(tmp_path / "some.csv")
    with pytest.warns(ResusWarning, match="users have no row"):
        model.recommend(support, place / "events.csv", users=people)
    with pytest.warns(ResusWarning, match="users have no row"):
        model.predict(support, support, users=people)


def test_values_of_side_tables_that_the_model_does_not_know_are_told(place: Path) -> None:
    people = pl.read_csv(place / "users.csv").with_columns(country=pl.lit("nowhere"))
    support = pl.read_csv(place / "support.csv")
    with pytest.warns(ResusWarning, match=rf"{support.height} of {support.height} values of 'country' are unknown"):
        Resus.load(place / "run").predict(support, support, users=people)


def test_a_field_that_must_not_be_missing_names_the_row_without_one(place: Path, tmp_path: Path) -> None:
    schema = TableSchema.read(place / "schema.yaml")
    assert schema.items is not None
    items = pl.read_parquet(place / "items.parquet").with_columns(pl.col("price").fill_null(0))
    fields = {**schema.items.fields, "price": {"kind": "numeric", "missing": "refuse"}}
    raw = schema.model_dump() | {"items": {"frame": items, "fields": fields}, "fields": {"tags": "multi"}}
    model = tiny().fit(pl.read_csv(place / "events.csv"), schema=raw)
    support = pl.read_csv(place / "support.csv")
    fewer = items.filter(pl.col("item") != support["item"][0])
    with pytest.raises(
        DataError, match=r"the support, row 1, column 'price': item '\d+' has no row in the table of it"
    ):
        model.predict(support, support, items=fewer)


def test_wrong_side_tables_are_one_sentence(place: Path, tmp_path: Path) -> None:
    words = ["predict", place / "run", "--support", place / "support.csv", "--query", place / "query.csv"]
    words += ["--out", "out.csv"]
    (tmp_path / "twice.csv").write_text("who,country\n1,de\n1,fr\n")
    assert "twice.csv, row 3, column 'who': '1' is listed twice" in refused_here(
        *words, "--users", "twice.csv", cwd=tmp_path
    )
    (tmp_path / "other.csv").write_text("id,country\n1,de\n")
    assert "the key of the users is missing" in refused_here(*words, "--users", "other.csv", cwd=tmp_path)
    said = refused_here(*words, "--users", "none.csv", cwd=tmp_path)
    assert said == (
        "the support has no column 'country', and there is no table of users at none.csv: name a file with --users, or "
        "add the column to the support"
    )
    assert not list(tmp_path.glob("*out*"))
    with pytest.raises(DataError, match=r"name a file with users=, or add the column"):
        Resus.load(place / "run").predict(place / "support.csv", place / "query.csv", users="none.csv")


def test_side_tables_that_were_frames_are_given_again(place: Path) -> None:
    raw = TableSchema.read(place / "schema.yaml").model_dump()
    frames = {"users": pl.read_csv(place / "users.csv"), "items": pl.read_parquet(place / "items.parquet")}
    for role, frame in frames.items():
        raw[role] = raw[role] | {"path": None, "frame": frame}
    model = tiny().fit(pl.read_csv(place / "events.csv"), schema=raw)
    with pytest.raises(
        DataError, match=r"no column 'country', and the model knows no table of users: name a file with "
    ):
        model.predict(place / "support.csv", place / "query.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            model.predict(place / "support.csv", place / "query.csv", users=frames["users"], items=frames["items"])
            .select(ANSWER)
            .equals(by_hand(place))
        )
    bare = {"user": "user", "item": "item", "label": "click", "time": "time", "fields": {"tags": "multi"}}
    other = tiny().fit(pl.read_csv(place / "events.csv"), schema=bare)
    with pytest.raises(ConfigError, match=r"the schema of the model has no table of users: leave out users="):
        other.predict(place / "support.csv", place / "query.csv", users=frames["users"])


def test_an_event_without_an_item_misses_no_row(place: Path) -> None:
    support = pl.read_csv(place / "support.csv").head(3).with_columns(item=pl.Series([None, 999, 999]))
    (said,) = Resus.load(place / "run").scorer.notices({SUPPORT: FrameBlocks(support)})
    assert "1 item has no row (2 of the rows of the support, the first in the support, row 2)" in said


def test_users_without_a_row_are_told_next_to_a_log(place: Path) -> None:
    model, log = Resus.load(place / "run"), build_log(place / "events.csv", place / "schema.yaml")
    people = pl.read_csv(place / "users.csv").filter(pl.col("who") > 3)
    with pytest.warns(ResusWarning, match="users have no row .* of the rows of the query"):
        model.predict(log, place / "query.csv", users=people)


def test_parts_may_be_parquet_and_end_like_one_file(place: Path, tmp_path: Path) -> None:
    """As Spark writes them: the folder has the ending of its parts."""
    for name in ("support", "query"):
        frame = pl.read_csv(place / f"{name}.csv")
        (tmp_path / f"{name}.parquet").mkdir()
        for number, part in enumerate(frame.iter_slices(30)):
            part.write_parquet(tmp_path / f"{name}.parquet" / f"part-{number:02}.parquet")
    expected = by_hand(place)
    pl.read_csv(place / "query.csv").write_parquet(tmp_path / "one.parquet")
    for query in ("query.parquet", "query.parquet/part-*.parquet", "one.parquet"):
        for support in ("support.parquet", "support.parquet/part-*.parquet"):
            words = ["predict", place / "run", "--support", support, "--query", query, "--out", "out.parquet"]
            succeed_here(*words, cwd=tmp_path)
            found = pl.read_parquet(tmp_path / "out.parquet").select(ANSWER)
            np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), atol=1e-5)


def test_scores_are_not_written_over_a_table_that_is_read(place: Path, tmp_path: Path) -> None:
    support = pl.read_csv(place / "support.csv")
    (tmp_path / "parts").mkdir()
    support.write_csv(tmp_path / "parts" / "part-0.csv")
    people, own = tmp_path / "people.csv", place / "items.parquet"
    people.write_bytes((place / "users.csv").read_bytes())
    words = ["predict", place / "run", "--support", "parts", "--query", place / "query.csv", "--users", people]
    for out in (people, own, place / "users.csv", tmp_path / "parts" / "part-0.csv"):
        more = [] if out != place / "users.csv" else ["--users", place / "users.csv"]
        before = out.read_bytes()
        assert "is also an input table" in refused_here(*words, *more, "--out", out, cwd=tmp_path)
        assert out.read_bytes() == before
    words = ["recommend", place / "run", "--support", "parts", "--out", own]
    assert "is also an input table" in refused_here(*words, cwd=tmp_path)


def test_a_log_is_joined_with_the_frames_that_the_model_did_not_keep(place: Path) -> None:
    raw = TableSchema.read(place / "schema.yaml").model_dump()
    frames = {"users": pl.read_csv(place / "users.csv"), "items": pl.read_parquet(place / "items.parquet")}
    for role, frame in frames.items():
        raw[role] = raw[role] | {"path": None, "frame": frame}
    table, support = pl.read_csv(place / "events.csv"), pl.read_csv(place / "support.csv")
    model = tiny().fit(table, schema=raw)
    found = model.recommend(support, table, top=3, users=frames["users"], items=frames["items"])
    assert found.equals(Resus.load(place / "run").recommend(support, place / "events.csv", top=3))
    lost = "the events are joined with a table of users, and the model knows none: build a log"
    with pytest.raises(DataError, match=lost):
        model.evaluate(table)
    assert model.evaluate(build_log(table, raw), draws=0).models


def test_a_table_that_is_gone_is_named_with_the_way_out(place: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(place, moved)
    tiny().fit(moved / "events.csv", schema=moved / "schema.yaml").save(tmp_path / "run")
    shutil.rmtree(moved)
    model = Resus.load(tmp_path / "run")
    with pytest.raises(DataError, match=rf"a table of users, and there is none at {moved}/users.csv: build a log from"):
        model.evaluate(place / "events.csv")
    with pytest.raises(DataError, match=rf"no table of users at {moved}/users.csv: name a file with users="):
        model.predict(place / "support.csv", place / "query.csv")
