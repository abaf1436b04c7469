"""The table as a terminal shows it."""

import io
import re
from typing import Literal

import pytest
from planted_results import example, example_of_short_users, example_without_truth
from rich.console import Console

from resus.evaluation.results import Results
from resus.report.terminal import results_table


def shown(results: Results, width: int, *, colours: bool = False) -> str:
    system: Literal["standard"] | None = "standard" if colours else None
    console = Console(width=width, file=io.StringIO(), force_terminal=colours, color_system=system)
    console.print(results_table(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_every_stage_metric_of_every_model_is_shown_whole(width: int) -> None:
    results = example()
    text = shown(results, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for name, model in results.models.items():
        rows = " ".join(line for line in text.splitlines() if line.startswith(f"{name} "))
        for stage in model.stages.values():
            for value in (f"{stage.auc:.4f}", f"{stage.gauc:.4f}", f"{stage.logloss:.4f}", f"{stage.rela_impr:+.1f}%"):
                assert value in rows
            assert f"{stage.gap_closed:.0%}" in rows


def test_stages_stand_side_by_side_where_they_fit() -> None:
    results = example()
    assert any("stage I " in line and "stage III" in line for line in shown(results, 100).splitlines())
    assert not any("stage I " in line and "stage III" in line for line in shown(results, 80).splitlines())


def test_the_best_trained_model_is_bold_and_the_oracle_is_not() -> None:
    results = example()
    text = shown(results, 100, colours=True)
    best = max(results.models[model].stages["I"].auc or 0 for model in ["DeepFM", *results.contenders])
    assert re.search(rf"\x1b\[1m *{best:.4f}", text)
    assert re.search(rf"\x1b\[2m *{results.models['oracle'].stages['I'].auc:.4f}", text)


def test_the_population_of_the_first_and_last_size_is_below() -> None:
    results = example()
    text = shown(results, 80)
    for k in (0, 6):
        at_k = results.models["DeepFM"].sizes[k]
        assert f"k = {k}: {at_k.users:,} users, {at_k.queries:,} queries" in text


def test_no_gap_is_spoken_of_without_truth() -> None:
    assert "gap" in shown(example(), 80)
    assert "gap" not in shown(example_without_truth(), 80)


@pytest.mark.parametrize("width", [80, 100])
def test_a_stage_without_queries_shows_dashes_and_says_why(width: int) -> None:
    short_users = example_of_short_users()
    text = shown(short_users, width)
    assert "–" in text
    assert "No user has a query at k = 5, 6" in text


def test_who_learned_scales_from_validation_users_is_said() -> None:
    plus = example().model_copy(update={"tuned_on_validation": ["RESUS-RR"]})
    assert "three scales" not in shown(plus, 160)
    here = shown(plus.model_copy(update={"part": "validation"}), 160)
    assert "RESUS-RR learned the three scales (bias, taste, repeats) from these users" in here
    assert "three scales" not in shown(example().model_copy(update={"part": "validation"}), 160)


def test_markup_in_a_name_is_only_text() -> None:
    without_truth = example_without_truth()
    renamed = without_truth.model_copy(
        update={"models": without_truth.models | {"[red]x[/red]": without_truth.models["MUS"]}}
    )
    assert "[red]x[/red]" in shown(renamed, 100)
