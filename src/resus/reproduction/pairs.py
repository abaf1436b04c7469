"""Which methods each question holds against each other, and the comparison of them all."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from resus.progress import Progress
from resus.reproduction.cells import Cell
from resus.reproduction.questions import ARCHITECTURES, BOOSTED, FEW_SHOT, OPTIMISATION, PRACTICE, PROPOSED, resus_on
from resus.reproduction.significance import best_rival, compare


class Pair(NamedTuple):
    """A method against another; the bootstrap, which takes its time, only where a claim rests on it."""

    data_set: str
    method: str
    against: str
    bootstrap: bool


def compare_all(
    folder: Path, cells: Sequence[Cell], questions: Sequence[str], *, replicates: int, progress: Progress
) -> None:
    """Every pair of the questions that has cells; what is already compared is not compared again."""
    pairs = pairs_of(cells, questions)
    for done, pair in enumerate(pairs):
        progress("comparing methods user by user", done, len(pairs))
        compare(
            folder,
            cells,
            pair.data_set,
            pair.method,
            pair.against,
            replicates=replicates if pair.bootstrap else 0,
        )
    progress("comparing methods user by user", len(pairs), len(pairs))


def pairs_of(cells: Sequence[Cell], questions: Sequence[str]) -> list[Pair]:
    found: list[Pair] = []
    for data_set in dict.fromkeys(cell.data_set for cell in cells):
        run = {cell.method for cell in cells if cell.data_set == data_set}
        rival = best_rival(cells, data_set, [*FEW_SHOT, *OPTIMISATION])
        for question in questions:
            found += [
                Pair(data_set, method, against, bootstrap)
                for method, against, bootstrap in _pairs(question, rival)
                if method in run and against in run
            ]
    return list(dict.fromkeys(found))


def _pairs(question: str, rival: str | None) -> list[tuple[str, str, bool]]:
    match question:
        case "rq1":
            rivals = [name for name in (rival, "deepfm", *PRACTICE) if name]
            return [(method, against, True) for method in PROPOSED for against in rivals]
        case "rq2":
            found = [(method, f"{method}-joint", True) for method in PROPOSED]
            found += [(method, "mus", False) for method in PROPOSED]
            return found + [(resus_on(x, kind), kind, False) for kind in ARCHITECTURES for x in ("nn", "rr")]
        case "rq3":
            return [(resus_on(x, kind), f"boosted-{kind}", kind == "deepfm") for kind in BOOSTED for x in ("nn", "rr")]
    return []
