"""Claims of the paper and of our own, in worlds where the right verdict is known."""

import pytest
from planted_cells import LEVELS, cells_of, comparison, planted_cell, rulings, verdict

from resus.paper.claims.judging import Outcome

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


@pytest.mark.parametrize(("gain", "outcome"), [(0.05, Outcome.HOLDS), (-0.001, Outcome.FAILS)])
def test_resus_plus_against_its_shared_model(gain: float, outcome: Outcome) -> None:
    cells = [planted_cell("deepfm", auc=0.7), planted_cell("resus-plus", auc=0.7 + gain, gauc=0.65 + gain)]
    found = verdict("RESUS+ beats its Ψ", cells)
    assert found.outcome is outcome
    assert f"AUC II: resus-plus {0.703 + gain:.4f}, deepfm 0.7030" in found.evidence


@pytest.mark.parametrize(
    ("seconds", "words"), [(90, "holds"), (300, "holds in part: training"), (400, "does not hold")]
)
def test_the_time_of_resus_plus_is_judged_against_resus_rr(seconds: float, words: str) -> None:
    cells = [planted_cell("resus-rr", seconds=100), planted_cell("resus-plus", seconds=seconds)]
    assert verdict("RESUS+ trains in at most 3 times", cells).words == words
