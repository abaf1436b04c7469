"""What the paper says of tables 4 and 5, in worlds in which the right verdict is known."""

import pytest
from claim_verdicts import verdict
from planted_cells import cells_of

from resus.paper.verdicts import Outcome


@pytest.mark.parametrize(
    ("joint", "on_movielens", "on_frappe"),
    [
        (0.7195, Outcome.HOLDS, Outcome.FAILS),
        (0.7205, Outcome.HOLDS, Outcome.HOLDS),
        (0.7300, Outcome.FAILS, Outcome.HOLDS),
    ],
)
def test_pretraining_is_comparable_within_a_threshold_and_worse_on_frappe(
    joint: float, on_movielens: Outcome, on_frappe: Outcome
) -> None:
    aucs = {"resus-nn": 0.72, "resus-rr": 0.72, "resus-nn-joint": joint, "resus-rr-joint": joint}
    assert verdict("Pretraining", cells_of(aucs)).outcome is on_movielens
    assert verdict("Pretraining", cells_of(aucs, data_set="frappe"), data_set="frappe").outcome is on_frappe
