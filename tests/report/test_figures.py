"""Pictures: one per measure, whole PNG files, the same each time, and drawn from the numbers."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from planted_results import EVENTS, example, example_curve, example_of_short_users, example_without_truth

from resus.evaluation.metrics import AUC, GAUC
from resus.history import EpochRecord
from resus.report.figures import (
    curve_figure,
    gain_figure,
    history_figure,
    population_figure,
    warm_up_figure,
    write_pictures,
)
from resus.report.measures import gain_metrics, gains_of

MEASURES = {"auc", "gauc", "logloss", "calibration_error", "rela_impr", "gap_closed"}


def test_one_picture_per_measure_and_the_combined_ones_equal_each_time(tmp_path: Path) -> None:
    first, again = (write_pictures(example(), tmp_path / folder) for folder in ("first", "again"))
    assert {path.stem for path in first} == MEASURES | {"population", "curves", "gains"}
    assert sorted(first) == sorted((tmp_path / "first").iterdir())
    for path in first:
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert len(set(image.convert("L").get_flattened_data())) > 10
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_without_truth_there_is_no_gap_and_without_draws_no_gain(tmp_path: Path) -> None:
    drawn = {path.stem for path in write_pictures(example_without_truth(), tmp_path)}
    assert drawn == MEASURES - {"gap_closed"} | {"population", "curves"}


def test_curves_are_the_numbers_and_share_one_scale() -> None:
    results = example()
    left, right = curve_figure(results, [AUC, GAUC]).axes
    assert left.get_ylim() == right.get_ylim()
    for axes, metric in ((left, AUC), (right, GAUC)):
        drawn = {tuple(np.asarray(line.get_ydata(), dtype=float)) for line in axes.get_lines()}
        assert drawn == {
            tuple(model.sizes[k].metrics[metric.name] for k in results.sizes) for model in results.models.values()
        }
        assert {text.get_text() for text in axes.texts} >= set(results.models)


def test_no_two_lines_share_colour_and_marker() -> None:
    results = example()
    lines = curve_figure(results, [AUC]).axes[0].get_lines()
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}) == len(lines)


def test_names_at_line_ends_do_not_cover_each_other() -> None:
    results = example()
    crowded = {f"model {place}": results.models["MUS"] for place in range(8)}
    figure = curve_figure(results.model_copy(update={"models": results.models | crowded}), [AUC])
    figure.draw_without_rendering()
    names = [text for text in figure.axes[0].texts if text.get_text() in results.models | crowded]
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert len(boxes) == len(results.models) + 8
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(boxes))


def test_a_size_without_metric_is_a_gap_in_the_curve() -> None:
    short_users = example_of_short_users()
    line = curve_figure(short_users, [AUC]).axes[0].get_lines()[0]
    assert list(np.isnan(np.asarray(line.get_ydata(), dtype=float))) == [False] * 5 + [True] * 2


def test_the_population_is_drawn_from_zero() -> None:
    results = example()
    for axes, count in zip(population_figure(results).axes, ("users", "queries"), strict=True):
        assert axes.get_ylim()[0] == 0
        drawn = list(np.asarray(axes.get_lines()[0].get_ydata(), dtype=float))
        assert drawn == [getattr(results.models["DeepFM"].sizes[k], count) for k in results.sizes]


def test_history_draws_every_stage_and_needs_two_epochs() -> None:
    stages = [f"stage {number}" for number in range(9)]  # more than there are colours
    history = [EpochRecord(stage, epoch, 0.6, loss=1 / epoch) for stage in stages for epoch in (1, 2, 3)]
    figure = history_figure([*history, EpochRecord("trees", 1, 0.7)])
    assert figure is not None
    for axes, title in zip(figure.axes, ("loss", "validation auc"), strict=True):
        assert axes.get_title(loc="left") == title
        assert [line.get_label() for line in axes.get_lines()] == [*stages, "trees"]
    assert history_figure(history[:1]) is None


def test_the_picture_of_gains_holds_every_dot_and_its_interval() -> None:
    results = example()
    metrics = gain_metrics(results)
    figure = gain_figure(results, metrics)
    for axes, metric in zip(figure.axes, metrics, strict=True):
        assert axes.get_title(loc="left") == metric.title
        found = gains_of(results, metric)
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


def test_a_warm_up_curve_has_a_line_per_model_and_marks_where_training_ended() -> None:
    figure = warm_up_figure(example_curve())
    assert len(figure.axes) == 2
    for axes, last in zip(figure.axes, (0.80, 0.75), strict=True):
        curves = [values for line in axes.get_lines() if len(values := np.asarray(line.get_ydata())) == len(EVENTS)]
        assert len(curves) == 3
        assert any(values[-1] == pytest.approx(last) for values in curves)
        assert [text.get_text() for text in axes.texts if "τ = 30" in text.get_text()]
        places = axes.transData.transform([(size, 0.7) for size in EVENTS])[:, 0]
        gaps = places[1:] - places[:-1]
        assert gaps.max() < 3 * gaps.min(), "300 events do not squeeze the first ones together"


def test_a_curve_that_ends_within_training_has_no_mark() -> None:
    figure = warm_up_figure(example_curve(trained=300))
    assert not [text for axes in figure.axes for text in axes.texts if "τ" in text.get_text()]
