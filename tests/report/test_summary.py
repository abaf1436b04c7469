"""The words must follow the numbers: worlds in which the right sentence is known."""

from planted_results import example, example_of_short_users, example_without_truth, planted_results

from resus.evaluation.results import Results
from resus.report.summary import best_contender, size_range, summary

USERS = (9, 14, 20) * 80


def only(results: Results, *models: str) -> Results:
    return results.model_copy(update={"models": {name: results.models[name] for name in models}})


def test_a_model_that_learns_only_the_users_bias_is_called_so() -> None:
    results = planted_results(USERS, learns="bias")
    findings = summary(results)
    assert findings[0].startswith("RESUS-RR ranks new users' candidates better than DeepFM in every stage: RelaImpr +")
    assert "GAUC by +0.0000: the gain is user bias" in findings[1]


def test_a_model_that_learns_the_users_taste_is_not_called_bias() -> None:
    findings = summary(planted_results(USERS, learns="taste"))
    assert "most of the gain is not user bias" in findings[1]


def test_a_model_that_learns_noise_is_not_praised() -> None:
    results = only(planted_results(USERS, learns="nothing"), "DeepFM", "RESUS-RR", "oracle", "crowd")
    findings = summary(results)
    assert findings[0].startswith("RESUS-RR does not rank new users' candidates better than DeepFM in any stage")
    assert "bias" not in findings[1]
    assert any("so it gains nothing there" in finding for finding in findings)


def test_the_headline_quotes_each_stage() -> None:
    results = example()
    best = best_contender(results)
    assert best == "RESUS-RR"
    for stage, sizes in (("I", "1–2"), ("II", "3–4"), ("III", "5–6")):
        assert f"{results.models[best].stages[stage].rela_impr:+.1f}% after {sizes} events" in summary(results)[0]


def test_with_no_event_the_model_has_the_bases_auc() -> None:
    auc = example().models["DeepFM"].sizes[0].auc
    assert f"With no event at all its AUC is that of DeepFM, {auc:.4f}." in summary(example())


def test_the_gap_is_quoted_only_where_the_truth_is_known() -> None:
    share = example().models["RESUS-RR"].stages["III"].gap_closed
    assert any(f"and {share:.0%} in stage III" in finding for finding in summary(example()))
    assert not any("gap" in finding for finding in summary(example_without_truth()))


def test_every_other_contender_is_mentioned() -> None:
    assert any(finding.startswith("MUS: RelaImpr") for finding in summary(example()))


def test_an_empty_stage_is_not_spoken_of() -> None:
    text = " ".join(summary(example_of_short_users()))
    assert "stage III" not in text
    assert "In stage II its AUC" in text


def test_a_base_alone_has_nothing_to_be_compared_with() -> None:
    assert summary(only(example(), "DeepFM", "oracle", "crowd")) == [
        "Only DeepFM could be compared: there is nothing to set against it."
    ]


def test_a_range_of_sizes_is_its_ends() -> None:
    assert size_range([10, 20, 30]) == "10–30"
    assert size_range([0]) == "0"


def test_a_base_no_better_than_chance_has_no_rela_impr_to_quote() -> None:
    results = planted_results(USERS, learns="bias")
    stages = {
        name: stage.model_copy(update={"rela_impr": None}) for name, stage in results.models["RESUS-RR"].stages.items()
    }
    model = results.models["RESUS-RR"].model_copy(update={"stages": stages})
    results = results.model_copy(update={"models": results.models | {"RESUS-RR": model}})
    assert summary(only(results, "DeepFM", "RESUS-RR", "oracle", "crowd"))[0] == (
        "RESUS-RR ranks new users' candidates better than DeepFM in every stage, "
        "though DeepFM itself ranks no better than chance."
    )
