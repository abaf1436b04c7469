"""From a question to the cells that answer it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resus.paper.cells.experiment import Request
from resus.paper.questions import QUESTIONS
from resus.paper.rivals import METHODS


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
) -> list[Request]:
    """Every cell once, Ψs first since others stand on them, then seed by seed so that what is finished is even.

    A timed question needs one run, alone and on all cores; the others may share the machine.
    """
    wanted: dict[tuple[str, str, int], bool] = {}
    for question in questions:
        asked = QUESTIONS[question]
        for data_set in logs:
            for method in asked.methods:
                if methods is not None and method not in methods:
                    continue
                for seed in range(1, (1 if asked.timed else runs) + 1):
                    key = (data_set, method, seed)
                    wanted[key] = wanted.get(key, False) or asked.timed or jobs == 1
    first = [key for key in wanted if METHODS[key[1]].predictor == key[1]]
    rest = sorted((key for key in wanted if key not in first), key=lambda key: key[2])
    return [
        Request(
            folder=folder,
            log=logs[data_set],
            data_set=data_set,
            method=method,
            seed=seed,
            settings=settings,
            threads=cores if wanted[data_set, method, seed] else max(1, cores // jobs),
            alone=wanted[data_set, method, seed],
            search=search,
        )
        for data_set, method, seed in [*first, *rest]
    ]
