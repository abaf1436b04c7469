"""Settings: the defaults, the paper's and ours, what overrides what, and one sentence on every mistake."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from resus import Resus
from resus.checking import known_keys
from resus.config.resolve import PLAIN, parse_assignments, resolve
from resus.config.settings import Config, flatten
from resus.errors import ConfigError
from resus.model.learners import LEARNERS
from resus.model.predictors import PREDICTORS

SETTINGS = [key for key in known_keys(Config) if not any(other.startswith(f"{key}.") for other in known_keys(Config))]
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.lists(st.integers(), max_size=3),
    st.none(),
)


def sentence(*arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_default_learner_is_plus_except_in_the_authors_release() -> None:
    assert resolve() == resolve({"learner.kind": "plus"}) == Resus().config
    assert resolve(data_set="planted") == resolve({"learner.kind": "plus"}, data_set="planted")
    released: dict[str, Any] = {"protocol": "authors-release"}
    assert resolve(released) == resolve({**released, "learner.kind": "ridge"}) == Resus(**released).config
    assert resolve(released).model_name == "RESUS-RR"


def test_the_defaults_of_ridge_are_the_papers() -> None:
    config: Any = resolve({"learner.kind": "ridge"})
    assert config == resolve(PLAIN) == Config()
    assert (config.predictor.kind, config.encoder.kind, config.learner.kind) == ("deepfm", "deepfm", "ridge")
    assert config.predictor.hidden_units == config.encoder.hidden_units == (400, 400, 400)
    assert config.predictor.embedding_dim == config.encoder.embedding_dim == 10
    assert config.predictor.learning_rate == config.training.learning_rate == 1e-3
    assert config.predictor.batch_size == config.training.batch_size == 1024
    assert config.split.ratios == (7, 2, 1)
    assert config.training.support_sizes == "uniform"
    assert config.max_support == 30
    assert config.evaluation.sizes == tuple(range(31))
    assert config.evaluation.stages == {
        "I": list(range(1, 11)),
        "II": list(range(11, 21)),
        "III": list(range(21, 31)),
    }


def test_taobao_is_evaluated_by_tens() -> None:
    stages = resolve(data_set="taobao").evaluation.stages
    assert stages == {
        "I": [10, 20, 30, 40, 50],
        "II": [60, 70, 80, 90, 100],
        "III": [110, 120, 130, 140, 150],
    }


@pytest.mark.parametrize(("learner", "scale"), [("ridge", 1.0), ("nearest", 3.0)])
def test_the_authors_release_differs_where_the_design_says(learner: str, scale: float) -> None:
    config: Any = resolve({"protocol": "authors-release", "learner.kind": learner})
    assert config.split.ratios == (7, 1, 2)
    assert config.split.order == "ascending"
    assert config.predictor.epochs == 1
    assert learner == "nearest" or (config.learner.bias and not config.learner.learn_ridge)
    assert (config.fusion.per_size, config.fusion.bias, config.fusion.scale) == (True, True, scale)


def test_what_is_nearer_to_the_user_wins(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("protocol: authors-release\npredictor: {epochs: 3, embedding_dim: 5}\nseed: 4\n")
    config: Any = resolve({"predictor.epochs": 7}, file=file, data_set="planted")
    assert config.predictor.epochs == 7  # the override over the file
    assert (config.predictor.embedding_dim, config.seed) == (5, 4)  # the file over data set and protocol
    assert config.predictor.hidden_units == (64, 64)  # the data set over the defaults
    assert config.split.order == "ascending"  # the protocol over the defaults
    assert config.predictor.batch_size == 1024
    file.write_text("# nothing yet\n")
    assert resolve(file=file) == resolve()


def test_a_learner_brings_its_settings_along(tmp_path: Path) -> None:
    plus: Any = resolve({"learner.kind": "plus"})
    assert plus == resolve({"learner": {"kind": "plus"}}) == Resus(learner="plus").config
    brought, all_of_plus = LEARNERS["plus"].presets("paper"), flatten(plus.model_dump())
    assert {key: all_of_plus[key] for key in brought} == brought
    assert resolve({"learner.kind": "plus"}, data_set="planted").encoder == plus.encoder
    file = tmp_path / "run.yaml"
    file.write_text("learner: {kind: plus, bias: false}\ntraining: {folds: 2, batch_size: 64}\n")
    config: Any = resolve({"training.folds": 3, "encoder.embedding_dim": 5}, file=file)
    assert (config.training.folds, config.encoder.embedding_dim) == (3, 5)  # overrides over the file and the learner
    assert (config.learner.bias, config.training.batch_size) == (False, 64)  # the file over the learner
    assert config.training.scalar_learning_rate == brought["training.scalar_learning_rate"]
    assert Resus(learner="plus", settings={"training.folds": 1}).config.training.folds == 1
    released = resolve({"learner.kind": "plus", "protocol": "authors-release"})
    assert (released.fusion.per_size, released.fusion.scale, released.split.ratios) == (False, 1.0, (7, 1, 2))


@pytest.mark.parametrize(
    ("chosen", "key", "owners"),
    [
        ({"learner.kind": "ridge", "learner.similarity": "cosine"}, "learner.similarity", ["nearest"]),
        ({"learner.kind": "nearest", "learner.bias": True}, "learner.bias", ["ridge", "plus"]),
        ({"learner.kind": "plus", "encoder.hidden_units": [4]}, "encoder.hidden_units", ["deepfm"]),
        ({"predictor.rounds": 3}, "predictor.rounds", ["lightgbm"]),
        ({"predictor.kind": "lightgbm", "predictor.pretrain": False}, "predictor.pretrain", ["deepfm"]),
        ({"predictor.kind": "logits:ours", "predictor.pretrain": False}, "predictor.pretrain", ["deepfm"]),
        ({"predictor.kind": "none", "predictor.epochs": 3}, "predictor.epochs", ["deepfm"]),
    ],
)
def test_a_key_of_another_kind_names_the_kinds_that_take_it(
    chosen: dict[str, Any], key: str, owners: list[str]
) -> None:
    said = sentence(chosen)
    assert said.startswith(f"{key} belongs to {key.partition('.')[0]}.kind=")
    assert all(owner in said for owner in owners)


@pytest.mark.parametrize("key", ["learner.ridge", "encoder.hidden_units"])
def test_a_key_that_the_default_learner_does_not_take_names_the_default(key: str) -> None:
    assert sentence({key: 3}).endswith(": leave it out, or set learner.kind (the default is plus)")
    assert sentence({key: 3, "learner.kind": "plus"}).endswith(": leave it out")


def test_presets_apply_only_where_the_kind_has_the_key() -> None:
    """The planted data's networks are small; trees and factors have no hidden units."""
    trees = resolve({"predictor.kind": "lightgbm"}, data_set="planted").predictor
    assert trees == PREDICTORS.chosen({"kind": "lightgbm"})
    changed: Any = resolve(data_set="planted").changed({"predictor.kind": "fm"})
    assert changed.predictor.hidden_units == (64, 64)
    assert changed.changed({"predictor.kind": "none"}).predictor == PREDICTORS.chosen({"kind": "none"})


@pytest.mark.parametrize("kind", PREDICTORS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_kind_has_names_and_survives_json(kind: str, learner: str) -> None:
    column = {"predictor.column": "ours"} if "column" in PREDICTORS[kind].model_fields else {}
    config = resolve({"predictor.kind": kind, "learner.kind": learner, **column})
    assert config.model_name
    assert config.predictor_name
    assert config.slug.endswith("-1")
    assert Config.model_validate_json(config.model_dump_json()) == config
    assert resolve(config.model_dump()) == resolve(yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json"))))
    assert resolve(config.model_dump()) == config


@pytest.mark.parametrize(
    ("chosen", "hint"),
    [
        ({"encoder.kind": "deepfm"}, "works with encoder.kind=factors, not deepfm"),
        ({"encoder.kind": "deepfm"}, "leave encoder.kind out, or choose learner.kind=ridge or nearest"),
        ({"learner.kind": "ridge", "encoder.kind": "factors"}, "works with learner.kind=plus, not ridge"),
        ({"learner.kind": "ridge", "training.folds": 2}, "training.folds is for learner.kind=plus"),
        ({"learner.kind": "nearest", "training.folds": 2}, "training.folds is for learner.kind=plus"),
        ({"learner.kind": "plus", "training.folds": 0}, "a number of at least 1"),
        ({"learner.kind": "plus", "learner.steps": 0}, "a number of at least 1"),
        ({"learner.kind": "plus", "fusion.scale": 2.0}, "has no β: leave out fusion.scale"),
        ({"learner.kind": "plus", "fusion.monotone": True}, "has no β: leave out fusion.monotone"),
        ({**PLAIN, "fusion.monotone": True, "fusion.bias": True}, "needs fusion.per_size=true and fusion.bias=false"),
        ({**PLAIN, "fusion.monotone": True, "fusion.per_size": False}, "fusion.monotone needs fusion.per_size=true"),
        ({**PLAIN, "fusion.monotone": True, "fusion.scale": -1.0}, "fusion.monotone needs a fusion.scale above 0"),
        ({"learner.kind": "plus", "fusion.per_size": True}, "has no β: leave out fusion.per_size"),
        ({"learner.kind": "plus", "fusion.bias": True, "fusion.scale": 2}, "leave out fusion.bias, fusion.scale"),
        ({"learner.kind": "plus", "protocol": "authors-release", "fusion.bias": True}, "leave out fusion.bias"),
        ({"learner.kind": "plus", "predictor.pretrain": False}, "leave predictor.pretrain at true, or choose"),
        (
            {"learner.kind": "plus", "learner.bias": False, "learner.matches": False, "learner.taste": False},
            "needs learner.bias, learner.matches or learner.taste",
        ),
    ],
)
def test_a_plus_that_is_not_whole_is_refused(chosen: dict[str, Any], hint: str) -> None:
    assert hint in sentence(chosen)


def test_sections_and_dotted_keys_say_the_same() -> None:
    nested = resolve({"predictor": {"kind": "fm", "epochs": 3}, "training": {}})
    assert nested == resolve({"predictor.kind": "fm", "predictor.epochs": 3})


def test_unknown_keys_are_answered_together_with_the_nearest_known_ones() -> None:
    said = sentence({"predictor.embeding_dim": 4, "epoch": 3, "learner.similarty": "cosine", "user": 1, "zq": 1})
    assert "unknown key 'predictor.embeding_dim', did you mean 'predictor.embedding_dim'?" in said
    assert "unknown key 'epoch', did you mean 'predictor.epochs'?" in said
    assert "unknown key 'learner.similarty', did you mean 'learner.similarity'?" in said
    assert "unknown key 'user'; unknown key 'zq'; " in said
    assert said.count("the page 'Settings' of the documentation") == 1
    assert "encoder.factory" not in sentence({"encoder.factry": 1})


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("predictor.kind", "deepfn", "deepfm"),
        ("learner.kind", "knn", "nearest"),
        ("encoder.kind", "lightgbm", "xdeepfm"),
        ("protocol", "papers", "authors-release"),
        ("seed", "one", "a whole number"),
        ("seed", -1, "a number of at least 0"),
        ("training.epochs", 0, "a number of at least 1"),
        ("training.learning_rate", "fast", "number"),
        ("training.learning_rate", float("inf"), "finite"),
        ("fusion.scale", float("nan"), "finite"),
        ("predictor.hidden_units", [], "at least 1"),
        ("split.ratios", [7, 2], "split.ratios.2"),
        ("split.ratios", [7, 2, 0], "positive share"),
        ("evaluation.step", 20, "three stages"),
        ("predictor", "deepfm", "predictor.kind"),
        ("training", None, "training.epochs"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_its_key(key: str, value: Any, hint: str) -> None:
    said = sentence({key: value})
    assert key in said
    assert hint in said


def test_wrong_values_are_reported_together() -> None:
    said = sentence({"seed": "x", "training.epochs": 0, "learner.kind": "ridge", "learner.ridge": -1})
    assert all(key in said for key in ("'seed'", "'training.epochs'", "'learner.ridge'"))


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"predictor: {kind: fm", "not valid YAML"),
        (b"a: b: c", "not valid YAML"),
        (b"\xff\xfe\x00", "not valid YAML"),
        (b"seed: 2024-13-45", "not valid YAML"),
        (b"- just\n- a list\n", "must be a mapping"),
        (b"predictor:\n  knid: fm\n", "did you mean 'predictor.kind'?"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_name(tmp_path: Path, content: bytes, hint: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(content)
    said = sentence(file=file)
    assert hint in said
    assert str(file) in said or "knid" in said


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert str(tmp_path / "no.yaml") in sentence(file=tmp_path / "no.yaml")
    assert str(tmp_path) in sentence(file=tmp_path)


def test_equal_settings_have_equal_fingerprints_and_others_do_not() -> None:
    prints = {resolve({"seed": seed, "learner.kind": kind}).fingerprint("log") for seed in (1, 2) for kind in KINDS}
    assert len(prints) == 6
    assert resolve({"split.ratios": [7.0, 2, 1]}).fingerprint("log") == resolve().fingerprint("log")
    assert Config().fingerprint("log") != Config().fingerprint("another log")


KINDS = ("ridge", "nearest", "plus")


def test_the_names_in_tables_are_the_papers() -> None:
    assert resolve().model_name == "RESUS+"
    assert resolve({"learner.kind": "ridge"}).model_name == "RESUS-RR"
    assert resolve({"learner.kind": "nearest"}).model_name == "RESUS-NN"
    assert resolve({"learner.kind": "nearest", "predictor.kind": "none"}).model_name == "MUS"
    joint = resolve({"learner.kind": "ridge", "predictor.pretrain": False})
    assert (joint.model_name, joint.slug) == ("RESUS-RR (w/o pretrain)", "resus-rr-joint-deepfm-1")
    plus = resolve({"learner.kind": "plus", "seed": 3})
    assert (plus.model_name, plus.slug) == ("RESUS+", "resus-plus-deepfm-3")
    alone = resolve({"learner.kind": "plus", "predictor.kind": "none"})
    assert (alone.model_name, alone.slug) == ("MUS+", "mus-plus-none-1")
    own = resolve({"learner.kind": "plus", "predictor.kind": "logits:ours"})
    assert (own.model_name, own.slug) == ("RESUS+", "resus-plus-ours-1")


def test_a_model_of_the_users_own_is_not_trained_again() -> None:
    own = {"learner.kind": "plus", "predictor.kind": "logits:ours"}
    config = resolve(own)
    assert config.training.folds == 1, "the learner's number of folds is for a predictor that can be trained again"
    assert resolve(config.model_dump()) == config
    assert sentence(own | {"training.folds": 4}).startswith("training.folds=4 trains the shared model again")
    inherited = {"predictor.kind": "external", "predictor.column": "ours"}
    assert resolve({"learner.kind": "plus"}, inherited=inherited).training.folds == 1


@given(st.dictionaries(st.sampled_from(SETTINGS), SCALARS, max_size=6))
def test_assignments_are_read_as_yaml(values: dict[str, Any]) -> None:
    texts = [f"{key}={yaml.safe_dump(value, default_flow_style=True)}" for key, value in values.items()]
    assert parse_assignments(texts) == values


@given(st.lists(st.text(max_size=20), max_size=3))
def test_any_text_is_read_or_refused_in_one_sentence(assignments: list[str]) -> None:
    try:
        resolve(parse_assignments(assignments))
    except ConfigError as error:
        assert "\n" not in str(error)  # noqa: PT017  # both outcomes are right


@given(st.dictionaries(st.sampled_from(known_keys(Config)), SCALARS, max_size=4))
def test_any_value_is_taken_or_refused_in_one_sentence(values: dict[str, Any]) -> None:
    try:
        assert isinstance(resolve(values), Config)
    except ConfigError as error:
        assert str(error)  # noqa: PT017  # both outcomes are right


@pytest.mark.parametrize("assignment", ["seed", "=3", " = 3", ""])
def test_an_assignment_without_key_or_value_is_named(assignment: str) -> None:
    with pytest.raises(ConfigError, match=f"'{assignment}' is not of the form key=value"):
        parse_assignments([assignment])


@pytest.mark.parametrize("value", ["{", "a: b: c", "2024-13-45", "&"])
def test_a_value_that_is_not_yaml_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="the value of 'seed' cannot be read"):
        parse_assignments([f"seed={value}"])


def test_the_later_assignment_wins_and_values_may_hold_equals() -> None:
    assert parse_assignments(["a=1", "a=2", "b=x=y"]) == {"a": 2, "b": "x=y"}
