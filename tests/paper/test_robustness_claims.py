"""What the paper says of figure 4, in worlds in which the right verdict is known."""

import pytest
from claim_verdicts import verdict
from planted_cells import planted_cell

from resus.paper.verdicts import Outcome


def test_noise() -> None:
    cells = [
        planted_cell("mus", auc=0.66, falls=0.05),
        planted_cell("meta-embedding", auc=0.71, falls=0.0),
        planted_cell("resus-nn", auc=0.72, falls=0.02),
        planted_cell("resus-rr", auc=0.72, falls=0.005),
    ]
    assert verdict("RESUS beats Meta-Embedding at every", cells).words == "holds in part: resus-rr"
    assert verdict("RESUS's AUC falls less", cells).words == "holds"


@pytest.mark.parametrize(
    ("of_rival", "words"), [(0.42, "holds"), (0.405, "holds in part: resus-rr"), (0.39, "does not hold")]
)
def test_logloss_at_every_noise_level(of_rival: float, words: str) -> None:
    loglosses = {"meta-embedding": of_rival, "resus-nn": 0.41, "resus-rr": 0.40}
    cells = [planted_cell(method, logloss=logloss, falls=0.0) for method, logloss in loglosses.items()]
    assert verdict("RESUS has a lower Logloss than Meta-Embedding", cells).words == words


@pytest.mark.parametrize(
    ("falls", "stable", "slight"),
    [
        (0.005, Outcome.HOLDS, Outcome.HOLDS),
        (0.02, Outcome.FAILS, Outcome.FAILS),
        (-0.005, Outcome.HOLDS, Outcome.FAILS),
        (-0.02, Outcome.FAILS, Outcome.FAILS),
    ],
)
def test_stable_has_a_threshold_and_a_rise_is_no_fall(falls: float, stable: Outcome, slight: Outcome) -> None:
    cells = [planted_cell(method, auc=0.72, falls=falls) for method in ("resus-nn", "resus-rr")]
    assert verdict("RESUS's AUC is stable over the noise levels", cells).outcome is stable
    assert verdict("RESUS's AUC falls slightly", cells).outcome is slight


def test_stability_is_not_judged_without_noise_levels() -> None:
    for start in (
        "RESUS has a lower Logloss than Meta-Embedding",
        "RESUS's AUC is stable",
        "RESUS's AUC falls slightly",
    ):
        assert verdict(start, [planted_cell("resus-rr")]).outcome is Outcome.UNTESTED
