"""What we ask beyond the paper, in worlds in which the right verdict is known."""

from claim_verdicts import rulings, verdict
from planted_cells import planted_cell


def test_a_gain_that_is_only_user_bias_does_not_survive() -> None:
    cells = [
        planted_cell("deepfm", auc=0.70, gauc=0.65),
        planted_cell("resus-nn", auc=0.72, gauc=0.65),
        planted_cell("resus-rr", auc=0.72, gauc=0.66),
        planted_cell("user-bias", auc=0.73, gauc=0.65),
    ]
    found = verdict("RESUS's gain over its Ψ survives", cells)
    assert found.words == "holds in part: resus-rr I, resus-rr II, resus-rr III"
    assert "resus-nn I: AUC +0.0200, GAUC +0.0000" in found.evidence
    assert verdict("RESUS beats user bias", cells).words == "holds in part: GAUC I, GAUC II, GAUC III"


def test_our_own_questions_are_not_asked_of_the_paper() -> None:
    ours = [ruling for ruling in rulings([]).values() if ruling.claim.ours]
    assert len(ours) >= 4
    assert all(ruling.on_paper == {} for ruling in ours)
