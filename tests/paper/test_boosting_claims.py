"""What the paper says of gradient boosting, in worlds in which the right verdict is known."""

from claim_verdicts import verdict
from planted_cells import planted_cell

from resus.paper.verdicts import Outcome


def test_boosting_that_helps_auc_and_harms_logloss() -> None:
    cells = [planted_cell("lr", auc=0.70, logloss=0.40), planted_cell("boosted-lr", auc=0.71, logloss=0.42)]
    assert verdict("Boosting improves", cells).outcome is Outcome.HOLDS
    assert verdict("Boosting raises", cells).outcome is Outcome.HOLDS
    assert verdict("Boosting raises", [cells[0], cells[1].model_copy(update={"method": "boosted-fm"})]).outcome is (
        Outcome.UNTESTED
    )
