"""Gains over the base as dots with their intervals, a row per stage and model."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from resus.evaluation.metrics import Measure
from resus.evaluation.results import Gain, Results
from resus.report.figures import BAND, COLOURS, INK, MARKERS, MUTED, STYLE, save_png
from resus.report.gains import GAIN_COLUMNS, direction, gains_of

_NOTHING = 1e-9  # a mark at 0 may come out as a rounding error


def gain_picture(results: Results, folder: Path) -> list[Path]:
    """`gains.png` with every metric side by side; nothing where there are no gains to show."""
    if not has_gains(results):
        return []
    return [save_png(gain_figure(results, GAIN_COLUMNS), folder / "gains.png")]


def has_gains(results: Results) -> bool:
    return results.gains is not None and bool(results.contenders)


def gain_figure(results: Results, columns: Sequence[Measure]) -> Figure:
    """One panel per metric; a full dot where the interval leaves 0 out, a hollow one where it does not."""
    contenders, stages = results.contenders, list(results.stages)
    rows = len(contenders) * len(stages)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(3.5 * len(columns) + 1.1, 0.25 * rows + 1.3), layout="constrained")
        panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axes, column in zip(panels, columns, strict=True):
            _frame(axes, results, column)
            gains = gains_of(results, column)
            for place, stage in enumerate(stages):
                for number, model in enumerate(contenders):
                    look = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
                    _draw(axes, place * len(contenders) + number, gains[model][stage], *look)
        names = [f"{stage} · {model}" for stage in stages for model in contenders]
        panels[0].set_yticks(range(rows), names)
        panels[0].set_ylim(rows - 0.5, -0.5)  # the first stage on top
    return figure


def _frame(axes: Axes, results: Results, column: Measure) -> None:
    axes.set_title(column.title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=20)
    axes.annotate(
        f"gain over {results.base}, {direction(column)}",
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 6),
        textcoords="offset points",
        fontsize=8.5,
        color=MUTED,
    )
    axes.axvline(0, color=MUTED, linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}" if abs(value) > _NOTHING else "0"))
    size = len(results.contenders)
    for place in range(0, len(results.stages), 2):
        axes.axhspan(place * size - 0.5, (place + 1) * size - 0.5, color=BAND, linewidth=0, zorder=0)


def _draw(axes: Axes, row: int, gain: Gain, colour: str, marker: str) -> None:
    if gain.difference is None:
        return
    if gain.low is not None and gain.high is not None:
        axes.plot([gain.low, gain.high], [row, row], color=colour, linewidth=1.8, solid_capstyle="round")
    fill = colour if gain.is_certain else "none"
    axes.plot([gain.difference], [row], color=colour, marker=marker, markersize=6, markerfacecolor=fill, linestyle="")
