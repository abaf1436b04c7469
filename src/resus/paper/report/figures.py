"""Figures 4 and 5 of the paper, and AUC and GAUC by support size. RESUS is in colour, other methods are muted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from resus.files import atomic_path
from resus.paper.cells.summary import Summary
from resus.paper.questions import QUESTIONS, data_set_label
from resus.report.figures import (
    COLOURS,
    INK,
    MUTED,
    STYLE,
    Line,
    apart,
    draw_line,
    frame,
    leave_room_on_top,
    stage_bands,
)

GREY = "#a3a9b3"
_LINES = {
    "resus-rr": Line(COLOURS[0], "o", width=2.4, front=6),
    "resus-nn": Line(COLOURS[1], "s", width=2.4, front=5),
    "deepfm": Line(INK, dashes="--", width=1.6, front=4),
    "user-bias": Line(COLOURS[2], width=1.6, front=4),
    "history-trees": Line(COLOURS[3], width=1.6, front=4),
    "mus": Line(INK, dashes="--", width=1.6, front=4),
    "meta-embedding": Line(MUTED, width=1.4, front=3),
}
_OTHER = Line(GREY, width=1.2)
Curve = tuple[str, Sequence[float], Sequence[float | None]]  # method, x, y
End = tuple[float, float, str, Line]  # y and x of the end of a curve, its name and style


def size_figure(summary: Summary, data_set: str, labels: Mapping[str, str], methods: Sequence[str]) -> Figure | None:
    """AUC and GAUC by support size, over the seeds that all methods have. None if there is no curve."""
    sizes, seeds = summary.sizes(data_set), summary.shared_seeds(data_set, methods)
    metrics = {"auc": ("AUC", "all queries in one ranking"), "gauc": ("GAUC", "one ranking per user")}
    curves: dict[str, list[Curve]] = {
        metric: [
            (method, sizes, [summary.size(data_set, method, size, metric, seeds) for size in sizes])
            for method in methods
        ]
        for metric in metrics
    }
    if all(height is None for of_metric in curves.values() for _, _, heights in of_metric for height in heights):
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11.6, 4.9), layout="constrained")
        for axes, (metric, titles) in zip(figure.subplots(1, 2), metrics.items(), strict=True):
            frame(axes, *titles)
            stages = summary.stage_sizes(data_set)
            stage_bands(axes, sorted(size for members in stages.values() for size in members), stages)
            _draw(axes, curves[metric], labels)
            axes.set_xlabel("events in the support")
            axes.set_xlim(left=sizes[0] - 0.5)
    return figure


def noise_figure(summary: Summary, data_sets: Sequence[str], labels: Mapping[str, str]) -> Figure | None:
    """Figure 4: AUC and Logloss against the mean distance of the support. One row of panels per data set."""
    methods = QUESTIONS["rq4"].methods
    shown = [name for name in data_sets if any(summary.noise(name, method) for method in methods)]
    if not shown:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 4.1 * len(shown)), layout="constrained")
        for panels, data_set in zip(figure.subplots(len(shown), 2, squeeze=False), shown, strict=True):
            for axes, metric in zip(panels, ("auc", "logloss"), strict=True):
                better = "higher is better" if metric == "auc" else "lower is better"
                frame(axes, "AUC" if metric == "auc" else "Logloss", f"{data_set_label(data_set)} · {better}")
                curves: list[Curve] = []
                for method in methods:
                    levels = summary.noise(data_set, method)
                    curves.append((method, [n.distance for n in levels], [getattr(n, metric) for n in levels]))
                _draw(axes, curves, labels, marked=True)
                axes.set_xlabel("mean distance from query to support: near to far")
    return figure


def convergence_figure(summary: Summary, data_sets: Sequence[str], labels: Mapping[str, str]) -> Figure | None:
    """Figure 5: validation AUC after each epoch, for methods that train in epochs. One panel per data set."""
    panels: dict[str, list[Curve]] = {}
    for data_set in data_sets:
        found: list[Curve] = []
        for method in QUESTIONS["rq5"].methods:
            heights = summary.convergence(data_set, method)
            if len(heights) > 1 and method != "deepfm":
                found.append((method, range(1, len(heights) + 1), heights))
        if found:
            panels[data_set] = found
    if not panels:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.2 * len(panels), 4.6), layout="constrained")
        for axes, (data_set, curves) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            frame(axes, data_set_label(data_set), "AUC on the validation users, first seed")
            _draw(axes, curves, labels, marked=True)
            axes.set_xlabel("epoch")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """As PNG and as PDF. The same figure gives the same bytes."""
    paths = [folder / f"{name}.png", folder / f"{name}.pdf"]
    metadata: list[dict[str, None]] = [{"Software": None}, {"CreationDate": None, "Producer": None, "Creator": None}]
    for path, facts in zip(paths, metadata, strict=True):
        with atomic_path(path) as aside, mpl.rc_context({"pdf.fonttype": 42}):
            figure.savefig(aside, format=path.suffix[1:], dpi=160, metadata=facts)
    return paths


def _draw(axes: Axes, curves: Sequence[Curve], labels: Mapping[str, str], *, marked: bool = False) -> None:
    """Draw the curves, and write each name at the right edge, joined to the end of its curve."""
    ends: list[End] = []
    for method, places, heights in curves:
        line = _LINES.get(method, _OTHER)
        end = draw_line(axes, places, heights, replace(line, marker=line.marker or ".") if marked else line)
        if end is not None:
            last = max(place for place, height in zip(places, heights, strict=True) if height is not None)
            ends.append((end, last, labels.get(method, method), line))
    leave_room_on_top(axes)
    _name_lines(axes, sorted(ends, key=lambda end: end[0]))


def _name_lines(axes: Axes, ends: Sequence[End]) -> None:
    """Write the names in one column, moved apart until none covers another. A thin line leads to the curve's end."""
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    edge = max(place for _, place, _, _ in ends)
    column = edge + 0.05 * (right - left)
    axes.set_xlim(left, edge + 0.02 * (right - left))
    heights = apart([end for end, *_ in ends], 0.052 * (high - low))
    for height, (end, place, name, line) in zip(heights, ends, strict=True):
        axes.plot([place, column], [end, height], color=line.colour, linewidth=0.5, alpha=0.5, clip_on=False)
        axes.annotate(
            name,
            (column, height),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=MUTED if line is _OTHER else line.colour,
            fontweight="bold" if line.width > 2 else "normal",
            annotation_clip=False,
        )
