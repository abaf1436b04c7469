"""The warm-up curve as a picture: AUC and GAUC side by side over a logarithmic number of events."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from resus.evaluation.results import WarmUp
from resus.report.figures import INK, MUTED, STYLE, TITLES, draw, lines_of, name_lines


def warm_up_figure(curve: WarmUp) -> Figure:
    """One panel per metric on one scale; a dashed line stands at the most events seen in training."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.9, 4.3), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, metric in zip(panels, ("auc", "gauc"), strict=True):
            _frame(axes, curve, *TITLES[metric])
        ends: list[list[tuple[float, str, str]]] = [[], []]
        for model, line in lines_of(curve).items():
            for axes, metric, of_panel in zip(panels, ("auc", "gauc"), ends, strict=True):
                values = [getattr(curve.models[model][size], metric) for size in curve.sizes]
                end = draw(axes, curve.sizes, values, line)
                if end is not None:
                    of_panel.append((end, model, line.colour))
        low, high = panels[0].get_ylim()
        panels[0].set_ylim(low, high + 0.1 * (high - low))  # room for the words about training
        for axes, of_panel in zip(panels, ends, strict=True):
            name_lines(axes, curve.sizes[-1], of_panel)
    return figure


def _frame(axes: Axes, curve: WarmUp, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=20)
    axes.text(0, 1.035, subtitle, transform=axes.transAxes, fontsize=8.5, color=MUTED)
    axes.set_xlabel("events known of the user")
    axes.set_xscale("function", functions=(np.log1p, np.expm1))  # a logarithm that has room for no event at all
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
