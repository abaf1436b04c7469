"""The user's own model inside the service: raw features in, the scores of the offline prediction out."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from own_models import KINDS, TABLE, made
from service_process import InProcess, in_process, predict, refused, sealed

import resus
from resus.checked_folder import CheckedFolder
from resus.errors import ArtifactError, ConfigError, DataError
from resus.ingest.importing import import_events
from resus.serving import Engine, LoadedModel, open_store
from resus.serving.at_once import NotAtOnceError
from resus.serving.export import export
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.http.service import Setup
from resus.serving.items import ItemChange, ItemChanges
from resus.serving.lineup import ModelFolders
from resus.serving.messages import PostedEvent, PredictRequest
from resus.serving.own_model import INPUTS, USERS

SENT = ("item", "price", "discount")  # category depends on the item alone, age and sex on the user
REMEMBERED = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made("LightGBM", tmp_path_factory.mktemp("own"))


@pytest.fixture
def served(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(folder / "export", tmp_path / "export"))


@pytest.fixture
def client(served: Path, tmp_path: Path) -> Iterator[InProcess]:
    with in_process(service(served, tmp_path)) as opened:
        yield opened


def service(folder: Path, tmp_path: Path) -> Any:
    return build_app(engine_of(folder, tmp_path), folder, Access("localhost", None))


def engine_of(folder: Path, tmp_path: Path) -> Engine:
    store = open_store(str(tmp_path / "events.sqlite"), capacity=REMEMBERED)
    return Engine(LoadedModel.load(folder), store, capacity=REMEMBERED)


def sent(row: Mapping[str, Any], names: tuple[str, ...] = SENT) -> dict[str, Any]:
    return {name: row[name] for name in names}


def event(number: int, user: str, row: Mapping[str, Any], names: tuple[str, ...] = SENT) -> dict[str, Any]:
    features = {name: value for name, value in sent(row, names).items() if name != "item"}
    base = {"id": f"e{number}", "user": user, "time": row["time"], "label": row["click"]}
    return base | {"item": row["item"], "features": features}


@pytest.mark.parametrize("kind", KINDS)
def test_the_service_gives_the_scores_of_the_offline_prediction(kind: str, tmp_path: Path) -> None:
    folder = made(kind, tmp_path / "made")
    model = next(folder.glob("model.*"))
    offline = resus.load(folder / "run", predictor=model)
    with in_process(service(folder / "export", tmp_path)) as client:
        for user in (1, 2, 3, 4):
            own = TABLE.filter(pl.col("user") == user)
            known, asked = own.head(5), own.tail(6)
            wanted = offline.predict(known, asked.drop("click"))
            batch = [event(number, str(user), row) for number, row in enumerate(known.to_dicts())]
            assert client.post("/v1/events", json={"events": batch}).status_code == 200
            got = predict(client, user=str(user), candidates=[sent(row) for row in asked.to_dicts()])
            assert got.support == 5
            np.testing.assert_allclose([answer.basis for answer in got.answers], wanted["basis"], atol=1e-5)
            np.testing.assert_allclose([answer.residual for answer in got.answers], wanted["residual"], atol=1e-5)
            assert wanted["residual"].to_numpy().any()


@pytest.mark.parametrize("kind", ["XGBoost", "CatBoost", "ONNX"])
def test_one_thread_scores(kind: str, tmp_path: Path) -> None:
    from resus.external.choice import ModelFile

    model: Any = ModelFile.read(KINDS[kind](TABLE, tmp_path).path).model(threads=1)
    of_library = {
        "XGBoost": lambda: json.loads(model.booster.save_config())["learner"]["generic_param"]["nthread"],
        "CatBoost": lambda: model.threads,
        "ONNX": lambda: model.graph.get_session_options().intra_op_num_threads,
    }
    assert int(of_library[kind]()) == 1


def test_the_model_says_what_it_reads_and_who_brings_it(client: InProcess) -> None:
    described = client.get("/v1/model").json()
    assert described["score"] is None
    assert described["recommends"]
    roles = {field["name"]: field["role"] for field in described["fields"]}
    assert roles == {
        "item": "item",
        "category": "item",
        "sex": "user",
        "age": "user",
        "price": "context",
        "discount": "context",
    }


def test_the_whole_catalogue_is_ranked_with_scores_of_the_model(client: InProcess) -> None:
    events = [event(number, "1", row) for number, row in enumerate(TABLE.filter(user=1).head(4).to_dicts())]
    client.post("/v1/events", json={"events": events})
    context = {"price": 4.5, "discount": 0.3}
    body = {"user": "1", "context": context, "top": 20, "exclude_seen": False}
    ranked = client.post("/v1/recommend", json=body).json()["answers"]
    assert len(ranked) == 20
    candidates = [{"item": answer["item"], **context} for answer in ranked]
    single = predict(client, user="1", candidates=candidates).answers
    by_item = predict(client, user="1", context=context, items=[answer["item"] for answer in ranked]).answers
    for found in (single, by_item):
        assert [answer.basis for answer in found] == pytest.approx([answer["basis"] for answer in ranked], abs=1e-5)
        assert [answer.residual for answer in found] == pytest.approx([one["residual"] for one in ranked], abs=1e-5)
    assert len({answer["basis"] for answer in ranked}) > 1


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"user": "1", "candidates": [{"item": 3, "price": 2}]}, "row 1: 'discount' is missing, which model.txt reads"),
        ({"user": "new", "candidates": [{"item": 3, "price": 2, "discount": 1}]}, "'age', 'sex' are missing"),
        ({"user": "1", "items": ["3"], "context": {"price": 2}}, "context: 'discount' is missing"),
        ({"user": "1", "items": ["3", "999"], "context": {"price": 2, "discount": 1}}, "does not know the item"),
        ({"user": "1", "candidates": [{"item": 3, "price": "cheap", "discount": 1}]}, "'cheap' is not a number"),
        ({"user": "1", "candidates": [{"item": 3, "price": [1], "discount": 1}]}, "a list where one value belongs"),
        (
            {
                "candidates": [{"item": 3, "discount": 1, "price": 1, "sex": "f", "age": 3}],
                "events": [{"item": 1, "label": 1}],
            },
            "'price', 'age', 'sex', 'discount' are missing",
        ),
    ],
)
def test_a_request_without_a_column_of_the_model(body: dict[str, Any], sentence: str, client: InProcess) -> None:
    status, said = refused(client, json.dumps(body).encode())
    assert status == 422
    assert sentence in said


def test_null_is_a_missing_value_and_scores_are_not_taken(client: InProcess, folder: Path) -> None:
    row = TABLE.filter(pl.col("user") == 1).row(0, named=True) | {"price": None, "discount": None}
    asked = pl.DataFrame([row], schema=TABLE.schema).drop("click")
    known = TABLE.filter(pl.col("user") == 2).head(1)
    wanted = resus.load(folder / "run", predictor=folder / "model.txt").predict(known, asked)["basis"][0]
    answer = predict(client, user="1", candidates=[{**sent(row), "model_score": 9, "prise": 1}])
    assert answer.answers[0].basis == pytest.approx(wanted, abs=1e-5)
    assert answer.warnings is not None
    assert any("model_score" in said for said in answer.warnings)
    assert any("'prise' is not a field of the model, did you mean 'price'?" in said for said in answer.warnings)


def test_a_new_item_and_a_new_user_bring_their_columns(client: InProcess) -> None:
    missing = client.request("PUT", "/v1/items/n1", json={"title": "New"})
    assert missing.status_code == 422
    assert "'category' is missing, which model.txt reads" in missing.json()["error"]
    context = {"price": 2, "discount": 0.4, "age": None, "sex": "m"}
    inline = predict(
        client, candidates=[{"item": "n1", "category": f"c{code}", **context} for code in range(9)]
    ).answers
    one, other = min(inline, key=lambda answer: answer.basis), max(inline, key=lambda answer: answer.basis)
    whole = one.basis
    put = {"fields": {"category": f"c{one.candidate}"}}
    assert client.request("PUT", "/v1/items/n1", json=put).status_code == 200
    assert predict(client, context=context, items=["n1"]).answers[0].basis == whole
    everything = client.post("/v1/recommend", json={"context": context, "top": 99}).json()["answers"]
    assert {answer["item"]: answer["basis"] for answer in everything}["n1"] == pytest.approx(whole)
    put = {"fields": {"category": f"c{other.candidate}"}}
    assert client.request("PUT", "/v1/items/n1", json=put).status_code == 200
    assert predict(client, context=context, items=["n1"]).answers[0].basis == other.basis != whole

    assert "discount" in client.request("PUT", "/v1/items/n1", json={"fields": {"discount": 1}}).json()["error"]
    wrong = client.request("PUT", "/v1/users/new/profile", json={"fields": {"age": "old", "sex": "m"}})
    assert (wrong.status_code, "'old' is not a number" in wrong.json()["error"]) == (422, True)
    client.request("PUT", "/v1/users/new/profile", json={"fields": {"age": 40, "sex": "m"}})
    with_profile = predict(client, user="new", candidates=[{"item": 3, "price": 2, "discount": 0.4}])
    described = predict(client, candidates=[{"item": 3, "price": 2, "discount": 0.4, "age": 40, "sex": "m"}])
    assert with_profile.answers[0].basis == described.answers[0].basis


def test_a_test_user_is_replayed_with_raw_columns(client: InProcess) -> None:
    past = client.get("/v1/test-users/random").json()["events"]
    assert set(past[0]["context"]) == {"age", "sex", "price", "discount"}
    predict(client, candidates=[{**one["context"], "item": one["item"]} for one in past])


def test_a_file_that_changed_is_not_opened(served: Path, tmp_path: Path) -> None:
    path = served / "own-model.txt"
    with in_process(service(served, tmp_path)) as client:
        old = client.get("/v1/model").json()["sha256"]
        path.write_bytes(path.read_bytes().replace(b"num_leaves=7", b"num_leaves=6"))
        answer = client.post("/v1/reload")
        assert answer.status_code == 409
        assert "own-model.txt is not the file that artifact.json describes (its bytes were changed)" in answer.text
        assert client.get("/v1/model").json()["sha256"] == old
        predict(client, user="1", candidates=[{"item": 3, "price": 2, "discount": 1}])
    with pytest.raises(ArtifactError, match=r"own-model.txt is not the file that artifact.json describes"):
        LoadedModel.load(served)


def test_a_file_that_ends_its_library_leaves_the_service_alone(served: Path, tmp_path: Path) -> None:
    path = served / "own-model.txt"
    with in_process(service(served, tmp_path)) as client:
        old = client.get("/v1/model").json()["sha256"]
        path.write_text(re.sub(r"^num_leaves=.*$", "num_leaves=2000000000", path.read_text(), flags=re.MULTILINE))
        sealed(served)
        answer = client.post("/v1/reload")
        assert answer.status_code == 409
        assert "is not a whole LightGBM model (the library ends with SIG" in answer.json()["error"]
        assert client.get("/v1/model").json()["sha256"] == old
        predict(client, user="1", candidates=[{"item": 3, "price": 2, "discount": 1}])


def test_inputs_that_were_changed_are_refused(served: Path) -> None:
    for name in (INPUTS, USERS):
        content = (served / name).read_bytes()
        (served / name).write_bytes(content[: len(content) // 2])
        sealed(served)
        with pytest.raises(ArtifactError, match="does not hold the inputs of a model"):
            LoadedModel.load(served)
        (served / name).write_bytes(content)


def test_a_model_that_wants_scores_again_needs_its_own_store(served: Path, folder: Path, tmp_path: Path) -> None:
    export(folder / "run", folder / "log", tmp_path / "with-scores", titles={}, onnx=False)
    with in_process(service(served, tmp_path)) as client:
        shutil.rmtree(served)
        shutil.copytree(tmp_path / "with-scores", served)
        answer = client.post("/v1/reload")
        assert answer.status_code == 409
        assert "reads other fields than the one in use" in answer.json()["error"]


def test_a_missing_library_is_one_sentence(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ConfigError, match=r"needs lightgbm, which is not installed: pip install 'resus\[trees\]'"):
        LoadedModel.load(served)


def test_it_scores_without_torch(folder: Path, tmp_path: Path) -> None:
    script = """
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

class NoTorch(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoTorch())
from resus.serving import Engine, LoadedModel, open_store
from resus.serving.items import ItemChange, ItemChanges
from resus.serving.lineup import ModelFolders
from resus.serving.messages import PredictRequest
engine = Engine(LoadedModel.load(Path(sys.argv[1])), open_store(sys.argv[2], capacity=9), capacity=9)
candidate = {"item": "3", "price": 2, "discount": 0.4, "age": 20, "sex": "f"}
print(engine.predict(PredictRequest(candidates=[candidate])).answers[0].basis)
"""
    words = [sys.executable, "-c", script, str(folder / "export"), str(tmp_path / "events")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert np.isfinite(float(done.stdout))


def test_an_export_without_profiles_holds_no_users(folder: Path, tmp_path: Path) -> None:
    model = folder / "model.txt"
    out = tmp_path / "export"
    written = export(folder / "run", folder / "log", out, titles={}, onnx=False, profiles=False, score_with=model)
    assert USERS not in written
    assert "own-model.txt" in CheckedFolder.open(out).files


def test_an_item_whose_id_the_model_cannot_read_is_not_stored(tmp_path: Path) -> None:
    """Otherwise nobody could rank the catalogue any more."""
    folder = made("XGBoost of ids", tmp_path / "made")
    with in_process(service(folder / "export", tmp_path)) as client:
        refusal = client.request("PUT", "/v1/items/abc", json={"title": "No number"})
        assert (refusal.status_code, "'abc' is not a number" in refusal.json()["error"]) == (422, True)
        assert client.request("PUT", "/v1/items/500", json={"title": "A number"}).status_code == 200
        ranked = client.post("/v1/recommend", json={"context": {"discount": 0.3}, "top": 99}).json()
        assert ranked["ranked"] == 21


def test_the_loop_of_the_service_never_waits_for_the_library(served: Path, tmp_path: Path) -> None:
    engine = engine_of(served, tmp_path)
    request = PredictRequest(items=["3"], context={"price": 2, "discount": 0.4, "age": 20, "sex": "f"})
    engine.score(request)
    with pytest.raises(NotAtOnceError):
        engine.score(request, at_once=True)


def test_changes_of_items_that_were_made_for_another_model_are_left_out(tmp_path: Path) -> None:
    folder = made("XGBoost of ids", tmp_path / "made")
    for item in ("abc", "500"):
        ItemChanges(folder / "export.items.jsonl").add(ItemChange(item=item, title="New"))
    with in_process(service(folder / "export", tmp_path)) as client:
        ranked = client.post("/v1/recommend", json={"context": {"discount": 0.3}, "top": 99}).json()["answers"]
        assert "New" in {answer["title"] for answer in ranked}
        assert "abc" not in {answer["item"] for answer in ranked}


def test_a_user_with_an_event_of_an_item_that_is_gone_is_answered(served: Path, tmp_path: Path) -> None:
    """An export made before or after may not know the item. Its columns are then missing values."""
    context = {"price": 2, "discount": 0.4, "age": None, "sex": "m"}
    of_new = {"id": "a", "user": "new", "time": 5, "label": 1, "item": "n1", "features": context}
    with in_process(service(served, tmp_path)) as client:
        client.request("PUT", "/v1/items/n1", json={"fields": {"category": "c1"}})
        assert client.post("/v1/events", json={"events": [of_new]}).status_code == 200
        known = predict(client, user="new", context=context, items=["3"])
        (tmp_path / "export.items.jsonl").unlink()
    with in_process(service(served, tmp_path)) as client:
        gone = predict(client, user="new", context=context, items=["3"])
        assert (gone.support, gone.answers[0].basis) == (1, known.answers[0].basis)
        without = {key: value for key, value in of_new.items() if key not in ("user", "time")}
        without["features"] = {**context, "category": None}
        inline = predict(client, events=[without], context=context, items=["3"])
        assert gone.answers[0].residual == pytest.approx(inline.answers[0].residual, abs=1e-6)
        refusal = client.post("/v1/events", json={"events": [{**of_new, "id": "b"}]})
        assert (refusal.status_code, "'category' is missing" in refusal.json()["error"]) == (422, True)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_an_import_brings_and_checks_what_the_model_reads(kind: str, folder: Path, tmp_path: Path) -> None:
    """Also in a table with a column of scores, which the service does not take."""
    table = TABLE.with_columns(model_score=pl.lit(0.5)).with_row_index("id")
    good, bad = tmp_path / f"good.{kind}", tmp_path / f"bad.{kind}"
    for path, rows in ((good, table), (bad, table.with_columns(price=pl.lit("cheap")))):
        rows.write_csv(path) if kind == "csv" else rows.write_parquet(path)
    run, place = folder / "export", str(tmp_path / "imported")
    with pytest.raises(DataError, match=r"row [0-9]+, .*'cheap' is not a number"):
        import_events(run, bad, place, capacity=REMEMBERED)
    import_events(run, good, place, capacity=REMEMBERED, id_column="id")

    sent = engine_of(run, tmp_path)
    mine = table.filter(user=4).to_dicts()  # of no known age
    sent.observe([PostedEvent.model_validate(event(row["id"], "4", row)) for row in mine])
    imported = Engine(LoadedModel.load(run), open_store(place, capacity=REMEMBERED), capacity=REMEMBERED)
    asked = PredictRequest(user="4", candidates=[{"item": 3, "price": 2, "discount": 1}])
    one, other = sent.predict(asked), imported.predict(asked)
    assert one.support == other.support == len(mine)
    assert one.answers[0].residual == pytest.approx(other.answers[0].residual, abs=1e-6)


def test_a_rollback_brings_the_model_back_and_opens_no_changed_copy(served: Path, folder: Path, tmp_path: Path) -> None:
    home, candidate = tmp_path / "copies", {"item": 3, "price": 2, "discount": 1, "age": 40, "sex": "f"}
    home.mkdir()
    setup = Setup(ModelFolders([served], home))
    app = build_app(engine_of(served, tmp_path), served, Access("localhost", None), setup=setup)
    with in_process(app) as client:
        before = predict(client, candidates=[candidate])
        shutil.rmtree(served)
        model = folder / "model.txt"
        export(folder / "run", folder / "log", served, titles={"3": "x"}, onnx=False, score_with=model)
        assert client.post("/v1/reload").status_code == 200
        assert predict(client, candidates=[candidate]).version != before.version
        shutil.rmtree(served)
        [copy] = home.glob("1-*/own-model.txt")
        content = copy.read_bytes()
        copy.write_bytes(content.replace(b"num_leaves=7", b"num_leaves=6"))
        refusal = client.post("/v1/rollback")
        assert (refusal.status_code, "its bytes were changed" in refusal.text) == (409, True)
        assert predict(client, candidates=[candidate]).version != before.version
        copy.write_bytes(content)
        assert client.post("/v1/rollback").status_code == 200
        after = predict(client, candidates=[candidate])
        assert (after.version, after.answers) == (before.version, before.answers)
