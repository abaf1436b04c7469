"""Verdicts follow the numbers: all, some or none of the checks, tests of significance, and the tables of the paper."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_cells import OVER_BOOSTING, OVER_PREDICTOR, compared_on, comparison, every_cell, rulings, verdict

from resus.paper.claims import CLAIMS
from resus.paper.claims.judging import Check, ClaimVerdict, Outcome, p_text, verdict_of
from resus.paper.questions import QUESTIONS

UNPRINTED = (
    "RESUS beats the best rival significantly",
    "All of RESUS's gains",
    "RESUS beats Meta-Embedding at every noise level",
    "RESUS has a lower Logloss than Meta-Embedding",
    "RESUS's AUC",
)


@given(margins=st.lists(st.floats(-1, 1, exclude_min=False).filter(bool), max_size=12))
def test_all_some_or_none(margins: list[float]) -> None:
    found = verdict_of([Check(f"case {place}", margin, "x") for place, margin in enumerate(margins)])
    passed = sum(margin > 0 for margin in margins)
    expected = Outcome.HOLDS if passed == len(margins) else Outcome.FAILS if not passed else Outcome.IN_PART
    assert found.outcome == (expected if margins else Outcome.UNTESTED)
    assert bool(found.passed) == (found.outcome is Outcome.IN_PART)


def test_a_partial_verdict_names_the_fewer_cases() -> None:
    checks = [Check("I", 1, "a"), Check("II", 1, "b"), Check("III", -1, "c")]
    assert verdict_of(checks).words == "holds in part: all but III"
    assert verdict_of([*checks[:1], checks[2], Check("IV", -1, "d")]).words == "holds in part: I"
    assert verdict_of(checks).evidence == "a; b; c."


def test_what_was_not_run_is_said() -> None:
    found = verdict_of([Check("I", 1, "a")], ["MAMO"])
    assert found.words == "holds, of what was run"
    assert found.evidence == "a; not run: MAMO."
    assert verdict_of([], ["MAMO"]).words == "not tested here"


def test_a_data_set_that_is_missing_says_why() -> None:
    for ruling in rulings([], data_set="taobao").values():
        assert ruling.verdicts["taobao"] == ClaimVerdict(Outcome.UNTESTED, "Not run: no data.")


def test_every_claim_can_be_tested() -> None:
    compared = [comparison(stage=stage) for stage in ("I", "II", "III")]
    compared += compared_on(OVER_PREDICTOR) + compared_on(OVER_BOOSTING)
    for words, ruling in rulings(every_cell(), compared).items():
        assert ruling.verdicts["ml-1m"].outcome is not Outcome.UNTESTED, words
        assert ruling.verdicts["ml-1m"].whole, words
    assert {claim.question for claim in CLAIMS} == set(QUESTIONS)


@pytest.mark.parametrize(
    ("start", "data_set", "words"),
    [
        ("RESUS, the better of its two learners", "ml-1m", "holds"),
        ("RESUS, the better of its two learners", "frappe", "holds"),
        ("The better of RESUS's two learners also has the lowest Logloss", "ml-1m", "holds"),
        ("The better of RESUS's two learners also has the lowest Logloss", "frappe", "holds"),
        ("The better of RESUS's two learners also has the lowest Logloss", "taobao", "holds"),
        ("Meta-Embedding beats MeLU", "taobao", "holds"),
        ("Meta-Embedding loses to", "frappe", "does not hold"),
        ("RESUS beats MUS", "frappe", "holds"),
        ("RESUS on LightGBM is the best", "ml-1m", "holds in part: I"),
        ("LightGBM is the best", "ml-1m", "holds"),
        ("RESUS trains faster", "ml-1m", "holds"),
        ("Even without pretraining", "taobao", "does not hold"),
    ],
)
def test_the_papers_claims_by_its_own_numbers(start: str, data_set: str, words: str) -> None:
    (found,) = (ruling for claim, ruling in rulings([]).items() if claim.startswith(start))
    assert found.on_paper[data_set].words == words


def test_the_paper_is_judged_by_its_numbers_wherever_it_prints_them() -> None:
    """It prints no p-value, and figure 4 without numbers."""
    for words, ruling in rulings([]).items():
        assert bool(ruling.on_paper) == (not ruling.claim.ours and not words.startswith(UNPRINTED)), words


OVER = pytest.mark.parametrize(
    ("start", "rivals"),
    [
        ("All of RESUS's gains over its Ψ", OVER_PREDICTOR),
        ("All of RESUS's gains over boosting", OVER_BOOSTING),
    ],
)


@pytest.mark.parametrize(
    ("start", "rivals"), [*OVER.args[1], ("RESUS beats the best rival", {"deepfm": "meta-embedding"})]
)
@pytest.mark.parametrize(
    ("p_ttest", "p_bootstrap", "difference", "outcome"),
    [
        (0.004, 0.005, 0.01, Outcome.HOLDS),
        (0.2, 0.005, 0.01, Outcome.FAILS),
        (0.004, 0.2, 0.01, Outcome.FAILS),
        (None, 0.005, 0.01, Outcome.HOLDS),
        (0.004, None, 0.01, Outcome.HOLDS),
        (None, None, 0.01, Outcome.UNTESTED),
        (0.004, 0.005, -0.01, Outcome.FAILS),
    ],
)
def test_every_test_that_was_made_must_be_below_the_level(
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
