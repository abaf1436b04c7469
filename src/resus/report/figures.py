"""Pictures of results and warm-up curves, as PNG files and as SVG inside a page."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from resus.evaluation.metrics import AUC, GAUC, Measure, Metric
from resus.evaluation.results import Gain, Measured, Results, WarmUp
from resus.files import atomic_path
from resus.history import EpochRecord
from resus.report.measures import gain_metrics, gains_of, metrics_of, relative_measures_of

# colours of Okabe and Ito, which colour-blind readers can tell apart; markers do so in greyscale
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, FAINT, BAND, PAPER = "#2b2f36", "#6b7280", "#d4d7dd", "#f3f4f6", "#ffffff"

STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "figure.facecolor": PAPER,
    "text.parse_math": False,
}


# a page has variables for these colours, so that its pictures follow the light or dark scheme of the reader
_PAGE_COLOURS = {
    **{colour: f"var(--line-{place})" for place, colour in enumerate(COLOURS)},
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    FAINT: "var(--faint)",
    BAND: "var(--band)",
}
_ROUNDING = 1e-9  # a tick at 0 may be off by a rounding error


@dataclass(frozen=True)
class Line:
    """How one model is drawn, the same in every figure."""

    colour: str
    marker: str = ""
    dashes: str = "-"
    width: float = 1.8
    front: int = 2


def write_pictures(results: Results, folder: Path) -> list[Path]:
    """One PNG per measure, `curves.png` (AUC and GAUC on one scale), `population.png`, and `gains.png` with draws."""
    pictures = {
        measure.name: curve_figure(results, [measure])
        for measure in (*metrics_of(results), *relative_measures_of(results))
    }
    pictures["curves"] = curve_figure(results, [AUC, GAUC])
    pictures["population"] = population_figure(results)
    if gain_metrics(results):
        pictures["gains"] = gain_figure(results, gain_metrics(results))
    return [save_png(figure, folder / f"{name}.png") for name, figure in pictures.items()]


def save_png(figure: Figure, path: Path) -> Path:
    with atomic_path(path) as aside:
        figure.savefig(aside, format="png", dpi=160, metadata={"Software": None})
    return path


def svg_element(figure: Figure, name: str, *, label: str = "") -> Markup:
    """The figure as an SVG element with its own ids and the colours of the page; screen readers read `label`."""
    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawing = stream.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r' width="[\d.]+pt"', "", re.sub(r' height="[\d.]+pt"', "", drawing, count=1), count=1)
    drawing = re.sub(r'\bid="([\w.]+_\d+)"', rf'id="{name}-\1"', drawing)
    for colour, variable in _PAGE_COLOURS.items():
        drawing = drawing.replace(colour, variable)
    if label:
        drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
    return Markup(drawing)  # noqa: S704 matplotlib escapes the names it draws


def curve_figure(results: Results, measures: Sequence[Measure]) -> Figure:
    """One panel per measure over the support size, all on one scale."""
    curves = {name: model.sizes for name, model in results.models.items()}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.9 * len(measures) + 1.1, 4.1), layout="constrained")
        panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
        for axes, measure in zip(panels, measures, strict=True):
            frame(axes, measure.title, _subtitle(measure))
            _size_axis(axes, results)
        _draw_curves(panels, measures, curves, _lines(results), results.sizes)
    return figure


def warm_up_figure(curve: WarmUp) -> Figure:
    """AUC and GAUC over a logarithmic number of events; a dashed line marks the most events seen in training."""
    measures = (AUC, GAUC)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.9, 4.3), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, measure in zip(panels, measures, strict=True):
            frame(axes, measure.title, _subtitle(measure))
            _event_axis(axes, curve)
        _draw_curves(panels, measures, curve.models, _lines(curve), curve.sizes)
    return figure


def gain_figure(results: Results, metrics: Sequence[Metric]) -> Figure:
    """One panel per metric, one row per stage and model: a dot with its interval, full if the interval excludes 0."""
    contenders, stages = results.contenders, list(results.stages)
    rows = len(contenders) * len(stages)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(3.5 * len(metrics) + 1.1, 0.25 * rows + 1.3), layout="constrained")
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        for axes, metric in zip(panels, metrics, strict=True):
            frame(axes, metric.title, f"gain over {results.base}; {metric.direction}")
            _gain_axis(axes, results)
            gains = gains_of(results, metric)
            for place, stage in enumerate(stages):
                for number, model in enumerate(contenders):
                    look = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
                    _draw_gain(axes, place * len(contenders) + number, gains[model][stage], *look)
        panels[0].set_yticks(range(rows), [f"{stage} · {model}" for stage in stages for model in contenders])
        panels[0].set_ylim(rows - 0.5, -0.5)  # the first stage on top
    return figure


def population_figure(results: Results) -> Figure:
    """How many users and queries are left at each size."""
    at_sizes = results.models[results.base].sizes
    panels = {"users": ("Users", "with an event after the support"), "queries": ("Queries", "events to score")}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.9, 2.6), layout="constrained")
        for axes, (count, words) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            frame(axes, *words)
            _size_axis(axes, results)
            values = [getattr(at_sizes[k], count) for k in results.sizes]
            axes.fill_between(results.sizes, values, color=COLOURS[0], alpha=0.12, linewidth=0)
            draw_line(axes, results.sizes, values, Line(COLOURS[0]))
            axes.set_ylim(bottom=0)
            leave_room_on_top(axes)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return figure


def history_figure(history: Sequence[EpochRecord]) -> Figure | None:
    """Loss and validation AUC by epoch, a line per stage of training; None if there is no curve."""
    if len(history) < 2:
        return None
    stages = list(dict.fromkeys(record.stage for record in history))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.3, 2.3), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, key in zip(panels, ("loss", "validation_auc"), strict=True):
            axes.set_title(key.replace("_", " "), loc="left", fontsize=9.5, fontweight="bold", color=INK)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            for stage, colour, marker in zip(stages, cycle(COLOURS), cycle(MARKERS), strict=False):
                own = [record for record in history if record.stage == stage]
                epochs, values = [record.epoch for record in own], [getattr(record, key) for record in own]
                axes.plot(epochs, values, color=colour, marker=marker, markersize=3.5, label=stage)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", frameon=False, ncols=3)
        figure.supxlabel("epoch", fontsize=8.5, color=MUTED)
    return figure


def _lines(evaluation: Results | WarmUp) -> dict[str, Line]:
    """Contenders in colour and on top, the base in ink, the bounds of the truth thin and dashed."""
    lines: dict[str, Line] = {}
    if evaluation.crowd is not None:
        lines[evaluation.crowd] = Line(MUTED, dashes=":", width=1.3)
    if evaluation.oracle is not None:
        lines[evaluation.oracle] = Line(MUTED, dashes="--", width=1.3)
    lines[evaluation.base] = Line(INK, width=1.8)
    for place, model in enumerate(evaluation.contenders):
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        lines[model] = Line(colour, marker, "-" if place < len(COLOURS) else "--")
    return lines


def _subtitle(measure: Measure) -> str:
    return measure.meaning if measure.higher_is_better else f"{measure.meaning}; {measure.direction}"


def frame(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=20)
    axes.annotate(
        subtitle,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 6),
        textcoords="offset points",
        fontsize=8.5,
        color=MUTED,
    )


def _size_axis(axes: Axes, results: Results) -> None:
    axes.set_xlabel("events in the support")
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    margin = 0.02 * max(results.sizes[-1] - results.sizes[0], 1)
    axes.set_xlim(results.sizes[0] - margin, results.sizes[-1] + margin)
    stage_bands(axes, results.sizes, results.stages)


def _event_axis(axes: Axes, curve: WarmUp) -> None:
    axes.set_xlabel("known events of the user")
    axes.set_xscale("function", functions=(np.log1p, np.expm1))  # a logarithm with room for 0 events
    axes.xaxis.set_major_locator(FixedLocator(curve.sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(curve.sizes, [f"{size}" for size in curve.sizes], fontsize=8)
    axes.set_xlim(-0.08, np.expm1(np.log1p(curve.sizes[-1]) * 1.015))
    for trained in sorted({size for size in curve.trained_up_to.values() if size < curve.sizes[-1]}):
        axes.axvline(trained, color=MUTED, linestyle="--", linewidth=1.0, zorder=1)
        axes.annotate(
            f"τ = {trained}, the most\nseen in training",
            (trained, 0.985),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
            color=MUTED,
        )


def _gain_axis(axes: Axes, results: Results) -> None:
    axes.axvline(0, color=MUTED, linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}" if abs(value) > _ROUNDING else "0"))
    size = len(results.contenders)
    for place in range(0, len(results.stages), 2):
        axes.axhspan(place * size - 0.5, (place + 1) * size - 0.5, color=BAND, linewidth=0, zorder=0)


def stage_bands(axes: Axes, sizes: Sequence[int], stages: Mapping[str, Sequence[int]]) -> None:
    """Every other stage shaded, each with its name."""
    half = float(np.diff(sizes).min(initial=sizes[-1] or 1)) / 2  # bands meet between two sizes
    for place, (stage, members) in enumerate(stages.items()):
        left, right = min(members), max(members)
        if place % 2 == 0:
            axes.axvspan(left - half, right + half, color=BAND, linewidth=0, zorder=0)
        axes.text(
            (left + right) / 2,
            0.985,
            f"stage {stage}",
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize=8,
            color=MUTED,
        )


def _draw_curves(
    panels: Sequence[Axes],
    measures: Sequence[Measure],
    curves: Mapping[str, Mapping[int, Measured]],
    lines: Mapping[str, Line],
    sizes: Sequence[int],
) -> None:
    """One panel per measure; each line carries the name of its model at its end."""
    ends: list[list[tuple[float, str, str]]] = [[] for _ in panels]
    for axes, measure, of_panel in zip(panels, measures, ends, strict=True):
        for model, line in lines.items():
            end = draw_line(axes, sizes, [curves[model][size].metrics[measure.name] for size in sizes], line)
            if end is not None:
                of_panel.append((end, model, line.colour))
    leave_room_on_top(panels[0])
    for axes, of_panel in zip(panels, ends, strict=True):
        _name_lines(axes, sizes[-1], of_panel)


def draw_line(axes: Axes, places: Sequence[float], values: Sequence[float | None], line: Line) -> float | None:
    """Draw one curve, with a gap for each missing value. Returns the height of its last point."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    axes.plot(
        places,
        [np.nan if value is None else value for value in values],
        color=line.colour,
        linestyle=line.dashes,
        linewidth=line.width,
        marker=line.marker,
        markersize=4,
        markevery=max(1, len(places) // 10),
        zorder=line.front,
        solid_capstyle="round",
    )
    return present[-1]


def _draw_gain(axes: Axes, row: int, gain: Gain, colour: str, marker: str) -> None:
    if gain.difference is None:
        return
    if gain.low is not None and gain.high is not None:
        axes.plot([gain.low, gain.high], [row, row], color=colour, linewidth=1.8, solid_capstyle="round")
    fill = colour if gain.is_certain else "none"
    axes.plot([gain.difference], [row], color=colour, marker=marker, markersize=6, markerfacecolor=fill, linestyle="")


def leave_room_on_top(axes: Axes) -> None:
    """For the names of stages, and the words about training."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.1 * (high - low))


def _name_lines(axes: Axes, last_size: int, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write names next to the line ends, moved apart so that none covers another."""
    low, high = axes.get_ylim()
    ends = sorted(ends)
    for place, (_, model, colour) in zip(apart([end for end, *_ in ends], 0.055 * (high - low)), ends, strict=True):
        axes.annotate(
            model,
            (last_size, place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=colour,
            annotation_clip=False,
        )


def apart(heights: Sequence[float], step: float) -> list[float]:
    """Ascending heights, moved to be at least a step apart, each as little as possible."""
    steps = step * np.arange(len(heights))
    shifted = np.array(heights) - steps
    up, down = np.maximum.accumulate(shifted), np.minimum.accumulate(shifted[::-1])[::-1]
    moved: list[float] = ((up + down) / 2 + steps).tolist()
    return moved
