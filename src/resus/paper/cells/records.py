"""The files of a reproduction: one JSON line per finished cell and per hyperparameter tried, and the settings used."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from resus.checking import sentence_of
from resus.errors import ArtifactError
from resus.evaluation.results import MetricValue, ModelResults, Record
from resus.files import append_line, locked, read_json, write_json

CELLS = "cells.jsonl"
TRIALS = "searches.jsonl"
SETTINGS = "settings.json"
Key = tuple[str, str, int]
Hyperparameters = dict[str, int | float]
AnyRecord = TypeVar("AnyRecord", bound=Record)


class TrainedEpoch(Record):
    """One epoch of a training stage: the AUC on the validation users, and how long it took."""

    stage: str
    epoch: int
    validation_auc: float
    seconds: float


class Seconds(Record):
    """Wall-clock time. Pretraining is that of Ψ, which methods share on one data set with one seed."""

    pretraining: float
    training: float
    scoring: float


class NoiseLevel(Record):
    """Queries scored from supports of one fifth, by distance to the query (figure 4)."""

    distance: float
    auc: MetricValue
    gauc: MetricValue
    logloss: MetricValue


class Cell(Record):
    """The result of one cell. `alone` means that no other cell ran at the same time, so its times count."""

    format: Literal[1] = 1
    data_set: str
    method: str
    seed: int
    mark: str  # a short hash of the settings and the data
    hyperparameters: Hyperparameters
    results: ModelResults
    epochs: list[TrainedEpoch]
    seconds: Seconds
    threads: int
    alone: bool
    noise: list[NoiseLevel] | None = None

    @property
    def key(self) -> Key:
        return self.data_set, self.method, self.seed


class Trial(Record):
    """One point of a method's grid, and the AUC that it reached on validation users."""

    data_set: str
    method: str
    point: Hyperparameters
    validation_auc: float
    seconds: float


class RunSettings(Record):
    """The settings and the log with which a data set was run in a folder."""

    settings: dict[str, Any]
    log: str

    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.settings.items()) or "defaults"


def read_cells(folder: Path) -> list[Cell]:
    """All finished cells of a folder, in the order in which they finished."""
    return read_records(folder / CELLS, Cell)


def read_trials(folder: Path) -> list[Trial]:
    return read_records(folder / TRIALS, Trial)


def read_records(path: Path, kind: type[AnyRecord]) -> list[AnyRecord]:
    """One record per line. A last line that a kill cut short does not count. Without a file there are none."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    found = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError as error:
            raise ArtifactError(
                f"{path}, line {number} is not a {kind.__name__.lower()} of this version ({sentence_of(error, kind)}): "
                "delete the line, and resus makes it again"
            ) from None
    return found


def append_record(path: Path, record: Record) -> None:
    append_line(path, json.dumps(record.model_dump(mode="json")))


def first_of_each(cells: Iterable[Cell]) -> dict[Key, Cell]:
    """One cell per key, the one that finished first."""
    found: dict[Key, Cell] = {}
    for cell in cells:
        found.setdefault(cell.key, cell)
    return found


def scores_path(folder: Path, key: Key) -> Path:
    """The file of a cell's logits, which comparisons user by user need."""
    data_set, method, seed = key
    return folder / "scores" / data_set / f"{method}-{seed}.safetensors"


def fix_settings(folder: Path, data_set: str, settings: Mapping[str, Any], log_hash: str) -> None:
    """Record the settings of a data set in this folder. Refuse if the data set was run here with others."""
    own = RunSettings(settings=dict(settings), log=log_hash)
    with locked(folder / "locks" / "settings.lock"):
        known = read_settings(folder)
        before = known.setdefault(data_set, own)
        if before.model_dump(mode="json") != own.model_dump(mode="json"):
            raise ArtifactError(
                f"{folder} holds cells of {data_set} with other data or other settings ({before}): "
                "use the same ones, or choose another folder with --out"
            )
        write_json(folder / SETTINGS, {name: each.model_dump(mode="json") for name, each in known.items()})


def read_settings(folder: Path) -> dict[str, RunSettings]:
    """The settings of each data set that was run in this folder."""
    path = folder / SETTINGS
    content = read_json(path) if path.is_file() else {}
    return {name: RunSettings.model_validate(each) for name, each in content.items()}
