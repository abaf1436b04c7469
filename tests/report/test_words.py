"""Sentences follow the numbers: worlds and intervals in which the right findings are known."""

import re

import pytest
from planted_results import (
    example,
    example_curve,
    example_of_short_users,
    example_with_coverage,
    example_without_truth,
    planted_results,
)

from resus.evaluation.metrics import AUC, LOGLOSS, Metric
from resus.evaluation.results import Coverage, Gain, Gains, ModelCoverage, Results, StageCoverage, StageGains, WrongWay
from resus.report.measures import Verdict, coverage_rows, verdict
from resus.report.words import (
    best_contender,
    coverage_sentences,
    gain_sentence,
    summary,
    tuned_sentence,
    warm_up_population,
    warm_up_summary,
    wrong_way_sentences,
)

USERS = (9, 14, 20) * 80
UP, DOWN, ACROSS, UNKNOWN = (0.01, 0.03), (-0.03, -0.01), (-0.01, 0.02), None
Interval = tuple[float, float] | None


def gain(interval: Interval) -> Gain:
    low, high = interval or (None, None)
    return Gain(difference=0.005 if interval is None else sum(interval) / 2, low=low, high=high, draws=60)


def with_gains(auc: tuple[Interval, ...], gauc: tuple[Interval, ...], logloss: tuple[Interval, ...]) -> Results:
    """Every contender has these intervals in stages I, II and III."""
    results = example_without_truth()
    stages = {
        stage: StageGains.model_validate({"auc": gain(one), "gauc": gain(two), "logloss": gain(three)})
        for stage, one, two, three in zip(results.stages, auc, gauc, logloss, strict=True)
    }
    return results.model_copy(update={"gains": Gains(draws=60, models={"RESUS-RR": stages, "MUS": stages})})


def only(results: Results, *models: str) -> Results:
    return results.model_copy(update={"models": {name: results.models[name] for name in models}})


def finding(results: Results, start: str) -> str:
    (found,) = (sentence for sentence in summary(results) if sentence.startswith(start))
    return found


@pytest.mark.parametrize(
    ("interval", "metric", "expected"),
    [
        (UP, AUC, Verdict.BETTER),
        (DOWN, AUC, Verdict.WORSE),
        (UP, LOGLOSS, Verdict.WORSE),
        (DOWN, LOGLOSS, Verdict.BETTER),
        (ACROSS, AUC, Verdict.UNDECIDED),
        ((0.0, 0.02), AUC, Verdict.UNDECIDED),
        (UNKNOWN, AUC, Verdict.TOO_FEW),
    ],
)
def test_a_lower_logloss_is_better_and_an_interval_with_0_decides_nothing(
    interval: Interval, metric: Metric, expected: Verdict
) -> None:
    assert verdict(gain(interval), metric) is expected


@pytest.mark.parametrize(
    ("auc", "facts"),
    [
        ((UP, UP, UP), ["RESUS-RR", "better than DeepFM in every stage"]),
        ((UP, UP, ACROSS), ["better than DeepFM in stages I and II"]),
        ((DOWN, UP, UNKNOWN), ["better than DeepFM in stage II", "worse in stage I"]),
        ((DOWN, DOWN, DOWN), ["worse than DeepFM in every stage"]),
        ((ACROSS, ACROSS, UNKNOWN), ["do not show whether RESUS-RR"]),
    ],
)
def test_the_headline_counts_only_stages_that_the_intervals_decide(auc: tuple[Interval, ...], facts: list[str]) -> None:
    """The measured AUC is above the base's in every stage, whatever the intervals say."""
    headline = summary(with_gains(auc, (UP,) * 3, (DOWN,) * 3))[0]
    assert all(fact in headline for fact in facts)
    assert "RelaImpr +" in headline


@pytest.mark.parametrize(
    ("auc", "gauc", "logloss", "places"),
    [
        (
            (UP, UP, UP),
            (UP, UP, UP),
            (ACROSS, DOWN, DOWN),
            {
                "better": "in every stage (AUC, GAUC) and in stages II and III (Logloss)",
                "undecided": "in stage I (Logloss)",
            },
        ),
        (
            (UP, UP, ACROSS),
            (UP, UP, ACROSS),
            (UP, DOWN, UNKNOWN),
            {
                "better": "in stages I and II (AUC, GAUC) and in stage II (Logloss)",
                "worse": "in stage I (Logloss)",
                "undecided": "in stage III (AUC, GAUC)",
                "too few users": "in stage III (Logloss)",
            },
        ),
        (
            (DOWN, DOWN, DOWN),
            (ACROSS, ACROSS, ACROSS),
            (UP, UP, UP),
            {"worse": "in every stage (AUC, Logloss)", "undecided": "in every stage (GAUC)"},
        ),
        ((ACROSS,) * 3, (ACROSS,) * 3, (ACROSS,) * 3, {"undecided": "in every stage (AUC, GAUC, Logloss)"}),
    ],
)
def test_one_sentence_names_stages_and_metrics_of_each_verdict(
    auc: tuple[Interval, ...], gauc: tuple[Interval, ...], logloss: tuple[Interval, ...], places: dict[str, str]
) -> None:
    results = with_gains(auc, gauc, logloss)
    sentence = gain_sentence(results, "RESUS-RR")
    assert sentence in summary(results)
    clauses = sentence.rstrip(".").split("; ")
    found = {
        word: clause for word in places for clause in clauses if re.search(rf"\b{word} (than DeepFM )?in ", clause)
    }
    assert {word: clause.endswith(places[word]) for word, clause in found.items()} == dict.fromkeys(places, True)


def test_nothing_is_said_about_gains_without_draws_or_in_an_empty_stage() -> None:
    assert gain_sentence(example_without_truth(), "RESUS-RR") == ""
    assert "stage III" not in gain_sentence(example_of_short_users(), "RESUS-RR")


def test_a_model_that_learns_only_bias_has_no_certain_gain_in_gauc() -> None:
    sentence = gain_sentence(planted_results(USERS, learns="bias", draws=60), "RESUS-RR")
    assert "better than DeepFM in every stage (AUC, Logloss)" in sentence
    assert "undecided in every stage (GAUC)" in sentence


def test_bias_is_told_from_taste_by_gauc() -> None:
    bias, taste = (finding(planted_results(USERS, learns=what), "In stage III its AUC") for what in ("bias", "taste"))
    assert "GAUC by +0.0000" in bias
    assert "only learned who clicks a lot" in bias
    assert "knowing what each user likes, not who clicks a lot" in taste
    unsure = finding(with_gains((UP,) * 3, (ACROSS,) * 3, (DOWN,) * 3), "In stage III its AUC")
    assert "may have only learned who clicks a lot" in unsure
    open_auc = finding(with_gains((ACROSS,) * 3, (UP,) * 3, (DOWN,) * 3), "In stage III its AUC")
    assert "clicks" not in open_auc


def test_a_model_that_learns_noise_is_not_praised() -> None:
    findings = summary(only(planted_results(USERS, learns="nothing"), "DeepFM", "RESUS-RR", "oracle", "crowd"))
    assert "worse than DeepFM in every stage" in findings[0]
    assert not any("clicks a lot" in sentence for sentence in findings)
    assert any("more events do not help" in sentence for sentence in findings)


def test_the_summary_quotes_its_numbers() -> None:
    results = example()
    model, base = results.models["RESUS-RR"], results.models["DeepFM"]
    assert best_contender(results) == "RESUS-RR"
    for stage, sizes in (("I", "1–2"), ("II", "3–4"), ("III", "5–6")):
        assert f"{model.stages[stage].rela_impr:+.1f}% after {sizes} events" in summary(results)[0]
    assert f"{base.sizes[0].auc:.4f}" in finding(results, "With no events")
    assert f"{model.stages['III'].gap_closed:.0%} in stage III" in finding(results, "Of the AUC gap")
    likelihood = finding(results, "In stage III it has")
    assert f"Logloss {model.stages['III'].logloss:.4f} (DeepFM: {base.stages['III'].logloss:.4f})" in likelihood
    fixed = model.fixed_population
    assert fixed is not None
    assert f"from {fixed.sizes[0].auc:.4f} at 0 events to {fixed.sizes[6].auc:.4f} at 6" in finding(results, "For the ")
    assert finding(results, "MUS: RelaImpr")


def test_what_is_unknown_is_not_mentioned() -> None:
    assert not any("gap" in sentence for sentence in summary(example_without_truth()))
    short = " ".join(summary(example_of_short_users()))
    assert "stage III" not in short
    assert "In stage II its AUC" in short
    (alone,) = summary(only(example(), "DeepFM", "oracle", "crowd"))
    assert "Only DeepFM" in alone


def test_a_base_no_better_than_chance_has_no_rela_impr_to_quote() -> None:
    results = only(planted_results(USERS, learns="bias"), "DeepFM", "RESUS-RR", "oracle", "crowd")
    model = results.models["RESUS-RR"]
    stages = {name: stage.model_copy(update={"rela_impr": None}) for name, stage in model.stages.items()}
    changed = results.models | {"RESUS-RR": model.model_copy(update={"stages": stages})}
    headline = summary(results.model_copy(update={"models": changed}))[0]
    assert "RelaImpr" not in headline
    assert "DeepFM itself ranks no better than chance" in headline


def test_wrong_ways_are_said_of_likes_and_of_dislikes() -> None:
    found = {"A": WrongWay(likes=0.0312, dislikes=0.0, events=9), "B": WrongWay(likes=None, dislikes=None, events=0)}
    found["C"] = WrongWay(likes=None, dislikes=0.5, events=2)
    assert wrong_way_sentences(example().model_copy(update={"wrong_way": found})) == [
        "A: a like lowered the score of that very item in 3.1 % of the likes, a dislike raised it in 0.0 % of the "
        "dislikes.",
        "C: a dislike raised the score of that very item in 50.0 % of the dislikes.",
    ]


def test_coverage_names_level_stages_and_contrasts() -> None:
    (sentence,) = coverage_sentences(example_with_coverage())
    facts = ("RESUS-RR", "90 %", "91 / 89 / – %", "I / II / III", "66 / 76 / – %", "62 / 67 / – % for DeepFM")
    assert all(fact in sentence for fact in (*facts, "86 / 86 / – %"))
    assert coverage_sentences(example()) == []
    assert coverage_rows(example()) == {}


def test_coverage_says_nothing_about_what_is_unknown() -> None:
    known = covered(StageCoverage(clicks=0.9, coins=0.5, predictor=None, true_logits=None))
    (sentence,) = coverage_sentences(known)
    assert re.findall(r"\d+ %", sentence) == ["90 %", "90 %", "50 %"]
    assert "logit" not in sentence
    assert list(coverage_rows(known).values()) == [["90%"], ["50%"]]
    (nothing,) = coverage_sentences(covered(StageCoverage(clicks=None, coins=None, predictor=None, true_logits=None)))
    assert "cannot be checked" in nothing


def covered(stage: StageCoverage) -> Results:
    models = {"RESUS+": ModelCoverage(predictor=None, stages={"I": stage})}
    return example().model_copy(update={"coverage": Coverage(level=0.9, models=models)})


def test_models_that_learned_from_the_measured_users_are_named() -> None:
    for evaluation in (example(), example_curve()):
        tuned = evaluation.model_copy(update={"tuned_on_validation": ["RESUS-RR", "MUS"]})
        assert tuned_sentence(tuned) == ""
        assert tuned_sentence(evaluation.model_copy(update={"part": "validation"})) == ""
        assert tuned_sentence(tuned.model_copy(update={"part": "validation"})).startswith("RESUS-RR and MUS learned")


def test_a_curve_names_its_leaders_and_what_happens_beyond_training() -> None:
    auc, gauc, run, _ = warm_up_summary(example_curve())
    assert re.search(r"300 events RESUS-RR .*AUC, 0\.8000; next is <user> bias with 0\.7600", auc)
    assert re.search(r"300 events RESUS-RR .*GAUC, 0\.7500", gauc)
    assert re.search(r"up to 30 events.*AUC 0\.7000 at 0, 0\.7600 at 30, 0\.8000 at 300", run)
    assert re.search(r"GAUC 0\.6500 at 0, 0\.7100 at 30, 0\.7500 at 300\. Beyond 30 events neither falls", run)
    assert "Beyond 30 events its AUC and GAUC fall." in warm_up_summary(example_curve(falls=True))[-2]
    assert not any("Beyond" in sentence for sentence in warm_up_summary(example_curve(trained=300)))


def test_a_curve_says_whom_it_measures_and_why_it_ends_early() -> None:
    (population,) = warm_up_population(example_curve())
    assert all(fact in population for fact in ("41 test users", "more than 300 events", "5,678"))
    _, early = warm_up_population(example_curve(asked=2000))
    assert all(fact in early for fact in ("Only 7 users", "2,000", "ends at 300"))
