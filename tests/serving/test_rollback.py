"""A rollback brings back the model before the last reload, whatever has become of its folder."""

import shutil
import signal
from pathlib import Path

import pytest
from service_process import (
    InProcess,
    Serving,
    children_of,
    kill,
    predict,
    serving,
    wait_until,
)

from resus.artifact import FACTS
from resus.errors import ArtifactError
from resus.serving.lineup import ModelFolders, home_of_copies
from resus.serving.loaded import LoadedModel


def overwrite(folder: Path, by: Path) -> None:
    """Write the files of another model into the same files, as a copy on top does."""
    for file in by.iterdir():
        with (folder / file.name).open("r+b" if (folder / file.name).exists() else "wb") as stream:
            stream.truncate()
            stream.write(file.read_bytes())
    for name in {path.name for path in folder.iterdir()} - {path.name for path in by.iterdir()}:
        (folder / name).unlink()


def version_of(client: InProcess) -> str:
    told = client.get("/v1/model").json()["version"]
    assert predict(client, items=["1"]).version == told
    assert client.post("/v1/recommend", json={}).json()["version"] == told
    assert f'version="{told}"}} 1.0' in client.get("/metrics").text
    return str(told)


def test_the_version_is_the_name_and_the_hash(client: InProcess, served_run: Path) -> None:
    loaded = LoadedModel.load(served_run)
    assert version_of(client) == f"RESUS-RR@{loaded.sha256[:12]}"


def test_reload_rollback_reload(client: InProcess, served_run: Path, another: Path, third: Path) -> None:
    first, before = version_of(client), predict(client, items=["1", "2"])
    assert client.post("/v1/reload").json()["version"] == first
    assert client.post("/v1/rollback").status_code == 409
    overwrite(served_run, another)
    second = client.post("/v1/reload").json()["version"]
    assert second == version_of(client) != first
    assert client.post("/v1/rollback").json()["version"] == first == version_of(client)
    assert predict(client, items=["1", "2"]) == before
    assert client.post("/v1/reload").json()["version"] == second == version_of(client)
    overwrite(served_run, third)
    assert client.post("/v1/reload").json()["version"] == version_of(client)
    assert client.post("/v1/reload").json()["version"] == version_of(client)
    assert client.post("/v1/rollback").json()["version"] == second == version_of(client)
    assert 'resus_reloads_total{outcome="rolled back"} 2.0' in client.get("/metrics").text


def test_a_rollback_without_an_earlier_model_is_one_sentence(
    client: InProcess, served_run: Path, another: Path
) -> None:
    told = "there is no earlier model to go back to: a rollback undoes one reload"
    refused = client.post("/v1/rollback")
    assert (refused.status_code, refused.json()) == (409, {"error": told})
    overwrite(served_run, another)
    first = version_of(client)
    client.post("/v1/reload")
    client.post("/v1/rollback")
    assert client.post("/v1/rollback").json() == {"error": told}
    assert version_of(client) == first


def test_a_refused_reload_leaves_the_earlier_model(client: InProcess, served_run: Path, another: Path) -> None:
    first = version_of(client)
    overwrite(served_run, another)
    client.post("/v1/reload")
    (served_run / FACTS).write_text("{}")
    assert client.post("/v1/reload").status_code == 409
    shutil.rmtree(served_run)
    assert client.post("/v1/rollback").json()["version"] == first == version_of(client)


def test_a_worker_starts_even_if_the_copies_are_lost(served_run: Path, another: Path, tmp_path: Path) -> None:
    folders = ModelFolders([served_run], tmp_path / "home")
    first = LoadedModel.load(served_run).sha256
    overwrite(served_run, another)
    with pytest.raises(ArtifactError, match="was replaced while it was read: reload again"):
        folders.begin([first])
    lineup = folders.begin([LoadedModel.load(another).sha256])
    number, [loaded] = folders.load()
    assert (number, loaded.sha256) == (lineup.number, lineup.hashes[0])
    shutil.rmtree(tmp_path / "home" / lineup.in_use[0].name)
    number, [loaded] = folders.load()
    assert (number, loaded.sha256) == (0, lineup.hashes[0])


def test_copies_go_with_the_service_and_those_of_a_killed_one_with_the_next(tmp_path: Path) -> None:
    run = tmp_path / "a [run]"
    with home_of_copies(run) as one, home_of_copies(run) as other:
        assert one.is_dir()
        assert other.is_dir()
    left = tmp_path / f".{run.name}.serving-killed"
    left.mkdir()
    (left / "alive").touch()
    with home_of_copies(run) as home:
        assert [path.name for path in tmp_path.iterdir()] == [home.name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_service_leaves_no_copy_behind(exported: Path, tmp_path: Path, number: signal.Signals) -> None:
    run = Path(shutil.copytree(exported, tmp_path / "run"))
    with serving(run) as service:
        assert len(list(tmp_path.glob(".run.serving-*"))) == 1
        service.end(number)
    with home_of_copies(run) as home:  # the next service
        assert list(tmp_path.glob(".run.serving-*")) == [home]


def versions_of(service: Serving) -> set[str]:
    """The version that each worker serves."""
    told = set()
    for worker in service.two_workers():
        model = service.ask_only(worker, "/v1/model")
        told.add(model["version"] if model else "no answer")
    return told


@pytest.mark.integration
def test_all_workers_roll_back_and_a_new_one_serves_what_the_others_serve(
    exported: Path, another: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(exported, tmp_path / "run"))
    with serving(run, "--workers", 2) as service:
        service.client.headers["Connection"] = "close"
        [first] = versions_of(service)
        overwrite(run, another)
        second = service.client.post("/v1/reload").json()["version"]
        wait_until(lambda: versions_of(service) == {second}, "a reload in both workers")
        assert service.client.post("/v1/rollback").json()["version"] == first
        wait_until(lambda: versions_of(service) == {first}, "a rollback in both workers")
        shutil.rmtree(run)
        victim = children_of(service.process.pid)[0]
        kill(victim)
        wait_until(lambda: victim not in children_of(service.process.pid), "a new worker")
        assert versions_of(service) == {first}, "without the folder"
        shutil.copytree(another, run)
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: versions_of(service) == {second}, "a reload by a signal")
        assert service.client.post("/v1/rollback").json()["version"] == first
        assert service.end() == 0
    assert not list(tmp_path.glob(".run.serving-*"))
