"""An import leaves the store as if the service had got the events one by one, also after kills."""

import contextlib
import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_models import events
from resus_process import COMMAND, environment, refused_here, succeed_here
from service_fixtures import CAPACITY, Place
from service_process import serving

from resus.data.fields.values import is_missing
from resus.data.schema import TableSchema
from resus.data.stream.blocks import Block
from resus.errors import DataError
from resus.ingest import sorted_parts
from resus.ingest.importing import import_events
from resus.ingest.rows import Rows
from resus.serving import Engine, LoadedModel
from resus.serving.messages import PostedEvent
from resus.serving.store import EventStore, UserRecord, open_store

FIELDS = ("category", "price", "tags")


def table(rows: int = 400, users: int = 7) -> pl.DataFrame:
    """Events in the order of time, some of them twice."""
    some = events().with_columns(user=pl.int_range(pl.len()) % users, time=1_700_000_000 + pl.int_range(pl.len()))
    return pl.concat([some.head(rows), some.slice(10, 5)])


def posted(row: dict[str, Any]) -> dict[str, Any]:
    """A row as a client of the service would send it."""
    return {
        "id": f"{row['item']}@{row['time']}000000",
        "user": row["user"],
        "time": float(row["time"]),
        "label": row["click"],
        "item": row["item"],
        "features": {name: row[name] for name in FIELDS if row[name] is not None},
    }


def contents(store: EventStore, users: range = range(8)) -> dict[str, UserRecord]:
    return {user: store.read(user) for user in map(str, users)}


def told(store: EventStore) -> dict[str, str]:
    """Everything but the versions; as text, for which 1 and 1.0 differ."""
    return {user: f"{record.events} {record.profile}" for user, record in contents(store).items()}


@contextlib.contextmanager
def opened(place: str) -> Iterator[EventStore]:
    with contextlib.closing(open_store(place, capacity=CAPACITY)) as store:
        yield store


def stored_by_the_service(run: Path, place: str, rows: pl.DataFrame) -> dict[str, str]:
    with opened(place) as store:
        engine = Engine(LoadedModel.load(run), store, capacity=CAPACITY)
        for row in rows.iter_rows(named=True):
            engine.observe([PostedEvent.model_validate(posted(row))])
        return told(store)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "folder"])
def test_an_import_leaves_what_the_service_would_have_stored(exported: Path, tmp_path: Path, kind: str) -> None:
    rows = table()
    file = tmp_path / f"events.{kind}"
    if kind == "parquet":
        rows.write_parquet(file, row_group_size=50)
    elif kind == "folder":
        file.mkdir()
        for number, part in enumerate(rows.iter_slices(150)):
            part.write_parquet(file / f"{number}.parquet")
    else:
        rows.write_csv(file, compression="gzip" if kind == "csv.gz" else "uncompressed", check_extension=False)
    if kind.startswith("csv"):  # of which all values are texts
        rows = rows.with_columns(pl.col(*FIELDS).cast(pl.String))
    found = import_events(exported, file, str(tmp_path / "imported"), capacity=CAPACITY)
    with opened(str(tmp_path / "imported")) as store:
        assert told(store) == stored_by_the_service(exported, str(tmp_path / "posted"), rows)
        assert store.users() == 7
        once = contents(store)
    assert (found.rows, found.users, found.skipped) == (405, 7, 0)
    assert found.events == {"added": 7 * CAPACITY, "known": 5, "corrected": 0, "too old": 400 - 7 * CAPACITY}
    again = import_events(exported, file, str(tmp_path / "imported"), capacity=CAPACITY)
    assert again.events["added"] == again.events["corrected"] == 0
    with opened(str(tmp_path / "imported")) as store:
        assert contents(store) == once, "not even a version has changed"


def test_an_import_into_a_store_with_events(exported: Path, tmp_path: Path, place: Place) -> None:
    """In any store: some events are known, some corrected, some too old."""
    rows, where = table(), place()
    rows.write_parquet(tmp_path / "events.parquet")
    before = [posted(row) | {"label": 0} for row in rows.tail(40).iter_rows(named=True)]
    before += [
        posted(row) | {"id": "mine", "time": row["time"] + 0.5} for row in rows.slice(300, 3).iter_rows(named=True)
    ]
    with opened(where) as store, opened(str(tmp_path / "truth")) as truth:
        for each in (store, truth):
            each.set_profile("3", {"price": 3})
            Engine(LoadedModel.load(exported), each, capacity=CAPACITY).observe([PostedEvent(**one) for one in before])
        engine = Engine(LoadedModel.load(exported), truth, capacity=CAPACITY)
        for row in rows.iter_rows(named=True):
            engine.observe([PostedEvent.model_validate(posted(row))])
        with contextlib.chdir(tmp_path):
            found = import_events(exported, tmp_path / "events.parquet", where, capacity=CAPACITY)
        assert told(store) == told(truth)
        assert found.events["corrected"] > 0
    assert not list(tmp_path.glob(".*.import")), "nothing is left"


def test_rows_that_change_an_earlier_row_are_counted_as_the_service_counts_them(exported: Path, tmp_path: Path) -> None:
    """As with a column of ids that is not unique: a repeated row is known, a different one corrects the last one."""
    rows = table(30).with_columns(number=pl.format("n{}", pl.int_range(pl.len()) % 2))
    rows = pl.concat([rows, rows.tail(1)])
    rows.write_csv(tmp_path / "events.csv")
    with opened(str(tmp_path / "truth")) as store:
        engine = Engine(LoadedModel.load(exported), store, capacity=CAPACITY)
        said = Counter(
            result.status
            for row in rows.iter_rows(named=True)
            for result in engine.observe([PostedEvent.model_validate(posted(row) | {"id": row["number"]})]).results
        )
    found = import_events(
        exported, tmp_path / "events.csv", str(tmp_path / "imported"), capacity=CAPACITY, id_column="number"
    )
    assert said["corrected"] > 0
    assert said["known"] > 0
    assert found.events == {"too old": 0, **said}


def test_ids_of_a_column_and_rows_that_are_skipped(exported: Path, tmp_path: Path) -> None:
    rows = table(30).with_columns(number=pl.format("n{}", pl.int_range(pl.len())))
    bad = rows.with_columns(
        click=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("7")).otherwise(pl.col("click").cast(pl.String)),
        price=pl.when(pl.int_range(pl.len()) == 5).then(pl.lit("dear")).otherwise(pl.col("price").cast(pl.String)),
        time=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit(1e13)).otherwise(pl.col("time")),
        user=pl.when(pl.int_range(pl.len()) == 9).then(pl.lit("u" * 201)).otherwise(pl.col("user").cast(pl.String)),
    )
    bad.write_csv(tmp_path / "events.csv")
    words = ["import", exported, "events.csv", "--store", "here.sqlite", "--id", "number"]
    said = refused_here(*words, cwd=tmp_path)
    assert said.startswith("events.csv, row 5, column 'click': the label '7' is neither 0 nor 1; write 0 or 1;"), said
    assert not list(tmp_path.glob(".here.sqlite.import")), "nothing is kept of a table that is refused"
    with opened(str(tmp_path / "here.sqlite")) as store:
        assert store.users() == 0
    assert "31 events of 7 users: 31 added, 0 known" in succeed_here(*words, "--skip-bad", cwd=tmp_path)
    with opened(str(tmp_path / "here.sqlite")) as store:
        assert store.read("0").events[0].id == "n0"


MISTAKES = {
    "user": ({"user": "usr"}, r"there is no such column, which should hold the user; did you mean 'usr'\?"),
    "time": ({"time": "when"}, r"column 'time': there is no such column, which should hold the time"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_table_that_lacks_a_column_is_refused(exported: Path, tmp_path: Path, mistake: str) -> None:
    renamed, said = MISTAKES[mistake]
    table(5).rename(renamed).write_csv(tmp_path / "events.csv")
    with pytest.raises(DataError, match=said):
        import_events(exported, tmp_path / "events.csv", str(tmp_path / "store"), capacity=9)


VALUES = st.one_of(
    st.text(max_size=4),
    st.sampled_from(["nan", "1e400", "3.0", "-", " ", "1e30", "x" * 1001, "0", '"', "\\", "é\u2028"]),
    st.floats().map(str),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.fixed_dictionaries(dict.fromkeys(("user", "item", "time", *FIELDS), VALUES)), min_size=1))
def test_rows_are_read_as_the_service_reads_them(engine: Engine, rows: list[dict[str, str]]) -> None:
    """What the columns let pass at first sight, the service would store just so; what it refuses is refused."""
    schema = TableSchema.model_validate({"user": "user", "item": "item", "label": "click", "time": "time"})
    frame = pl.DataFrame([{**row, "click": "1"} for row in rows], schema_overrides={"price": pl.String})
    times = pl.Series("time", [float(place) for place in range(len(rows))])
    found, refusals = Rows(schema, engine).read(Block("here", frame.with_columns(times), None))
    kept = set(range(len(rows))) - {row - 1 for _, row, _ in refusals}
    assert len(kept) == found.height
    for row, values in zip(sorted(kept), found.iter_rows(named=True), strict=True):
        features = json.loads(values["features"])
        sent = {**values, "item": features.pop("item", None), "features": features}
        ((user, event),) = engine.check([PostedEvent.model_validate(sent)])
        assert (user, event.features_as_json()) == (values["user"], values["features"])
        for name in FIELDS:
            assert features.get(name) == (None if is_missing(pl.Series([rows[row][name]]))[0] else rows[row][name])


@pytest.mark.integration
def test_a_killed_import_ends_with_the_same_store(exported: Path, tmp_path: Path) -> None:
    """Killed while it checks and while it stores, again and again; a service writes to the same store meanwhile."""
    rows = pl.concat([table(720, users=6)] * 40).with_columns(
        time=1_600_000_000 + pl.int_range(pl.len()), user=pl.format("u{}", pl.int_range(pl.len()) % 1500)
    )
    rows.write_parquet(tmp_path / "events.parquet")
    import_events(exported, tmp_path / "events.parquet", str(tmp_path / "truth"), capacity=200)
    place, chance, kills = tmp_path / "killed", random.Random(3), 0
    script = (
        "import resus.ingest.sorted_parts as p; p.PART_ROWS = 2000; p.BULK_EVENTS = 500; "
        "from resus.cli.main import main; main()"
    )
    words = [COMMAND[0], "-c", script, "import", str(exported), str(tmp_path / "events.parquet"), "--store", str(place)]
    claim = tmp_path / ".killed.import" / "claim.json"
    with serving(exported, "--store", place) as service:
        for moment in range(4):
            process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
            while process.poll() is None and not (claim.parent.is_dir() if not moment else claim.is_file()):
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.1))
            service.events({"id": f"e{moment}", "user": "other", "time": 1, "label": 1, "item": "1"})
            process.kill()
            kills += process.wait() == -signal.SIGKILL
        done = subprocess.run(words, env=environment(), check=True, capture_output=True, text=True)
        assert kills
        assert f"{len(rows):,} events of 1,500 users" in done.stdout
        assert service.predict(user="u7", items=["1"])["support"] == len(rows) // 1500 + (len(rows) % 1500 > 7)
        assert service.predict(user="other", items=["1"])["support"] == 4
    with opened(str(place)) as store, opened(str(tmp_path / "truth")) as truth:
        for user in (f"u{number}" for number in range(1500)):
            assert store.read(user).events == truth.read(user).events
        assert store.users() == truth.users() + 1
    assert not claim.parent.exists()


@pytest.mark.integration
def test_live_users_see_what_is_imported(exported: Path, tmp_path: Path) -> None:
    table(50, users=1).write_csv(tmp_path / "events.csv")
    with serving(exported, "--store", tmp_path / "store", "--workers", 2) as service:
        service.two_workers()
        assert service.predict(user="0", items=["1"])["support"] == 0
        service.events({"id": "mine", "user": "0", "time": 1, "label": 1, "item": "1"})
        assert {service.predict(user="0", items=["1"])["support"] for _ in range(8)} == {1}
        succeed_here("import", exported, "events.csv", "--store", "store", cwd=tmp_path)
        assert {service.predict(user="0", items=["1"])["support"] for _ in range(8)} == {51}


def test_a_part_of_another_table_is_not_gone_on_with(exported: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """What an import has left behind is used for the same table only."""
    table(60).write_csv(tmp_path / "events.csv")
    place = str(tmp_path / "store")

    def broken(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sorted_parts.Part, "bulks", broken)
        with pytest.raises(KeyboardInterrupt):
            import_events(exported, tmp_path / "events.csv", place, capacity=CAPACITY)
    assert (tmp_path / ".store.import" / "claim.json").is_file()
    table(10).write_csv(tmp_path / "events.csv")
    assert import_events(exported, tmp_path / "events.csv", place, capacity=CAPACITY).rows == 15
    assert not (tmp_path / ".store.import").exists()
