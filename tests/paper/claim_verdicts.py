"""The verdict on one claim in a world of planted cells, found by how the claim begins."""

from resus.paper.cells.cells import Cell
from resus.paper.claims import CLAIMS
from resus.paper.comparisons import Comparison
from resus.paper.published import paper
from resus.paper.report.summary import Summary
from resus.paper.verdicts import Ruling, Verdict, rule


def rulings(
    cells: list[Cell], comparisons: list[Comparison] | None = None, data_set: str = "ml-1m"
) -> dict[str, Ruling]:
    found = rule(CLAIMS, Summary(cells), paper(), [data_set], comparisons or [], {}, {"taobao": "no data"})
    return {ruling.claim.words: ruling for ruling in found}


def verdict(
    start: str, cells: list[Cell], comparisons: list[Comparison] | None = None, data_set: str = "ml-1m"
) -> Verdict:
    """Of the one claim that begins so."""
    (found,) = (
        ruling.verdicts[data_set]
        for words, ruling in rulings(cells, comparisons, data_set).items()
        if words.startswith(start)
    )
    return found
