"""Profiles of users: a request need not carry age and country, and the answers are those of complete rows offline."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from planted_models import KEEP, events, tiny
from service_fixtures import Place
from service_process import InProcess, in_process, sealed

from resus import FieldSchema, Resus, TableSchema, build_log
from resus.checked_folder import CheckedFolder
from resus.errors import ArtifactError, DataError
from resus.serving.engine import Engine
from resus.serving.export import export
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.limits import MAX_FEATURES_BYTES
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictRequest, RecommendRequest
from resus.serving.profiles import PROFILES, Profiles
from resus.serving.store import open_store

COUNTRIES = ["es", "fr", "pt"]
FIELDS = {
    "category": FieldSchema(),
    "price": FieldSchema(kind="numeric"),
    "age": FieldSchema(kind="numeric"),
    "country": FieldSchema(),
    "langs": FieldSchema(kind="multi"),
}
SCHEMA = TableSchema(user="user", item="item", time="time", label="click", fields=FIELDS)
CAPACITY = 8
ITEMS = [str(item) for item in range(1, 15)]


def rows() -> pl.DataFrame:
    """Events whose users have an age, which some do not tell, a country and languages."""
    user = pl.col("user").cast(pl.Int64)
    return events().with_columns(
        age=pl.when(user % 5 != 0).then(18 + user % 37 + 0.5),
        country=pl.Series(COUNTRIES).gather(pl.Series(range(3)).gather(events()["user"].cast(pl.Int64) % 3)),
        langs=pl.when(user % 2 == 0).then(pl.lit("es|en")).otherwise(pl.lit("en")),
    )


def make(folder: Path, learner: str, fields: dict[str, FieldSchema], *, profiles: bool = True) -> Path:
    table = rows().with_columns(pl.col("age").fill_null(40)) if fields["age"].model_extra else rows()
    log = build_log(table, SCHEMA.model_copy(update={"fields": SCHEMA.fields | fields}), KEEP).save(folder / "log")
    tiny(learner=learner).fit(log, folder=folder / "run")
    export(folder / "run", folder / "log", folder / "export", titles={}, profiles=profiles)
    return folder


@pytest.fixture(scope="module", params=["ridge", "plus"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp(request.param), request.param, FIELDS)


@pytest.fixture(scope="module")
def ridge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("ridge"), "ridge", FIELDS)


def engine_of(folder: Path, store: str) -> Engine:
    return Engine(LoadedModel.load(folder), open_store(store, capacity=CAPACITY), capacity=CAPACITY)


@pytest.fixture
def client(ridge: Path, tmp_path: Path) -> Iterator[InProcess]:
    folder = Path(shutil.copytree(ridge / "export", tmp_path / "export"))
    app = build_app(engine_of(folder, str(tmp_path / "store")), folder, Access("localhost", None))
    with in_process(app) as opened:
        yield opened


def posted(user: str, count: int = 4) -> list[PostedEvent]:
    """A user's events by item alone."""
    return [
        PostedEvent(id=f"e{number}", user=user, time=float(number), label=float(number % 2), item=str(3 * number + 1))
        for number in range(count)
    ]


def offline(folder: Path, user: str, profile: dict[str, Any], count: int = 4) -> list[float]:
    """What the model says of tables in which every row carries the profile."""
    items = rows().unique("item").select(pl.col("item").cast(pl.String), "category", "price")
    kinds = {"age": pl.Float64, "country": pl.String, "langs": pl.String}
    described = pl.DataFrame({name: [profile.get(name)] for name in kinds}, schema=kinds).with_columns(
        user=pl.lit(user)
    )
    known = pl.DataFrame([(event.item, event.label, event.time) for event in posted(user, count)], orient="row")
    known = known.rename(dict(zip(known.columns, ("item", "click", "time"), strict=True))) if count else known
    asked = pl.DataFrame({"item": ITEMS}).join(items, on="item", how="left", maintain_order="left")
    asked = asked.join(described, how="cross")
    support = asked.head(0).with_columns(click=pl.lit(0.0))
    if count:
        support = known.join(items, on="item", how="left", maintain_order="left").join(described, how="cross")
    answer: pl.DataFrame = Resus.load(folder / "run").predict(support, asked)
    return answer["probability"].to_list()


def live(engine: Engine, user: str, **more: Any) -> list[float]:
    answer = engine.predict(PredictRequest(user=user, items=ITEMS, **more))
    return [one.probability for one in answer.answers]


def profile_in_log(user: int) -> dict[str, Any]:
    row = rows().filter(pl.col("user").cast(pl.Int64) == user).row(0, named=True)
    return {name: row[name] for name in ("age", "country", "langs")}


@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.parametrize("user", [1, 5])  # the second tells no age
def test_a_user_of_the_log_gets_the_answers_of_complete_rows(made: Path, tmp_path: Path, user: int, count: int) -> None:
    engine = engine_of(made / "export", str(tmp_path / "store"))
    if count:
        engine.observe(posted(str(user), count))
    truth = offline(made, str(user), profile_in_log(user), count)
    assert live(engine, str(user)) == pytest.approx(truth, abs=1e-5)
    assert truth != pytest.approx(offline(made, "nobody", {}, count), abs=1e-5), "the profile says something"
    candidates = engine.predict(PredictRequest(user=str(user), candidates=[{"item": item} for item in ITEMS]))
    assert [one.probability for one in candidates.answers] == pytest.approx(truth, abs=1e-5)
    ranked = engine.recommend(RecommendRequest(user=str(user), top=20, exclude_seen=False))
    found = {one.item: one.probability for one in ranked.answers}
    assert [found[item] for item in ITEMS] == pytest.approx(truth, abs=1e-5)
    engine.store.close()


def test_a_stored_profile_counts_for_all_workers_and_after_a_restart(made: Path, place: Place) -> None:
    where, mine = place(), {"age": 44, "country": "pt", "langs": ["es", "en"]}
    one, other = (engine_of(made / "export", where) for _ in range(2))
    one.observe(posted("new"))
    bare = offline(made, "new", {})
    assert live(one, "new") == pytest.approx(bare, abs=1e-5)
    assert live(other, "new") == pytest.approx(bare, abs=1e-5)
    one.set_profile("new", mine)
    truth = offline(made, "new", mine | {"langs": "es|en"})
    assert live(one, "new") == pytest.approx(truth, abs=1e-5)
    assert live(other, "new") == pytest.approx(truth, abs=1e-5)
    other.set_profile("new", {"country": "fr"})  # replaces the whole profile
    truth = offline(made, "new", {"country": "fr"})
    assert live(one, "new") == pytest.approx(truth, abs=1e-5)
    for engine in (one, other):
        engine.store.close()
    again = engine_of(made / "export", where)
    assert live(again, "new") == pytest.approx(truth, abs=1e-5)
    answer = again.user("new")
    assert answer is not None
    assert answer.profile == {"country": "fr"}
    assert again.delete("new")
    assert again.user("new") is None
    assert live(again, "new") == pytest.approx(offline(made, "new", {}, 0), abs=1e-5)
    again.store.close()


def test_a_value_in_the_request_or_event_wins_and_a_null_does_not(ridge: Path, tmp_path: Path) -> None:
    engine = engine_of(ridge / "export", str(tmp_path / "store"))
    engine.set_profile("new", {"age": 30, "country": "es"})
    plain = live(engine, "new")
    assert plain == pytest.approx(offline(ridge, "new", {"age": 30, "country": "es"}, 0), abs=1e-5)
    changed = offline(ridge, "new", {"age": 30, "country": "fr"}, 0)
    assert live(engine, "new", context={"country": "fr"}) == pytest.approx(changed, abs=1e-5)
    assert live(engine, "new", context={"country": None}) == plain
    candidates = [{"item": item, "country": "fr"} for item in ITEMS]
    answer = engine.predict(PredictRequest(user="new", candidates=candidates))
    assert [one.probability for one in answer.answers] == pytest.approx(changed, abs=1e-5)
    engine.set_profile("1", {"country": None})  # hides what the export says
    truth = offline(ridge, "1", profile_in_log(1) | {"country": None}, 0)
    assert live(engine, "1") == pytest.approx(truth, abs=1e-5)
    engine.set_profile("1", {})
    assert live(engine, "1") == pytest.approx(offline(ridge, "1", profile_in_log(1), 0), abs=1e-5)
    engine.store.close()


def test_the_routes_show_replace_and_delete_a_profile(client: InProcess) -> None:
    assert client.get("/v1/users/new").status_code == 404
    said = client.request("PUT", "/v1/users/new/profile", json={"fields": {"age": 30, "contry": "es"}})
    assert said.status_code == 200, said.text
    assert said.json()["profile"] == {"age": 30}
    assert said.json()["warnings"] == ["'contry' is not a field of the model, did you mean 'country'?"]
    assert client.get("/v1/users/new").json() == {
        "user": "new",
        "profile": {"age": 30},
        "support": 0,
        "stage": "new",
        "events": [],
    }
    assert client.get("/v1/users/1").json()["profile"] == {"age": 19.5, "country": "fr", "langs": ["en"]}
    assert client.delete("/v1/users/new").json() == {"deleted": True}
    assert client.get("/v1/users/new").status_code == 404
    roles = {field["name"]: field["role"] for field in client.get("/v1/model").json()["fields"]}
    assert {name for name, role in roles.items() if role == "user"} == {"age", "country", "langs"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"price": 3}, "fields: 'price' describes an item, not a user: leave it out"),
        ({"item": "3"}, "fields: 'item' describes an item"),
        ({"contry": "es"}, "fields: 'contry' is not a field of the model, did you mean 'country'?"),
        ({"age": "old"}, "row 1, field 'age': 'old' is not a number; send a number or null"),
        ({"age": 1e30}, "too far from all numbers"),
        ({"langs": ["x" * 999] * 5}, f"the profile takes more than {MAX_FEATURES_BYTES:,} bytes"),
        ({"age": {"nested": 1}}, "fields.age: a value is a text"),
        ("age", "fields: give an object, from field to value"),
    ],
)
def test_a_mistake_in_a_profile_is_one_sentence(client: InProcess, fields: Any, told: str) -> None:
    answer = client.request("PUT", "/v1/users/new/profile", json={"fields": fields})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(told) or told in answer.json()["error"]
    assert client.get("/v1/users/new").status_code == 404, "nothing is stored"


def test_an_event_may_leave_out_what_the_profile_holds(tmp_path: Path) -> None:
    refusing = FIELDS | {"age": FieldSchema(kind="numeric", missing="refuse")}
    folder = make(tmp_path, "ridge", refusing)
    engine = engine_of(folder / "export", str(tmp_path / "store"))
    told = r"row 1, field 'age': the value is missing; give a number"
    with pytest.raises(DataError, match=told):
        engine.observe(posted("new"))
    with pytest.raises(DataError, match=told):
        live(engine, "new")
    assert engine.user("new") is None
    engine.set_profile("new", {"age": 30, "country": "es"})
    engine.observe(posted("new"))
    truth = offline(folder, "new", {"age": 30, "country": "es"})
    assert live(engine, "new") == pytest.approx(truth, abs=1e-5)
    for fields in ({}, {"country": "fr"}, {"age": None}):  # each would lock the user out
        with pytest.raises(DataError, match=r"^fields: the stored events of the user need the profile .*field 'age'"):
            engine.set_profile("new", fields)
    assert live(engine, "new") == pytest.approx(truth, abs=1e-5), "the profile stays"
    engine.set_profile("new", {"age": 31})
    assert engine.delete("new")
    engine.set_profile("new", {})
    engine.store.close()


def test_an_export_may_leave_profiles_out(tmp_path: Path) -> None:
    folder = make(tmp_path, "ridge", FIELDS, profiles=False) / "export"
    assert PROFILES not in CheckedFolder.open(folder)
    loaded = LoadedModel.load(folder)
    assert loaded.profile_of("1") == {}


def test_the_file_of_profiles_is_listed_and_refused_if_it_is_bent(ridge: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ridge / "export", tmp_path / "export"))
    assert PROFILES in CheckedFolder.open(folder)
    listed = json.loads((folder / "artifact.json").read_text())
    assert PROFILES in str(listed)
    (folder / PROFILES).write_bytes(b"bent")
    with pytest.raises(ArtifactError, match=PROFILES):
        LoadedModel.load(folder)
    with pytest.raises(ArtifactError, match="is not a complete file of profiles"):
        LoadedModel.load(sealed(folder))


def test_every_user_of_the_log_is_found_by_id(ridge: Path) -> None:
    opened = CheckedFolder.open(ridge / "export")
    loaded = LoadedModel.load(ridge / "export")
    profiles = Profiles.load(opened, loaded.features)
    table = rows().unique("user")
    assert len(profiles) == table.height
    for row in table.iter_rows(named=True):
        known = {"country": row["country"], "langs": row["langs"].split("|")}
        known |= {} if row["age"] is None else {"age": row["age"]}
        assert profiles.of_user(str(row["user"])) == known
    for stranger in ("", "0.5", "999", "ü", "\uffff"):
        assert profiles.of_user(stranger) == {}
