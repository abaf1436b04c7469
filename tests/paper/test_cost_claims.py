"""What the paper says of table 6, in worlds in which the right verdict is known."""

from claim_verdicts import verdict
from planted_cells import planted_cell

from resus.paper.verdicts import Outcome


def test_times_count_pretraining_and_prefer_cells_that_ran_alone() -> None:
    cells = [
        planted_cell("lwa", seconds=104),
        planted_cell("resus-nn", seconds=101),
        planted_cell("resus-rr", seconds=120),
        planted_cell("resus-rr", seconds=50),
    ]
    assert verdict("RESUS trains faster", cells).outcome is Outcome.HOLDS
    slow = [*cells[:2], planted_cell("resus-rr", seconds=120), planted_cell("resus-rr", seconds=50, alone=False)]
    assert verdict("RESUS trains faster", slow).words == "holds in part: resus-nn, of what was run"
