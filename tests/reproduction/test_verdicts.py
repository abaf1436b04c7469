"""Verdicts follow the numbers: worlds in which the right verdict is known, and the paper's own tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_cells import LEVELS, cells_of, comparison, every_cell, planted_cell

from resus.reproduction.cells import Cell
from resus.reproduction.claims import CLAIMS
from resus.reproduction.comparisons import Comparison
from resus.reproduction.paper import paper
from resus.reproduction.questions import QUESTIONS
from resus.reproduction.summary import Summary
from resus.reproduction.verdicts import Check, Outcome, Ruling, Verdict, rule, verdict_of


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


BEST = "RESUS, the better of its two learners"


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


def test_the_best_method_is_found_by_stage() -> None:
    assert verdict(BEST, cells_of(LEVELS)).words == "holds"
    late = [cell for cell in cells_of(LEVELS) if cell.method != "mamo"]
    # it starts behind and overtakes RESUS between II and III
    late += [planted_cell("mamo", seed=seed, auc=0.7155 + 0.001 * seed, rise=0.01) for seed in (1, 2)]
    found = verdict(BEST, late)
    assert found.words == "holds in part: all but III"
    assert "III: resus-rr 0.7335, mamo 0.7370 (-0.0035)" in found.evidence


def test_only_on_frappe_and_in_the_first_stage_meta_embedding_may_lead() -> None:
    ahead = LEVELS | {"meta-embedding": 0.76}
    assert verdict(BEST, cells_of(ahead)).outcome is Outcome.FAILS
    assert verdict(BEST, cells_of(ahead, data_set="frappe"), data_set="frappe").words == "holds in part: I"
    second = LEVELS | {"mamo": 0.76}
    assert verdict(BEST, cells_of(second, data_set="frappe"), data_set="frappe").outcome is Outcome.FAILS


def test_methods_are_compared_on_shared_seeds() -> None:
    """A rival whose only seed drew easy users has the higher mean, and still loses on that seed."""
    ours = [planted_cell("resus-rr", seed=seed, auc=auc) for seed, auc in ((1, 0.70), (2, 0.80))]
    found = verdict(BEST, [*ours, planted_cell("mamo", seed=2, auc=0.79)])
    assert found.outcome is Outcome.HOLDS
    assert "resus-rr 0.8000, mamo 0.7900 (+0.0100)" in found.evidence


@pytest.mark.parametrize(
    ("p_ttest", "p_bootstrap", "difference", "outcome"),
    [
        (0.01, 0.01, 0.01, Outcome.HOLDS),
        (0.01, 0.20, 0.01, Outcome.FAILS),
        (0.20, 0.01, 0.01, Outcome.FAILS),
        (None, 0.01, 0.01, Outcome.HOLDS),
        (0.01, None, 0.01, Outcome.HOLDS),
        (None, None, 0.01, Outcome.UNTESTED),
        (0.01, 0.01, -0.01, Outcome.FAILS),
    ],
)
def test_significance_needs_every_test_that_was_made(
    p_ttest: float | None, p_bootstrap: float | None, difference: float, outcome: Outcome
) -> None:
    made = comparison(p_ttest=p_ttest, p_bootstrap=p_bootstrap, difference=difference)
    assert verdict("RESUS beats the best rival", cells_of(LEVELS), [made]).outcome is outcome


def test_of_two_comparisons_the_one_over_more_seeds_counts() -> None:
    early = comparison(seeds=(1, 2), p_ttest=0.4)
    assert verdict("RESUS beats the best rival", cells_of(LEVELS), [comparison(), early]).outcome is Outcome.HOLDS


def test_meta_embedding_before_and_behind_melu_and_mamo() -> None:
    aucs = {"meta-embedding": 0.72, "melu": 0.71, "mamo": 0.715}
    cells = cells_of(aucs)
    assert verdict("Meta-Embedding beats MeLU", cells).outcome is Outcome.HOLDS
    assert verdict("Meta-Embedding loses to", cells).outcome is Outcome.FAILS


def test_a_falling_auc_is_no_rise() -> None:
    assert verdict("RESUS gets better with more events: stage", cells_of(LEVELS)).outcome is Outcome.HOLDS
    assert verdict("RESUS gets better with more events: stage", cells_of(LEVELS, rise=-0.001)).outcome is Outcome.FAILS


@pytest.mark.parametrize(("rise", "outcome"), [(0.001, Outcome.HOLDS), (0.003, Outcome.FAILS)])
def test_little_has_a_threshold(rise: float, outcome: Outcome) -> None:
    assert verdict("Few-shot representation methods gain", cells_of(LEVELS, rise=rise)).outcome is outcome


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


def test_boosting_that_helps_auc_and_harms_logloss() -> None:
    cells = [planted_cell("lr", auc=0.70, logloss=0.40), planted_cell("boosted-lr", auc=0.71, logloss=0.42)]
    assert verdict("Boosting improves", cells).outcome is Outcome.HOLDS
    assert verdict("Boosting raises", cells).outcome is Outcome.HOLDS
    assert verdict("Boosting raises", [cells[0], cells[1].model_copy(update={"method": "boosted-fm"})]).outcome is (
        Outcome.UNTESTED
    )


def test_noise() -> None:
    cells = [
        planted_cell("mus", auc=0.66, falls=0.05),
        planted_cell("meta-embedding", auc=0.71, falls=0.0),
        planted_cell("resus-nn", auc=0.72, falls=0.02),
        planted_cell("resus-rr", auc=0.72, falls=0.005),
    ]
    assert verdict("RESUS beats Meta-Embedding at every", cells).words == "holds in part: resus-rr"
    assert verdict("RESUS's AUC falls less", cells).words == "holds"


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


def test_a_data_set_that_is_missing_says_why() -> None:
    for ruling in rulings([], data_set="taobao").values():
        assert ruling.verdicts["taobao"] == Verdict(Outcome.UNTESTED, "Not run: no data.")


def test_every_claim_can_be_tested() -> None:
    compared = [comparison(stage=stage) for stage in ("I", "II", "III")]
    for words, ruling in rulings(every_cell(), compared).items():
        assert ruling.verdicts["ml-1m"].outcome is not Outcome.UNTESTED, words
        assert ruling.verdicts["ml-1m"].whole, words
    assert {claim.question for claim in CLAIMS} == set(QUESTIONS)


@pytest.mark.parametrize(
    ("start", "data_set", "words"),
    [
        (BEST, "ml-1m", "holds"),
        (BEST, "frappe", "holds"),
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


def test_our_own_questions_are_not_asked_of_the_paper() -> None:
    ours = [ruling for ruling in rulings([]).values() if ruling.claim.ours]
    assert len(ours) >= 4
    assert all(ruling.on_paper == {} for ruling in ours)
