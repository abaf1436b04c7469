"""Tables as a terminal shows them."""

import re

import pytest
from planted_results import (
    example,
    example_curve,
    example_of_short_users,
    example_with_coverage,
    example_without_truth,
    printed,
)

from resus.evaluation.metrics import AUC
from resus.report.measures import gain_metrics, gains_of, verdict
from resus.report.tables import GainTable, StageTable, warm_up_table
from resus.report.words import coverage_sentences, gain_sentence, wrong_way_sentences


@pytest.mark.parametrize("width", [80, 100, 160])
def test_every_measure_of_every_model_and_stage_is_shown_whole(width: int) -> None:
    results = example()
    text = printed(StageTable(results), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for name, model in results.models.items():
        rows = " ".join(line for line in text.splitlines() if line.startswith(f"{name} "))
        for stage in model.stages.values():
            for value in (stage.auc, stage.gauc, stage.logloss, stage.calibration_error):
                assert f"{value:.4f}" in rows
            assert f"{stage.rela_impr:+.1f}%" in rows
            assert f"{stage.gap_closed:.0%}" in rows


def test_stages_are_side_by_side_if_they_fit() -> None:
    lines = {width: printed(StageTable(example()), width=width).splitlines() for width in (80, 100)}
    assert any("stage I " in line and "stage III" in line for line in lines[100])
    assert not any("stage I " in line and "stage III" in line for line in lines[80])


def test_the_best_trained_model_is_bold_and_the_oracle_is_not() -> None:
    results = example()
    text = printed(StageTable(results), width=100, colours=True)
    best = max(results.models[model].stages["I"].auc or 0 for model in ["DeepFM", *results.contenders])
    assert re.search(rf"\x1b\[1m *{best:.4f}", text)
    assert re.search(rf"\x1b\[2m *{results.models['oracle'].stages['I'].auc:.4f}", text)


def test_notes_tell_the_population_and_what_intervals_cover() -> None:
    results = example_with_coverage()
    text = printed(StageTable(results), width=80)
    for k in (0, 6):
        at_k = results.models["DeepFM"].sizes[k]
        assert f"k = {k}: {at_k.users:,} users, {at_k.queries:,} queries" in text
    for sentence in (coverage_sentences(results)[0], *wrong_way_sentences(results)):
        assert sentence in " ".join(text.split())


def test_no_gap_is_shown_without_truth() -> None:
    assert "gap" in printed(StageTable(example()), width=80)
    assert "gap" not in printed(StageTable(example_without_truth()), width=80)


@pytest.mark.parametrize("width", [80, 100])
def test_a_stage_without_queries_shows_dashes_and_says_why(width: int) -> None:
    text = printed(StageTable(example_of_short_users()), width=width)
    assert "–" in text
    assert "No user has a query at k = 5, 6" in text


def test_markup_in_a_name_is_only_text() -> None:
    results = example_without_truth()
    renamed = results.model_copy(update={"models": results.models | {"[red]x[/red]": results.models["MUS"]}})
    assert "[red]x[/red]" in printed(StageTable(renamed), width=100)


@pytest.mark.parametrize("width", [80, 100])
def test_every_gain_of_every_contender_is_shown_whole(width: int) -> None:
    results = example()
    text = printed(GainTable(results), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "60 draws" in text
    for metric in gain_metrics(results):
        gains = gains_of(results, metric)
        for model in results.contenders:
            for found in gains[model].values():
                assert f"{found.difference:+.4f} {verdict(found, metric).mark}" in text
                assert f"{found.low:+.4f} to {found.high:+.4f}" in text
    assert "oracle" not in text
    assert all(gain_sentence(results, model) in " ".join(text.split()) for model in results.contenders)


def test_intervals_are_beside_their_differences_if_they_fit_and_a_certain_gain_is_bold() -> None:
    results = example()
    auc = gains_of(results, AUC)["RESUS-RR"]["I"]
    on_one_line = re.escape(f"{auc.difference:+.4f} ✓ {auc.low:+.4f}")
    assert re.search(on_one_line, printed(GainTable(results), width=100))
    assert not re.search(on_one_line, printed(GainTable(results), width=80))
    assert re.search(rf"\x1b\[1m{on_one_line}", printed(GainTable(results), width=100, colours=True))


def test_too_few_users_and_an_empty_stage_are_told_apart() -> None:
    text = printed(GainTable(example_of_short_users()), width=100)
    assert "too few users" in text
    assert "–" in text


def test_without_draws_there_is_no_table_of_gains() -> None:
    assert printed(GainTable(example_without_truth()), width=100).strip() == ""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_curve_shows_every_number_whole(width: int) -> None:
    text = printed(*warm_up_table(example_curve(truth=True)), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    rows = [line.split() for line in text.splitlines() if line.split()[:1] == ["300"]]
    assert rows == [
        ["300", "0.7000", "0.8000", "0.7600", "0.9000", "0.9000"],
        ["300", "0.6500", "0.7500", "0.6500", "–", "–"],
    ]


def test_sizes_beyond_training_are_italic_and_the_legend_says_so() -> None:
    text = printed(*warm_up_table(example_curve()), width=100, colours=True)
    assert re.search(r"\x1b\[3m *120", text)
    assert not re.search(r"\x1b\[3m *30\b", text)
    assert "Italic" in text
    assert "Italic" not in printed(*warm_up_table(example_curve(trained=300)), width=100)
