"""A cell is one method on one data set with one seed; a finished cell is one line of JSON."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from resus.checking import sentence_of
from resus.errors import ArtifactError
from resus.evaluation.results import MetricValue, ModelResults
from resus.files import append_line

CELLS = "cells.jsonl"
Key = tuple[str, str, int]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Epoch(_Record):
    """One epoch of a training stage: what it reached on the validation users, and how long it took."""

    stage: str
    epoch: int
    validation_auc: float
    seconds: float


class Seconds(_Record):
    """Wall-clock time. Pretraining is Ψ's, which methods of one data set and seed share."""

    pretraining: float
    training: float
    scoring: float


class NoiseLevel(_Record):
    """Queries answered from supports of one fifth, by distance to the query (figure 4)."""

    distance: float
    auc: MetricValue
    gauc: MetricValue
    logloss: MetricValue


class Cell(_Record):
    """What came out. `alone` says that nothing else ran beside it, so that its times count."""

    format: Literal[1] = 1
    data_set: str
    method: str
    seed: int
    mark: str  # of the settings and the data
    hyperparameters: dict[str, Any]
    results: ModelResults
    epochs: list[Epoch]
    seconds: Seconds
    threads: int
    alone: bool
    noise: list[NoiseLevel] | None = None

    @property
    def key(self) -> Key:
        return self.data_set, self.method, self.seed


def read_cells(folder: Path) -> list[Cell]:
    """All finished cells of a folder, in the order in which they finished."""
    path = folder / CELLS
    cells = []
    for number, line in enumerate(whole_lines(path), start=1):
        try:
            cells.append(Cell.model_validate_json(line))
        except ValidationError as error:
            raise ArtifactError(
                f"{path}, line {number} is not a cell of this version ({sentence_of(error, Cell)}): "
                "delete the line, and its cell is run again"
            ) from None
    return cells


def add_cell(folder: Path, cell: Cell) -> None:
    append_line(folder / CELLS, json.dumps(cell.model_dump(mode="json")))


def whole_lines(path: Path) -> list[str]:
    """The lines of a file but for one that a kill cut short; none where there is no file."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1].splitlines()


def first_of_each(cells: Iterable[Cell]) -> dict[Key, Cell]:
    """One cell per key, the one that finished first."""
    found: dict[Key, Cell] = {}
    for cell in cells:
        found.setdefault(cell.key, cell)
    return found


def scores_path(folder: Path, key: Key) -> Path:
    """Where a cell keeps its logits, for comparisons user by user."""
    data_set, method, seed = key
    return folder / "scores" / data_set / f"{method}-{seed}.safetensors"
