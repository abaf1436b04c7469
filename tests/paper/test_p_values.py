"""Table 5's claims that all gains are significant, over Ψ and over boosting."""

from collections.abc import Mapping

import pytest
from claim_verdicts import verdict
from planted_cells import OVER_BOOSTING, OVER_PREDICTOR, compared_on, comparison, every_cell

from resus.paper.claims.p_values import p_text
from resus.paper.verdicts import Outcome

OVER = pytest.mark.parametrize(
    ("start", "rivals"),
    [
        ("All of RESUS's gains over its Ψ", OVER_PREDICTOR),
        ("All of RESUS's gains over boosting", OVER_BOOSTING),
    ],
)


@OVER
@pytest.mark.parametrize(
    ("p_ttest", "p_bootstrap", "difference", "outcome"),
    [
        (0.004, 0.005, 0.01, Outcome.HOLDS),
        (0.02, 0.005, 0.01, Outcome.FAILS),
        (0.004, 0.02, 0.01, Outcome.FAILS),
        (None, 0.005, 0.01, Outcome.HOLDS),
        (0.004, None, 0.01, Outcome.HOLDS),
        (None, None, 0.01, Outcome.UNTESTED),
        (0.004, 0.005, -0.01, Outcome.FAILS),
    ],
)
def test_every_test_that_was_made_must_be_below_the_papers_level(
    start: str,
    rivals: Mapping[str, str],
    p_ttest: float | None,
    p_bootstrap: float | None,
    difference: float,
    outcome: Outcome,
) -> None:
    compared = compared_on(rivals, p_ttest=p_ttest, p_bootstrap=p_bootstrap, difference=difference)
    assert verdict(start, every_cell(), compared).outcome is outcome


@OVER
@pytest.mark.parametrize(("p_bootstrap", "outcome"), [(None, Outcome.UNTESTED), (0.005, Outcome.HOLDS)])
def test_two_runs_are_too_few_for_the_t_test(
    start: str, rivals: Mapping[str, str], p_bootstrap: float | None, outcome: Outcome
) -> None:
    compared = compared_on(rivals, seeds=(1, 2), p_ttest=0.2, p_bootstrap=p_bootstrap)
    assert verdict(start, every_cell(), compared).outcome is outcome


@OVER
def test_the_weakest_gain_is_named(start: str, rivals: Mapping[str, str]) -> None:
    compared = compared_on(rivals, p_ttest=0.004)
    weak = comparison("resus-rr-fm", rivals["fm"], stage="II", p_ttest=0.03, difference=0.001)
    found = verdict(start, every_cell(), [each for each in compared if each.subject != weak.subject] + [weak])
    assert found.words == "holds in part: all but resus-rr II"
    tested = f"resus-rr II: {len(rivals)} of {len(rivals)} gains tested"
    over = f"weakest: resus-rr-fm over {rivals['fm']} +0.0010, t-test p 0.030, bootstrap p 0.004"
    assert f"{tested}, {over}" in found.evidence


@OVER
@pytest.mark.parametrize(("p_ttest", "outcome"), [(0.004, Outcome.UNTESTED), (0.2, Outcome.FAILS)])
def test_a_part_of_all_gains_can_refute_but_not_bear_out(
    start: str, rivals: Mapping[str, str], p_ttest: float, outcome: Outcome
) -> None:
    part = compared_on({"lr": rivals["lr"]}, p_ttest=p_ttest)
    assert verdict(start, every_cell(), part).outcome is outcome


@OVER
def test_what_was_not_run_is_not_missed(start: str, rivals: Mapping[str, str]) -> None:
    cells = [cell for cell in every_cell() if cell.method in ("resus-nn", "resus-rr", rivals["deepfm"])]
    found = verdict(start, cells, compared_on({"deepfm": rivals["deepfm"]}, p_ttest=0.004))
    assert found.words == "holds, of what was run"
    assert "resus-nn I: 1 of 1 gains tested" in found.evidence


def test_a_tiny_p_is_not_shown_as_zero() -> None:
    assert [p_text(p) for p in (0.0004, 0.001, 0.0374)] == ["< 0.001", "0.001", "0.037"]
