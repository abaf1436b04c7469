"""A reload replaces the model while requests continue, and a bad model leaves the old one in use."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_models import KEEP, events, tiny
from service_process import InProcess, event, in_process, post, predict, sealed, wait_until

from resus import TableSchema, build_log
from resus.artifact import FACTS, Artifact, inference
from resus.checked_folder import CheckedFolder
from resus.errors import ArtifactError
from resus.serving.catalogue import CATALOGUE, Catalogue
from resus.serving.engine import Engine
from resus.serving.histories import TEST_USERS
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access
from resus.serving.loaded import LoadedModel


def replace_folder(served_run: Path, by: Path) -> None:
    """Replace a folder as an export does: rename the old one, then create the new one."""
    served_run.rename(served_run.with_name("old"))
    shutil.copytree(by, served_run)


def test_a_reload_loads_a_new_model(client: InProcess, served_run: Path, another: Path) -> None:
    post(client, event(1))
    old = client.get("/v1/model").json()["sha256"]
    before = predict(client, user="u", items=["1"])
    replace_folder(served_run, another)
    reloaded = client.post("/v1/reload")
    assert reloaded.status_code == 200
    assert reloaded.json()["name"] == "RESUS-NN"
    assert client.get("/v1/model").json()["sha256"] == reloaded.json()["sha256"] != old
    after = predict(client, user="u", items=["1"])
    assert (after.support, after.model) == (1, "RESUS-NN")
    assert after.answers[0].basis != before.answers[0].basis
    assert 'resus_reloads_total{outcome="loaded"} 1.0' in client.get("/metrics").text


def test_a_reload_reads_new_titles_and_results(client: InProcess, served_run: Path) -> None:
    """Titles and results may be new while the model is the same."""
    results = json.loads((served_run / "results.json").read_text())
    results["log"]["name"] = "evaluated again"
    (served_run / "results.json").write_text(json.dumps(results))
    catalogue_of(served_run).with_titles({"1": "The First"}).save(served_run)
    sealed(served_run)
    assert client.post("/v1/reload").status_code == 200
    assert client.get("/v1/results").json()["log"] == results["log"]
    assert [item["item"] for item in client.get("/v1/catalogue", params={"query": "first"}).json()["items"]] == ["1"]


def test_a_model_that_arrives_during_the_start_is_served(engine: Engine, served_run: Path, another: Path) -> None:
    app = build_app(engine, served_run, Access("localhost", None))
    replace_folder(served_run, another)
    with in_process(app) as client:
        assert client.get("/v1/model").json()["sha256"] == LoadedModel.load(another).sha256


def test_a_folder_swapped_while_it_is_read_is_refused(
    served_run: Path, another: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapped_meanwhile(artifact: Any) -> Any:
        replace_folder(served_run, another)
        return inference(artifact)

    monkeypatch.setattr("resus.serving.loaded.inference", swapped_meanwhile)
    with pytest.raises(ArtifactError, match=f"is not the file that {FACTS} describes"):
        LoadedModel.load(served_run)


def test_an_unexpected_error_refuses_a_reload(
    client: InProcess, served_run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = predict(client, items=["1"])

    def fail(folder: Path) -> LoadedModel:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(LoadedModel, "load", fail)
    os.kill(os.getpid(), signal.SIGHUP)
    wait_until(lambda: 'outcome="refused"} 1.0' in client.get("/metrics").text, "a refusal")
    answer = client.post("/v1/reload")
    assert answer.status_code == 409
    assert "ZeroDivisionError" in answer.json()["error"]
    assert 'outcome="refused"} 2.0' in client.get("/metrics").text
    assert predict(client, items=["1"]) == before
    told = [record.getMessage() for record in caplog.records if record.name == "resus.serving"]
    assert len(told) == 2
    assert all("ZeroDivisionError at " in line and "test_reload.py" in line for line in told)
    assert "secret" not in " ".join(told)


def damage_weights(served_run: Path) -> None:
    with (served_run / "model.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"\x00\x00\xc0\x7f")


def falsify_catalogue(served_run: Path) -> None:
    catalogue = catalogue_of(served_run)
    replace(catalogue, ids=catalogue.ids + 1_000_000).save(served_run)
    sealed(served_run)


def catalogue_of(served_run: Path) -> Catalogue:
    opened = CheckedFolder.open(served_run)
    return Catalogue.load(opened, Artifact.of(opened).features)


def swap_values(served_run: Path) -> None:
    """Every item gets the fields of another one."""
    catalogue = catalogue_of(served_run)
    replace(catalogue, ids=np.concatenate([catalogue.ids[:, :1], catalogue.ids[::-1, 1:]], axis=1)).save(served_run)


def flip(served_run: Path, name: str) -> None:
    content = bytearray((served_run / name).read_bytes())
    content[len(content) // 3] ^= 4
    (served_run / name).write_bytes(content)


def drop_catalogue(served_run: Path) -> None:
    (served_run / CATALOGUE).unlink()
    sealed(served_run)


def read_other_fields(served_run: Path) -> None:
    schema = TableSchema(user="user", item="item", time="time", label="click")
    shutil.rmtree(served_run)
    tiny().fit(build_log(events(), schema, KEEP, name="other"), folder=served_run)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "facts": (lambda run: (run / FACTS).write_text((run / FACTS).read_text()[:-50]), FACTS),
    "weights": (damage_weights, "model.safetensors"),
    "catalogue": (lambda run: (run / CATALOGUE).write_bytes(b"no catalogue"), CATALOGUE),
    "ids of the catalogue": (falsify_catalogue, "it has values of item that the model does not know"),
    "a bit of the catalogue": (lambda run: flip(run, CATALOGUE), f"{CATALOGUE} is not the file that {FACTS} describes"),
    "a bit of the users": (lambda run: flip(run, TEST_USERS), f"{TEST_USERS} is not the file that {FACTS} describes"),
    "values of other items": (swap_values, f"{CATALOGUE} is not the file that {FACTS} describes"),
    "lost catalogue": (lambda run: (run / CATALOGUE).unlink(), f"{CATALOGUE} is missing"),
    "no catalogue": (drop_catalogue, "lost its catalogue"),
    "no folder": (shutil.rmtree, "does not exist"),
    "other fields": (read_other_fields, "reads other fields"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_artifact_is_refused_and_the_old_one_stays(client: InProcess, served_run: Path, damage: str) -> None:
    before = predict(client, items=["1", "2"])
    spoil, told = DAMAGES[damage]
    spoil(served_run)
    answer = client.post("/v1/reload")
    assert answer.status_code == 409
    assert told in answer.json()["error"]
    assert predict(client, items=["1", "2"]) == before
    assert 'resus_reloads_total{outcome="refused"} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize("part", [CATALOGUE, TEST_USERS])
def test_a_part_of_another_model_is_refused(client: InProcess, served_run: Path, another: Path, part: str) -> None:
    shutil.copyfile(another / part, served_run / part)
    answer = client.post("/v1/reload")
    assert answer.status_code == 409
    assert f"{part} is not the file that {FACTS} describes" in answer.json()["error"]
