"""Verdicts follow the numbers: all, some or none of the checks, and the paper's own tables."""

import pytest
from claim_verdicts import rulings
from hypothesis import given
from hypothesis import strategies as st
from planted_cells import OVER_BOOSTING, OVER_PREDICTOR, compared_on, comparison, every_cell

from resus.paper.claims import CLAIMS
from resus.paper.questions import QUESTIONS
from resus.paper.verdicts import Check, Outcome, Verdict, verdict_of

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
        assert ruling.verdicts["taobao"] == Verdict(Outcome.UNTESTED, "Not run: no data.")


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
