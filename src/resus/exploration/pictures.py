"""The pictures of `resus explore`."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from resus.exploration.outcome import ReplayedLog, Simulated, Value
from resus.exploration.simulation import ORACLE
from resus.report.figures import COLOURS, INK, MARKERS, MUTED, STYLE, frame, save_png

ESTIMATORS = {"ips": "IPS", "self_normalised": "self-normalised", "doubly_robust": "doubly robust"}


def picture_of(found: Simulated | ReplayedLog, folder: Path) -> Path:
    """Write `explore.png`."""
    with mpl.rc_context(STYLE):
        figure = _courses(found) if isinstance(found, Simulated) else _estimates(found)
        return save_png(figure, folder / "explore.png")


def _courses(found: Simulated) -> Figure:
    figure = Figure(figsize=(10.9, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    frame(left, "Liked items found", "cumulated; higher is better")
    frame(right, "Regret", "liked items missed against the oracle, cumulated; lower is better")
    for place, (rule, course) in enumerate(found.rules.items()):
        colour = INK if rule == ORACLE else COLOURS[place % len(COLOURS)]
        marker = MARKERS[place % len(MARKERS)]
        _line(left, course.liked, rule, colour, marker)
        if rule != ORACLE:
            _line(right, course.regret, rule, colour, marker)
    left.legend(frameon=False, fontsize=8.5)
    for axes in (left, right):
        axes.set_xlabel("events of the user")
    return figure


def _line(axes: Axes, values: list[Value], name: str, colour: str, marker: str) -> None:
    places = np.arange(1, 1 + len(values))
    axes.plot(places, [one.value for one in values], color=colour, marker=marker, markevery=5, markersize=4, label=name)
    axes.fill_between(places, [one.low for one in values], [one.high for one in values], color=colour, alpha=0.12, lw=0)


def _estimates(found: ReplayedLog) -> Figure:
    figure = Figure(figsize=(8.0, 0.55 * len(found.rules) + 1.9), layout="constrained")
    axes = figure.subplots()
    frame(axes, "Mean reward that each rule would have", "95 % of draws of users; the line is the logged choices")
    axes.axvline(found.logged.value, color=MUTED, linewidth=1)
    for place, (name, title) in enumerate(ESTIMATORS.items()):
        for row, rule in enumerate(found.rules.values()):
            one: Value = getattr(rule, name)
            if rule.enough:
                height = row + 0.2 * (place - 1)
                axes.plot([one.low, one.high], [height, height], color=COLOURS[place], linewidth=1.5)
                label = title if row == next(n for n, r in enumerate(found.rules.values()) if r.enough) else None
                axes.plot(one.value, height, MARKERS[place], color=COLOURS[place], markersize=5, label=label)
    axes.set_yticks(range(len(found.rules)), list(found.rules))
    axes.invert_yaxis()
    if any(rule.enough for rule in found.rules.values()):
        axes.legend(frameon=False, fontsize=8.5)
    return figure
