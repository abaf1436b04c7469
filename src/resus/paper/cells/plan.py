"""From questions to the cells that answer them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resus.paper.cells.records import Key, read_cells
from resus.paper.questions import QUESTIONS
from resus.paper.rivals import METHODS


@dataclass(frozen=True)
class PlannedCell:
    """A cell to run. `settings` are settings of a run by dotted key, on top of those of the data set.

    Without `search` the method runs with its default hyperparameters.
    """

    folder: Path
    log: Path
    data_set: str
    method: str
    seed: int
    settings: Mapping[str, Any]
    threads: int
    alone: bool
    search: bool = True

    @property
    def key(self) -> Key:
        return self.data_set, self.method, self.seed

    @property
    def name(self) -> str:
        return f"{self.data_set}-{self.method}-{self.seed}" + ("-alone" if self.alone else "")


def plan_cells(
    questions: Sequence[str],
    logs: Mapping[str, Path],
    *,
    runs: int,
    methods: Sequence[str] | None,
    folder: Path,
    settings: Mapping[str, Any],
    cores: int,
    jobs: int,
    search: bool = True,
) -> list[PlannedCell]:
    """Every cell once: first the shared predictors that other cells need, then seed by seed.

    A timed question needs one run, alone and on all cores. Other cells may share the machine.
    """
    alone: dict[Key, bool] = {}
    for question in map(QUESTIONS.__getitem__, questions):
        for data_set in logs:
            for method in question.methods:
                if methods is not None and method not in methods:
                    continue
                for seed in range(1, (1 if question.timed else runs) + 1):
                    key = (data_set, method, seed)
                    alone[key] = alone.get(key, False) or question.timed or jobs == 1
    first = [key for key in alone if METHODS[key[1]].predictor == key[1]]
    rest = sorted((key for key in alone if key not in first), key=lambda key: key[2])
    return [
        PlannedCell(
            folder=folder,
            log=logs[data_set],
            data_set=data_set,
            method=method,
            seed=seed,
            settings=settings,
            threads=cores if alone[data_set, method, seed] else max(1, cores // jobs),
            alone=alone[data_set, method, seed],
            search=search,
        )
        for data_set, method, seed in [*first, *rest]
    ]


def missing(planned: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Cells that are not finished. One that must run alone is finished only by a cell that ran alone."""
    finished: set[tuple[Path, Key, bool]] = set()
    for folder in {cell.folder for cell in planned}:
        for cell in read_cells(folder):
            finished |= {(folder, cell.key, False), (folder, cell.key, cell.alone)}
    return [cell for cell in planned if (cell.folder, cell.key, cell.alone) not in finished]
