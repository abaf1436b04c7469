"""What the paper says of table 3, in worlds in which the right verdict is known."""

import pytest
from claim_verdicts import verdict
from planted_cells import LEVELS, cells_of, comparison, planted_cell

from resus.paper.verdicts import Outcome

BEST = "RESUS, the better of its two learners"
LOGLOSS = "The better of RESUS's two learners also has the lowest Logloss"


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
    ("of_rival", "outcome", "clause"),
    [
        (0.41, Outcome.HOLDS, "II: melu 0.4070, resus-rr 0.3970 (+0.0100)"),
        (0.39, Outcome.FAILS, "II: melu 0.3870, resus-rr 0.3970 (-0.0100)"),
    ],
)
def test_the_lowest_logloss_is_the_better_learners(of_rival: float, outcome: Outcome, clause: str) -> None:
    loglosses = {"lwa": 0.45, "melu": of_rival, "resus-nn": 0.42, "resus-rr": 0.40}
    found = verdict(LOGLOSS, [planted_cell(method, logloss=logloss) for method, logloss in loglosses.items()])
    assert found.outcome is outcome
    assert clause in found.evidence


@pytest.mark.parametrize(("data_set", "words"), [("ml-1m", "holds in part: all but I"), ("frappe", "holds")])
def test_only_on_frappe_the_first_stage_does_not_count_for_logloss(data_set: str, words: str) -> None:
    """MAMO starts lower and stays where it is."""
    cells = [planted_cell("resus-rr", data_set=data_set, logloss=0.40)]
    cells.append(planted_cell("mamo", data_set=data_set, logloss=0.399, rise=0))
    assert verdict(LOGLOSS, cells, data_set=data_set).words == f"{words}, of what was run"


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
