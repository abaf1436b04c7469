"""What is said of gains: worlds and hand-made intervals in which the right words are known."""

import io
import re
from typing import Literal

import numpy as np
import pytest
from planted_results import example, example_of_short_users, example_without_truth, planted_results
from rich.console import Console

from resus.evaluation.metrics import AUC, LOGLOSS, Measure
from resus.evaluation.results import Gain, Gains, Results, StageGains
from resus.report.gain_figure import gain_figure
from resus.report.gain_table import GainTable
from resus.report.gains import GAIN_COLUMNS, Verdict, gain_sentence, gains_of, verdict
from resus.report.summary import summary

UP, DOWN, ACROSS = (0.01, 0.03), (-0.03, -0.01), (-0.01, 0.02)
UNKNOWN = None


def gain(interval: tuple[float, float] | None) -> Gain:
    low, high = interval or (None, None)
    return Gain(difference=0.005 if interval is None else sum(interval) / 2, low=low, high=high, draws=60)


def with_gains(**of_metrics: tuple[tuple[float, float] | None, ...]) -> Results:
    """RESUS-RR with these intervals in stages I, II and III."""
    results = example_without_truth()
    stages = {
        stage: StageGains(**{metric: gain(intervals[place]) for metric, intervals in of_metrics.items()})
        for place, stage in enumerate(results.stages)
    }
    return results.model_copy(update={"gains": Gains(draws=60, models={"RESUS-RR": stages, "MUS": stages})})


def shown(results: Results, width: int, *, colours: bool = False) -> str:
    system: Literal["standard"] | None = "standard" if colours else None
    console = Console(width=width, file=io.StringIO(), force_terminal=colours, color_system=system)
    console.print(GainTable(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("interval", "column", "expected"),
    [
        (UP, AUC, Verdict.BETTER),
        (DOWN, AUC, Verdict.WORSE),
        (UP, LOGLOSS, Verdict.WORSE),
        (DOWN, LOGLOSS, Verdict.BETTER),
        (ACROSS, AUC, Verdict.OPEN),
        ((0.0, 0.02), AUC, Verdict.OPEN),
        (UNKNOWN, AUC, Verdict.TOO_FEW),
    ],
)
def test_a_lower_logloss_is_better_and_an_interval_with_0_decides_nothing(
    interval: tuple[float, float] | None, column: Measure, expected: Verdict
) -> None:
    assert verdict(gain(interval), column) is expected


@pytest.mark.parametrize(
    ("auc", "headline"),
    [
        ((UP, UP, UP), "RESUS-RR ranks new users' candidates better than DeepFM in every stage: RelaImpr +"),
        ((UP, UP, ACROSS), "RESUS-RR ranks new users' candidates better than DeepFM in stages I and II: RelaImpr +"),
        (
            (DOWN, UP, UNKNOWN),
            "RESUS-RR ranks new users' candidates better than DeepFM in stage II, and worse in stage I",
        ),
        ((DOWN, DOWN, DOWN), "RESUS-RR ranks new users' candidates worse than DeepFM in every stage: RelaImpr +"),
        (
            (ACROSS, ACROSS, UNKNOWN),
            "These users do not tell whether RESUS-RR ranks new users' candidates better than DeepFM in any stage: ",
        ),
    ],
)
def test_the_headline_counts_only_stages_that_the_intervals_decide(
    auc: tuple[tuple[float, float] | None, ...], headline: str
) -> None:
    """The measured AUC is above the base's in every stage, whatever the intervals say."""
    results = with_gains(auc=auc, gauc=(UP,) * 3, logloss=(DOWN,) * 3)
    assert summary(results)[0].startswith(headline)


@pytest.mark.parametrize(
    ("auc", "gauc", "ending"),
    [
        (UP, UP, "most of the gain is not user bias; users' own candidates are ordered better."),
        (UP, ACROSS, "no gain within users is sure, so all of it may be user bias, knowing who clicks a lot."),
    ],
)
def test_what_is_said_of_user_bias_follows_the_intervals(
    auc: tuple[float, float], gauc: tuple[float, float], ending: str
) -> None:
    told = summary(with_gains(auc=(auc,) * 3, gauc=(gauc,) * 3, logloss=(DOWN,) * 3))[2]
    assert told.endswith(ending)
    open_auc = summary(with_gains(auc=(ACROSS,) * 3, gauc=(gauc,) * 3, logloss=(DOWN,) * 3))[2]
    assert open_auc == f"{told.partition(':')[0]}."


@pytest.mark.parametrize(
    ("auc", "gauc", "logloss", "sentence"),
    [
        (
            (UP, UP, UP),
            (UP, UP, UP),
            (ACROSS, DOWN, DOWN),
            "RESUS-RR gains over DeepFM in every stage (AUC, GAUC) and in stages II and III (Logloss); "
            "not decided in stage I (Logloss).",
        ),
        (
            (UP, UP, ACROSS),
            (UP, UP, ACROSS),
            (UP, DOWN, UNKNOWN),
            "RESUS-RR gains over DeepFM in stages I and II (AUC, GAUC) and in stage II (Logloss); "
            "it is worse in stage I (Logloss); not decided in stage III (AUC, GAUC); "
            "too few users to tell in stage III (Logloss).",
        ),
        (
            (DOWN, DOWN, DOWN),
            (ACROSS, ACROSS, ACROSS),
            (UP, UP, UP),
            "RESUS-RR is worse than DeepFM in every stage (AUC, Logloss); not decided in any stage (GAUC).",
        ),
        (
            (ACROSS, ACROSS, ACROSS),
            (ACROSS, ACROSS, ACROSS),
            (ACROSS, ACROSS, ACROSS),
            "RESUS-RR shows no sure gain over DeepFM; not decided in any stage (AUC, GAUC, Logloss).",
        ),
    ],
)
def test_one_sentence_says_where_the_model_gains(
    auc: tuple[tuple[float, float] | None, ...],
    gauc: tuple[tuple[float, float] | None, ...],
    logloss: tuple[tuple[float, float] | None, ...],
    sentence: str,
) -> None:
    results = with_gains(auc=auc, gauc=gauc, logloss=logloss)
    assert gain_sentence(results, "RESUS-RR") == sentence
    assert sentence in " ".join(shown(results, 200).split())
    assert summary(results)[1] == sentence


def test_a_model_that_learns_only_bias_gains_no_gauc() -> None:
    results = planted_results((9, 14, 20) * 80, learns="bias", draws=60)
    assert gain_sentence(results, "RESUS-RR") == (
        "RESUS-RR gains over DeepFM in every stage (AUC, Logloss); not decided in any stage (GAUC)."
    )


@pytest.mark.parametrize("width", [80, 100])
def test_every_gain_of_every_contender_is_shown_whole(width: int) -> None:
    results = example()
    text = shown(results, width)
    assert "gain over DeepFM (95 % of 60 draws over users)" in text
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for column in GAIN_COLUMNS:
        for model in results.contenders:
            for found in gains_of(results, column)[model].values():
                mark = verdict(found, column).mark
                assert f"{found.difference:+.4f} {mark}" in text
                assert f"{found.low:+.4f} to {found.high:+.4f}" in text
    assert "oracle" not in text


def test_intervals_stand_beside_their_differences_where_they_fit() -> None:
    results = example()
    auc = gains_of(results, AUC)["RESUS-RR"]["I"]
    on_one_line = rf"{re.escape(f'{auc.difference:+.4f}')} ✓ {re.escape(f'{auc.low:+.4f}')}"
    assert re.search(on_one_line, shown(results, 100))
    assert not re.search(on_one_line, shown(results, 80))


def test_a_sure_gain_is_bold_and_an_open_one_is_not() -> None:
    text = shown(with_gains(auc=(UP, ACROSS, UP), gauc=(UP,) * 3, logloss=(DOWN,) * 3), 120, colours=True)
    assert re.search(r"\x1b\[1m\+0\.0200 ✓", text)
    assert re.search(r"\x1b\[1m-0\.0200 ✓", text)
    assert "+0.0050   -0.0100 to +0.0200" in text


def test_few_users_and_an_empty_stage_are_told_apart() -> None:
    text = shown(example_of_short_users(), 100)
    assert "too few users" in text
    assert "–" in text
    assert "stage III" not in gain_sentence(example_of_short_users(), "RESUS-RR")


def test_nothing_is_said_where_no_users_were_drawn() -> None:
    results = example_without_truth()
    assert results.gains is None
    assert shown(results, 100) == ""
    assert gain_sentence(results, "RESUS-RR") == ""


def test_the_picture_holds_every_dot_and_its_interval() -> None:
    results = example()
    figure = gain_figure(results, GAIN_COLUMNS)
    assert len(figure.axes) == 3
    for axes, column in zip(figure.axes, GAIN_COLUMNS, strict=True):
        assert axes.get_title(loc="left") == column.title
        found = gains_of(results, column)
        expected = [found[model][stage] for stage in results.stages for model in results.contenders]
        drawn = {tuple(np.asarray(line.get_xdata(), dtype=float)) for line in axes.get_lines()}
        assert {(one.difference,) for one in expected} < drawn
        assert {(one.low, one.high) for one in expected} < drawn
        full = {
            float(np.asarray(line.get_xdata())[0])
            for line in axes.get_lines()
            if line.get_marker() != "None" and line.get_markerfacecolor() != "none"
        }
        assert full == {one.difference for one in expected if one.is_certain}
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [f"{stage} · {model}" for stage in results.stages for model in results.contenders]
