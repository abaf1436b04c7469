"""Pictures of the reproduction: drawn from the numbers, every line named, nothing where there is nothing."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from planted_cells import LEVELS, cells_of, every_cell, planted_cell

from resus.paper.cells.summary import Summary
from resus.paper.questions import QUESTIONS
from resus.paper.report.figures import convergence_figure, noise_figure, save_figure, size_figure

METHODS = QUESTIONS["rq1"].methods
LABELS = {"resus-rr": "RESUS-RR", "resus-nn": "RESUS-NN"}


def curves(axes: Axes) -> set[tuple[float, ...]]:
    """Heights of the curves; a line of two points leads from a curve to its name."""
    lines = [tuple(np.asarray(line.get_ydata(), dtype=float)) for line in axes.get_lines()]
    return {line for line in lines if len(line) > 2}


def names(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts}


def shown(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def test_curves_by_size_are_the_means_over_seeds() -> None:
    summary = Summary(cells_of(LEVELS))
    left, right = shown(size_figure(summary, "ml-1m", LABELS, METHODS)).axes
    for axes, metric in ((left, "auc"), (right, "gauc")):
        expected = {
            tuple(summary.size("ml-1m", method, size, metric, [1, 2]) or 0 for size in summary.sizes("ml-1m"))
            for method in METHODS
        }
        assert curves(axes) == expected
        assert names(axes) >= {LABELS.get(method, method) for method in METHODS}


def test_curves_are_over_the_same_seeds() -> None:
    """A method with one more seed, whose users are easier, does not rise for it."""
    cells = [*cells_of({"deepfm": 0.70, "resus-rr": 0.71}, seeds=[1]), planted_cell("deepfm", seed=2, auc=0.9)]
    heights = curves(shown(size_figure(Summary(cells), "ml-1m", LABELS, METHODS)).axes[0])
    assert sorted(line[0] for line in heights) == pytest.approx([0.701, 0.711])


def test_resus_stands_out() -> None:
    axes = shown(size_figure(Summary(cells_of(LEVELS)), "ml-1m", LABELS, METHODS)).axes[0]
    widths = sorted(float(line.get_linewidth()) for line in axes.get_lines())
    assert widths[-1] == widths[-2] > widths[-3]
    bold = {text.get_text() for text in axes.texts if text.get_fontweight() == "bold"}
    assert bold == {"RESUS-RR", "RESUS-NN"}


def test_names_do_not_cover_each_other() -> None:
    figure = shown(size_figure(Summary(cells_of(dict.fromkeys(LEVELS, 0.7))), "ml-1m", {}, METHODS))
    figure.draw_without_rendering()
    for axes in figure.axes:
        labels = [text for text in axes.texts if text.get_text() in LEVELS]
        boxes = sorted((text.get_window_extent() for text in labels), key=lambda box: box.y0)
        assert len(boxes) == len(METHODS)
        assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(boxes))


def test_noise_has_panels_only_for_data_sets_that_have_it() -> None:
    cells = [planted_cell("mus", auc=0.6, falls=0.04), planted_cell("resus-rr", auc=0.7, falls=0.01)]
    figure = shown(noise_figure(Summary([*cells, planted_cell("mus", data_set="frappe")]), ["ml-1m", "frappe"], LABELS))
    auc, logloss = figure.axes
    ends = [end for heights in sorted(curves(auc)) for end in (heights[0], heights[-1])]
    assert ends == pytest.approx([0.6, 0.56, 0.7, 0.69])
    assert curves(logloss) == {(0.4,) * 5}
    assert names(auc) >= {"mus", "RESUS-RR"}


def test_convergence_is_the_validation_auc_of_the_first_seed() -> None:
    cells = [planted_cell("melu", seed=seed, auc=0.7 + seed / 100, epochs=4) for seed in (2, 1)]
    (axes,) = shown(convergence_figure(Summary(cells), ["ml-1m"], {})).axes
    (heights,) = curves(axes)
    assert heights == pytest.approx([0.71 - 0.02 / epoch for epoch in (1, 2, 3, 4)])


def test_nothing_to_draw_is_no_figure() -> None:
    summary = Summary([planted_cell("lr", epochs=0)])
    assert size_figure(summary, "ml-1m", {}, METHODS) is None
    assert noise_figure(summary, ["ml-1m"], {}) is None
    assert convergence_figure(summary, ["ml-1m", "taobao"], {}) is None


def test_a_figure_is_saved_as_png_and_pdf(tmp_path: Path) -> None:
    figure = shown(noise_figure(Summary(every_cell(seeds=[1])), ["ml-1m"], LABELS))
    png, pdf = save_figure(figure, tmp_path, "figure4")
    with Image.open(png) as image:
        assert len(set(image.convert("L").get_flattened_data())) > 10
    assert pdf.read_bytes().startswith(b"%PDF")
