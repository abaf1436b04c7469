"""Curves over the support size, drawn once for PNG files and for the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from resus.evaluation.results import Results, WarmUp
from resus.files import atomic_path

# Okabe and Ito's colours, told apart by every reader; markers tell them apart in greyscale
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, FAINT, BAND, PAPER = "#2b2f36", "#6b7280", "#d4d7dd", "#f3f4f6", "#ffffff"

TITLES = {
    "auc": ("AUC", "all queries ranked together"),
    "gauc": ("GAUC", "each user's queries ranked apart"),
    "logloss": ("Logloss", "lower is better"),
    "calibration_error": ("Calibration error", "lower is better"),
    "gap_closed": ("Gap closed", "from the crowd's AUC (0) to the oracle's (1)"),
}

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


@dataclass(frozen=True)
class Line:
    """How one model is drawn, the same in every figure."""

    colour: str
    marker: str = ""
    dashes: str = "-"
    width: float = 1.8


def size_curves(results: Results, folder: Path) -> list[Path]:
    """One PNG per metric, one of the population, and `curves.png` with AUC and GAUC side by side on one scale."""
    figures = {metric: metric_figure(results, [metric]) for metric in shown_metrics(results)}
    figures["population"] = population_figure(results)
    figures["curves"] = metric_figure(results, ["auc", "gauc"])
    return [save_png(figure, folder / f"{name}.png") for name, figure in figures.items()]


def save_png(figure: Figure, path: Path) -> Path:
    with atomic_path(path) as aside:
        figure.savefig(aside, format="png", dpi=160, metadata={"Software": None})
    return path


def shown_metrics(results: Results) -> list[str]:
    return ["auc", "gauc", "logloss", "calibration_error", *(["gap_closed"] if results.has_truth else [])]


def metric_figure(results: Results, metrics: Sequence[str]) -> Figure:
    """One panel per metric on one scale; each line carries its model's name at its end."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.9 * len(metrics) + 1.1, 4.1), layout="constrained")
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        ends: list[list[tuple[float, str, str]]] = []
        for axes, metric in zip(panels, metrics, strict=True):
            _frame(axes, results, *TITLES[metric])
            ends.append([])
            for model, line in lines_of(results).items():
                values = [getattr(results.models[model].sizes[k], metric) for k in results.sizes]
                end = draw(axes, results.sizes, values, line)
                if end is not None:
                    ends[-1].append((end, model, line.colour))
        _leave_room_for_stages(panels[0])
        for axes, of_panel in zip(panels, ends, strict=True):
            name_lines(axes, results.sizes[-1], of_panel)
    return figure


def population_figure(results: Results) -> Figure:
    """How many users and queries are left at each size: what every other curve is a mean over."""
    at_sizes = results.models[results.base].sizes
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.9, 2.6), layout="constrained")
        for axes, count, title in zip(figure.subplots(1, 2), ("users", "queries"), ("Users", "Queries"), strict=True):
            _frame(axes, results, title, "with an event after the support" if count == "users" else "scored events")
            values = [getattr(at_sizes[k], count) for k in results.sizes]
            axes.fill_between(results.sizes, values, color=COLOURS[0], alpha=0.12, linewidth=0)
            draw(axes, results.sizes, values, Line(COLOURS[0]))
            axes.set_ylim(bottom=0)
            _leave_room_for_stages(axes)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return figure


def history_figure(history: Sequence[Mapping[str, Any]]) -> Figure | None:
    """One small panel per number that training wrote down, time apart, against its epoch; None where there is none."""
    numbers = [key for key in dict.fromkeys(key for row in history for key in row) if _is_curve(history, key)]
    if not numbers:
        return None
    columns = min(3, len(numbers))
    rows = -(-len(numbers) // columns)
    parts = list(dict.fromkeys(_part(row) for row in history))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.6 * columns + 0.1, 2.3 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, key in zip(panels, numbers, strict=False):
            axes.set_title(key.replace("_", " "), loc="left", fontsize=9.5, fontweight="bold", color=INK)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            for part, colour, marker in zip(parts, COLOURS, MARKERS, strict=False):
                of_part = [row for row in history if _part(row) == part and isinstance(row.get(key), int | float)]
                epochs = [row.get("epoch", place) for place, row in enumerate(of_part, start=1)]
                axes.plot(
                    epochs, [row[key] for row in of_part], color=colour, marker=marker, markersize=3.5, label=part
                )
        for axes in panels[len(numbers) :]:
            axes.set_visible(False)
        if len(parts) > 1:
            figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", frameon=False, ncols=3)
        figure.supxlabel("epoch", fontsize=8.5, color=MUTED)
    return figure


def _is_curve(history: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [row[key] for row in history if key in row]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return key not in ("epoch", "seconds") and len(numbers) > 1 and bool(np.isfinite(numbers).any())


def _part(row: Mapping[str, Any]) -> str:
    """Words in a row of the history tell phases of training apart."""
    return " ".join(value for value in row.values() if isinstance(value, str))


def lines_of(results: Results | WarmUp) -> dict[str, Line]:
    """Contenders in colour, on top; the base in ink; the truth's bounds thin and dashed."""
    lines: dict[str, Line] = {}
    if results.crowd is not None:
        lines[results.crowd] = Line(MUTED, dashes=":", width=1.3)
    if results.oracle is not None:
        lines[results.oracle] = Line(MUTED, dashes="--", width=1.3)
    lines[results.base] = Line(INK, width=1.8)
    for place, model in enumerate(results.contenders):
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        lines[model] = Line(colour, marker, "-" if place < len(COLOURS) else "--")
    return lines


def _frame(axes: Axes, results: Results, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=20)
    axes.text(0, 1.035, subtitle, transform=axes.transAxes, fontsize=8.5, color=MUTED)
    axes.set_xlabel("events in the support")
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    margin = 0.02 * max(results.sizes[-1] - results.sizes[0], 1)
    axes.set_xlim(results.sizes[0] - margin, results.sizes[-1] + margin)
    stage_bands(axes, results.sizes, results.stages)


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


def draw(axes: Axes, sizes: Sequence[int], values: Sequence[float | None], line: Line) -> float | None:
    """Draw one curve with gaps where there is no metric; the height of its last point."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    axes.plot(
        sizes,
        [np.nan if value is None else value for value in values],
        color=line.colour,
        linestyle=line.dashes,
        linewidth=line.width,
        marker=line.marker,
        markersize=4,
        markevery=max(1, len(sizes) // 10),
        solid_capstyle="round",
    )
    return present[-1]


def _leave_room_for_stages(axes: Axes) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.1 * (high - low))


def name_lines(axes: Axes, last_size: int, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names beside the line ends, moved apart until none covers another."""
    low, high = axes.get_ylim()
    ends = sorted(ends)
    steps = 0.055 * (high - low) * np.arange(len(ends))
    heights = np.array([end for end, _, _ in ends]) - steps
    pushed_up, pushed_down = np.maximum.accumulate(heights), np.minimum.accumulate(heights[::-1])[::-1]
    for place, (_, model, colour) in zip((pushed_up + pushed_down) / 2 + steps, ends, strict=True):
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
