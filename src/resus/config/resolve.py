"""From what a user says to all settings: presets first, then the file, then single settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from resus.checking import key_of_other_kinds, known_keys, on_one_line, unknown_keys
from resus.config.settings import REGISTRIES, Config, checked_config, flatten, keys_of_kinds
from resus.errors import ConfigError
from resus.files import read_yaml, reason_of
from resus.model.learners import LEARNERS
from resus.model.predictors import PREDICTORS, expanded
from resus.wording import advice

PLAIN = {"learner.kind": "ridge"}  # brings no other settings along, for methods that have their own

# Settings that come with a protocol or a data set. A learner brings its own along.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"learner.kind": LEARNERS.default},
    "authors-release": {
        "learner.kind": "ridge",
        "split.ratios": (7, 1, 2),
        "split.order": "ascending",
        "predictor.epochs": 1,
        "learner.bias": True,
        "learner.learn_ridge": False,
        "fusion.bias": True,
    },
}

DATA_SET_PRESETS: dict[str, dict[str, Any]] = {
    "taobao": {"evaluation.max_size": 150, "evaluation.step": 10},
    "planted": {
        "predictor.hidden_units": (64, 64),
        "encoder.hidden_units": (64, 64),
        "predictor.embedding_dim": 8,
        "encoder.embedding_dim": 8,
    },
}


def resolve(
    overrides: Mapping[str, Any] | None = None,
    *,
    data_set: str = "",
    file: Path | None = None,
    inherited: Mapping[str, Any] | None = None,
) -> Config:
    """Defaults, then the protocol's, the data set's, the learner's, `inherited`, the config file's, `overrides`.

    The default learner is RESUS+, and RESUS-RR under the protocol authors-release. Keys are dotted. `inherited` are
    settings of another run, such as `Config.settings_of_predictor`. A preset applies only if the chosen kinds have its
    key; what the user sets must fit the kinds.
    """
    chosen = read_file(file) if file else {}
    chosen |= flatten(overrides or {})
    chosen |= expanded(chosen)
    protocol = str(chosen.get("protocol", "paper"))
    presets = PROTOCOLS.get(protocol, PROTOCOLS["paper"]) | DATA_SET_PRESETS.get(data_set, {})
    learner = chosen.get("learner.kind", presets["learner.kind"])
    if isinstance(learner, str) and learner in LEARNERS:
        presets |= LEARNERS[learner].presets(protocol)
    presets |= inherited or {}
    predictor = chosen.get("predictor.kind", presets.get("predictor.kind"))
    if isinstance(predictor, str) and predictor in PREDICTORS:
        presets |= _folds(predictor, chosen)
    _refuse_wrong_keys(chosen, presets)
    return checked_config(keys_of_kinds(presets, chosen) | chosen)


def parse_assignments(assignments: list[str]) -> dict[str, Any]:
    """`key=value` texts, values read as YAML."""
    parsed = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{assignment!r} is not of the form key=value, such as learner.kind=nearest")
        try:
            parsed[key.strip()] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: such as a date of month 13
            raise ConfigError(f"the value of {key!r} cannot be read: {on_one_line(error)}") from None
    return parsed


def _folds(predictor: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """One, whatever the learner brings, for a shared model that resus cannot train again without some users."""
    settings = PREDICTORS[predictor]
    if settings.trainable or settings.absent:
        return {}
    folds = chosen.get("training.folds", 1)
    if isinstance(folds, int | float) and folds > 1:
        raise ConfigError(
            f"training.folds={folds} trains the shared model again without some of the users, and resus cannot train a "
            "model of your own: leave training.folds out"
        )
    return {"training.folds": 1}


def _refuse_wrong_keys(chosen: Mapping[str, Any], presets: Mapping[str, Any]) -> None:
    known = known_keys(Config)
    taken = known_keys(Config, in_python=True)
    unknown = [key for key in chosen if key not in taken]
    if unknown:
        raise ConfigError("; ".join(unknown_keys(unknown, known, known_settings())))
    sections = [key for key in chosen if any(other.startswith(f"{key}.") for other in known)]
    if sections:
        raise ConfigError(
            f"'{sections[0]}' is a section, not a setting: set one of "
            + ", ".join(key for key in known if key.startswith(f"{sections[0]}."))
        )
    fitting = keys_of_kinds(chosen, {**presets, **chosen})
    misplaced = [key for key in chosen if key not in fitting and _names_a_kind(key, chosen, presets)]
    if misplaced:
        said = "; ".join(f"{key_of_other_kinds(key, Config)}: leave it out" for key in misplaced)
        if "learner.kind" not in chosen and any(key.startswith(("learner.", "encoder.")) for key in misplaced):
            said += f", or set learner.kind (the default is {presets['learner.kind']})"
        raise ConfigError(said)


def known_settings() -> str:
    return advice(
        python="the page 'Settings' of the documentation lists the known keys",
        command="'resus train --settings' lists the known keys",
    )


def _names_a_kind(key: str, chosen: Mapping[str, Any], presets: Mapping[str, Any]) -> bool:
    """Whether the kind of a key's section exists; a wrong kind is reported separately."""
    section = key.partition(".")[0]
    kind = chosen.get(f"{section}.kind", presets.get(f"{section}.kind", REGISTRIES[section].default))
    return isinstance(kind, str) and kind in REGISTRIES[section]


def read_file(path: Path) -> dict[str, Any]:
    """The settings of a config file, by dotted keys."""
    try:
        content = read_yaml(path) or {}
    except OSError as error:
        raise ConfigError(f"config file {path}: {reason_of(error)}; check the path") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"config file {path} is not valid YAML: {on_one_line(error)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"config file {path} must be a mapping of settings, such as 'learner: {{kind: nearest}}'")
    if {"user", "item"} <= content.keys():
        raise ConfigError(
            f"config file {path} is a schema, which says what the columns of a table mean: give it to 'resus prepare', "
            "and here a file of settings"
        )
    return flatten(content)
