"""A model on disk: same answers after a round trip, and one sentence about every incomplete folder."""

import json
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from planted_models import events, log_of, tiny

from resus import ArtifactError, InteractionLog, load
from resus.artifact import FACTS, USERS, WEIGHTS
from resus.checked_folder import CheckedFolder, write_facts


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return log_of(events())


@pytest.fixture(scope="module")
def saved(log: InteractionLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model. Tests work on copies."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    tiny().fit(log).save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "model")


def refused(folder: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        load(folder)
    said = str(caught.value)
    assert str(folder) in said
    assert "\n" not in said
    return said


def test_the_folder_holds_json_and_tensors_only(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == [FACTS, WEIGHTS, USERS]
    facts = json.loads((saved / FACTS).read_text())
    assert facts["model"] == "RESUS-RR"
    assert {"config", "features", "log", "history", "versions"} <= facts.keys()
    assert all(isinstance(tensor, torch.Tensor) for tensor in safetensors.torch.load_file(saved / WEIGHTS).values())


@pytest.mark.parametrize("name", [FACTS, WEIGHTS, USERS])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_named(folder: Path, name: str, kept: float) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * kept)])
    assert str(folder / name) in refused(folder)


@pytest.mark.parametrize("name", [FACTS, WEIGHTS, USERS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert name in refused(folder)


def test_a_flipped_byte_in_the_weights_is_found(folder: Path) -> None:
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-5] ^= 1
    (folder / WEIGHTS).write_bytes(content)
    assert WEIGHTS in refused(folder)


@pytest.mark.parametrize("name", [FACTS, WEIGHTS])
def test_a_file_of_another_run_is_found(folder: Path, name: str, log: InteractionLog, tmp_path: Path) -> None:
    tiny(seed=2).fit(log).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, folder / name)
    assert WEIGHTS in refused(folder)


@pytest.mark.parametrize(
    ("section", "old", "new"),
    [
        ("config", '"kind": "ridge"', '"kind": "nearest"'),
        ("config", '"seed"', '"speed"'),
        ("config", '"max_size": 6', '"max_size": 9'),
        ("features", '"values"', '"value"'),
        ("history", '"epoch": 2', '"epoch": 3'),
    ],
)
def test_an_edited_file_is_found(folder: Path, section: str, old: str, new: str) -> None:
    facts = json.loads((folder / FACTS).read_text())
    before = json.dumps(facts[section])
    assert old in before
    facts[section] = json.loads(before.replace(old, new, 1))
    (folder / FACTS).write_text(json.dumps(facts))
    assert f"{FACTS} was changed" in refused(folder)


@pytest.mark.parametrize(
    ("section", "key", "told"),
    [
        ("predictor", "column", "predictor.column belongs to predictor.kind=external"),
        ("training", "speed", "'training.speed'"),
    ],
)
def test_a_key_that_this_version_does_not_take_is_named(folder: Path, section: str, key: str, told: str) -> None:
    facts = dict(CheckedFolder.open(folder).facts)
    facts["config"][section][key] = 1
    write_facts(folder, facts, [WEIGHTS])
    said = refused(folder)
    assert "another version of resus" in said
    assert told in said


def bend(folder: Path, place: str, value: object) -> None:
    """Write another value at a dotted place of the facts, and let the hashes fit."""
    facts = json.loads(json.dumps(dict(CheckedFolder.open(folder).facts)))
    *sections, last = (int(part) if part.isdigit() else part for part in place.split("."))
    section = facts
    for part in sections:
        section = section[part]
    section[last] = value
    write_facts(folder, facts, [WEIGHTS])


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("config.encoder.embedding_dim", 10**6, "'encoder.embedding_dim' is 1000000"),
        ("config.predictor.embedding_dim", 4096, "do not fit its settings (encoder.deep.0.weight is [8, 16], not ["),
        ("config.encoder.embedding_dim", 4096, "do not fit its settings (encoder.deep.0.weight is [8, 16], not ["),
        (
            "config.encoder.hidden_units",
            [16384] * 100,
            "do not fit its settings (encoder.deep.0.bias is [8], not [16384])",
        ),
        ("config.encoder.hidden_units", [8] * 10**5, "'encoder.hidden_units' is [8, 8, 8, 8, 8, 8, ...]"),
        ("config.evaluation.max_size", 10**9, "'evaluation.max_size' is 1000000000"),
        ("config.evaluation.max_size", 7, "do not fit its settings (fusion.scale is [6], not [7])"),
        ("config.learner.kind", "nearest", "learner"),
    ],
)
def test_settings_of_other_sizes_than_the_weights_are_refused(
    folder: Path, place: str, value: object, told: str
) -> None:
    bend(folder, place, value)
    assert told in refused_in_words(folder)


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("features", 3, "the features have no fields or no item"),
        ("features.fields", {}, "the features have no fields or no item"),
        ("features.fields", [], "the names of the features are not those of the fields"),
        ("features.item", "colour", "the names of the features are not those of the fields"),
        ("features.fields.0.kind", "decade", "'item' is of the unknown kind 'decade'"),
        ("features.fields.0.kind", ["numeric"], "of the unknown kind ['numeric']"),
        ("features.fields.0.name", 7, "name of the feature 7"),
        ("features.fields.0.values", "1234", "values of the feature 'item'"),
        ("features.fields.0.values.3", None, "values.3 of the feature 'item'"),
        ("features.fields.0.values", ["1"], "do not fit its settings"),
        ("features.fields.2.scale", 0, "scale of the feature 'price'"),
        ("features.fields.3.slots", 10**9, "slots of the feature 'tags'"),
        ("history", [{"stage": 1}], "'0.stage' is 1"),
        ("history", None, "another version"),
        ("log", [], "another version"),
        ("log.table", {"user": "u"}, "another version"),
        ("config", None, "another version"),
    ],
)
def test_bent_facts_are_one_sentence(folder: Path, place: str, value: object, told: str) -> None:
    bend(folder, place, value)
    assert told in refused_in_words(folder)


def refused_in_words(folder: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        load(folder)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith("train again")
    assert len(said) < 1000
    return said


def test_a_reformatted_file_is_accepted(folder: Path, saved: Path, log: InteractionLog) -> None:
    facts = json.loads((folder / FACTS).read_text())
    (folder / FACTS).write_text(json.dumps(facts, indent=None, sort_keys=True))
    assert load(folder).evaluate(log) == load(saved).evaluate(log)


@pytest.mark.parametrize("content", ["[]", "{}", "3", '{"format": 99}', '{"architectures": ["BertModel"]}'])
def test_a_foreign_description_is_named(folder: Path, content: str) -> None:
    (folder / FACTS).write_text(content)
    assert "not a resus artifact of format 2" in refused(folder)


def test_an_artifact_of_the_version_before_is_named(folder: Path) -> None:
    facts = json.loads((folder / FACTS).read_text())
    (folder / FACTS).write_text(json.dumps(facts | {"format": 1}))
    said = refused(folder)
    assert "written by another version of resus (format 1, not 2)" in said
    assert "train again, and export again" in said


def test_foreign_weights_are_named(folder: Path) -> None:
    safetensors.torch.save_file({"weight": torch.zeros(3)}, folder / WEIGHTS)
    write_facts(folder, CheckedFolder.open(folder).facts, [WEIGHTS])
    assert "was not written by resus" in refused(folder)


def test_a_folder_without_a_model_gives_advice(tmp_path: Path) -> None:
    assert "resus train" in refused(tmp_path / "nowhere")
    assert "point to a folder that 'resus train' made" in refused(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    assert "resume=True" in refused(tmp_path)
    (tmp_path / "file").write_text("")
    assert "is a file, not a folder" in refused(tmp_path / "file")


def test_a_model_is_never_saved_over_another(folder: Path, log: InteractionLog) -> None:
    before = load(folder).evaluate(log)
    with pytest.raises(ArtifactError, match="holds a model already: choose another folder"):
        tiny(seed=2).fit(log).save(folder)
    assert load(folder).evaluate(log) == before
