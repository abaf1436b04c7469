"""Pictures: which there are, that they are whole PNGs, the same each time, and drawn from the numbers."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from planted_results import example, example_of_short_users, example_without_truth

from resus.report.figures import history_figure, metric_figure, population_figure, size_curves
from resus.report.gain_figure import gain_picture


def test_one_picture_per_metric_and_the_combined_one(tmp_path: Path) -> None:
    results = example()
    paths = [*size_curves(results, tmp_path / "figures"), *gain_picture(results, tmp_path / "figures")]
    assert {path.stem for path in paths} == {
        "auc",
        "gauc",
        "logloss",
        "calibration_error",
        "gap_closed",
        "population",
        "curves",
        "gains",
    }
    assert sorted(paths) == sorted((tmp_path / "figures").iterdir())
    for path in paths:
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert len(set(image.convert("L").get_flattened_data())) > 10


def test_no_gap_is_drawn_without_truth(tmp_path: Path) -> None:
    without_truth = example_without_truth()
    assert "gap_closed" not in {path.stem for path in size_curves(without_truth, tmp_path)}


def test_no_gain_is_drawn_where_no_users_were(tmp_path: Path) -> None:
    assert gain_picture(example_without_truth(), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    results = example()
    first, again = (
        [*size_curves(results, tmp_path / folder), *gain_picture(results, tmp_path / folder)]
        for folder in ("first", "again")
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_curves_are_the_numbers_and_share_one_scale() -> None:
    results = example()
    left, right = metric_figure(results, ["auc", "gauc"]).axes
    assert left.get_ylim() == right.get_ylim()
    for axes, metric in ((left, "auc"), (right, "gauc")):
        drawn = {tuple(np.asarray(line.get_ydata(), dtype=float)) for line in axes.get_lines()}
        assert drawn == {
            tuple(getattr(model.sizes[k], metric) for k in results.sizes) for model in results.models.values()
        }
        assert {text.get_text() for text in axes.texts} >= set(results.models)


def test_no_two_lines_share_colour_and_marker() -> None:
    results = example()
    lines = metric_figure(results, ["auc"]).axes[0].get_lines()
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}) == len(lines)


def test_names_at_line_ends_do_not_cover_each_other() -> None:
    results = example()
    crowded = {f"model {place}": results.models["MUS"] for place in range(8)}
    figure = metric_figure(results.model_copy(update={"models": results.models | crowded}), ["auc"])
    figure.draw_without_rendering()
    names = [text for text in figure.axes[0].texts if text.get_text() in results.models | crowded]
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert len(boxes) == len(results.models) + 8
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(boxes))


def test_a_size_without_metric_is_a_gap_in_the_curve() -> None:
    short_users = example_of_short_users()
    line = metric_figure(short_users, ["auc"]).axes[0].get_lines()[0]
    assert list(np.isnan(np.asarray(line.get_ydata(), dtype=float))) == [False] * 5 + [True] * 2


def test_the_population_is_drawn_from_zero() -> None:
    results = example()
    for axes, count in zip(population_figure(results).axes, ("users", "queries"), strict=True):
        assert axes.get_ylim()[0] == 0
        drawn = list(np.asarray(axes.get_lines()[0].get_ydata(), dtype=float))
        assert drawn == [getattr(results.models["DeepFM"].sizes[k], count) for k in results.sizes]


def test_history_draws_each_phase_and_leaves_time_out() -> None:
    history = [
        {"stage": stage, "epoch": epoch, "loss": 1 / epoch, "seconds": 2.5, "best": epoch == 1}
        for stage in ("predictor", "learner")
        for epoch in (1, 2, 3)
    ]
    figure = history_figure(history)
    assert figure is not None
    (axes,) = (axes for axes in figure.axes if axes.get_visible())
    assert axes.get_title(loc="left") == "loss"
    assert [line.get_label() for line in axes.get_lines()] == ["predictor", "learner"]


@pytest.mark.parametrize("history", [[], [{"epoch": 1}], [{"epoch": 1, "loss": 0.5}]])
def test_a_history_without_a_curve_draws_nothing(history: list[dict[str, float]]) -> None:
    assert history_figure(history) is None
