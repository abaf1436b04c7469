"""Which methods each question holds against each other, and the comparison of them all."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from resus.paper.cells.cells import Cell
from resus.paper.comparisons import Comparison
from resus.paper.questions import (
    ABLATIONS,
    ARCHITECTURES,
    BOOSTED,
    FEW_SHOT,
    OPTIMISATION,
    PLUS,
    PRACTICE,
    PROPOSED,
    QUESTIONS,
    resus_on,
)
from resus.paper.significance import best_rivals, compare
from resus.progress import Progress


class Pair(NamedTuple):
    """A method against another; the bootstrap, which takes its time, only where a claim rests on it."""

    data_set: str
    method: str
    against: str
    bootstrap: bool


def compare_all(
    folder: Path, cells: Sequence[Cell], questions: Sequence[str], *, replicates: int, progress: Progress
) -> list[Comparison]:
    """Every pair of the questions that has cells; what is already compared is not compared again."""
    pairs = pairs_of(cells, questions)
    found: list[Comparison] = []
    for done, pair in enumerate(pairs):
        progress("comparing methods user by user", done, len(pairs))
        drawn = replicates if pair.bootstrap else 0
        found += compare(folder, cells, pair.data_set, pair.method, pair.against, replicates=drawn)
    progress("comparing methods user by user", len(pairs), len(pairs))
    return found


def pairs_of(cells: Sequence[Cell], questions: Sequence[str]) -> list[Pair]:
    found: list[Pair] = []
    for data_set in dict.fromkeys(cell.data_set for cell in cells):
        run = {cell.method for cell in cells if cell.data_set == data_set}
        hardest = best_rivals(cells, data_set, [*FEW_SHOT, *OPTIMISATION])
        for question in questions:
            found += [
                Pair(data_set, method, against, bootstrap)
                for method, against, bootstrap in _pairs(question, hardest)
                if method in run and against in run
            ]
    surest = {pair[:3]: pair for pair in sorted(found, key=lambda pair: pair.bootstrap)}
    return list(surest.values())


def _pairs(question: str, hardest: Sequence[str]) -> list[tuple[str, str, bool]]:
    match question:
        case "rq1":
            surely = {*hardest, "deepfm", *PRACTICE}
            rivals = (*FEW_SHOT, *OPTIMISATION, "deepfm", *PRACTICE)
            return [(method, against, against in surely) for method in PROPOSED for against in rivals]
        case "rq2":
            found = [(method, f"{method}-joint", True) for method in PROPOSED]
            found += [(method, "mus", False) for method in PROPOSED]
            return found + [(resus_on(x, kind), kind, False) for kind in ARCHITECTURES for x in ("nn", "rr")]
        case "rq3":
            return [(resus_on(x, kind), f"boosted-{kind}", kind == "deepfm") for kind in BOOSTED for x in ("nn", "rr")]
        case "beyond":
            return [
                (PLUS, against, against not in ABLATIONS) for against in QUESTIONS["beyond"].methods if against != PLUS
            ]
    return []
