"""The report: one HTML file with everything inside, no script, nothing fetched."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from resus.evaluation.metrics import AUC, CALIBRATION, GAP_CLOSED, GAUC, LOGLOSS, RELA_IMPR, Measure
from resus.evaluation.results import Results
from resus.files import write_text
from resus.report import figures
from resus.report.coverage import coverage_rows
from resus.report.gain_figure import gain_figure, has_gains
from resus.report.gains import GAIN_COLUMNS, difference_text, direction, gains_of, interval_text, verdict
from resus.report.summary import size_range, summary
from resus.report.validation_users import scales_sentence

# the drawing's colours become variables of the page, so that charts follow the reader's light or dark scheme
_VARIABLES = {
    **{colour: f"var(--line-{place})" for place, colour in enumerate(figures.COLOURS)},
    figures.INK: "var(--ink)",
    figures.MUTED: "var(--muted)",
    figures.FAINT: "var(--faint)",
    figures.BAND: "var(--band)",
}

_AGAINST_SIZE = "of every model against the number of events in the support"


@dataclass(frozen=True)
class Cell:
    """A number as shown, and whether it is the best of its column."""

    text: str
    best: bool


@dataclass(frozen=True)
class GainCell:
    """A gain as shown: the difference, its interval, and what they say."""

    difference: str
    interval: str
    mark: str
    verdict: str


def write_report(
    results: Results,
    path: Path,
    *,
    config: Mapping[str, Any] | None = None,
    history: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """Write the report whole or not at all."""
    page = Environment(loader=PackageLoader("resus.report"), autoescape=True, undefined=StrictUndefined)
    page.filters["size_range"] = size_range
    columns = [AUC, GAUC, RELA_IMPR, LOGLOSS, CALIBRATION, *([GAP_CLOSED] if results.has_truth else [])]
    training = figures.history_figure(history) if history else None
    fixed = {name: model.fixed_population for name, model in results.models.items()}
    html = page.get_template("report.html.j2").render(
        results=results,
        findings=summary(results),
        columns=columns,
        stages=_cells(results, {name: model.stages for name, model in results.models.items()}, columns),
        sizes=_cells(results, {name: model.sizes for name, model in results.models.items()}, columns),
        fixed=fixed[results.base],
        fixed_stages=_cells(results, {name: p.stages for name, p in fixed.items() if p is not None}, columns),
        population=results.models[results.base].sizes,
        gains={f"{column.title}, {direction(column)}": _gain_cells(results, column) for column in GAIN_COLUMNS}
        if has_gains(results)
        else None,
        gain_curves={
            column.title: svg_element(
                gain_figure(results, [column]),
                f"gain-{column.name}",
                label=f"Gain in {column.title} over {results.base} of every trained model by stage, with its interval; "
                "the table below has the numbers",
            )
            for column in GAIN_COLUMNS
            if has_gains(results)
        },
        coverage=coverage_rows(results),
        learned_here=scales_sentence(results),
        ranking=svg_element(
            figures.metric_figure(results, ["auc", "gauc"]), "ranking", label=f"AUC and GAUC {_AGAINST_SIZE}"
        ),
        curves={
            figures.TITLES[metric][0]: svg_element(
                figures.metric_figure(results, [metric]), metric, label=f"{figures.TITLES[metric][0]} {_AGAINST_SIZE}"
            )
            for metric in figures.shown_metrics(results)
            if metric not in ("auc", "gauc")
        },
        population_curve=svg_element(
            figures.population_figure(results),
            "population",
            label="Users and queries against the number of events in the support",
        ),
        training=svg_element(training, "training", label="What training wrote down after each epoch")
        if training
        else None,
        config=yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True) if config else None,
    )
    write_text(path, html)
    return path


def _cells(
    results: Results, of_models: Mapping[str, Mapping[Any, Any]], columns: Sequence[Measure]
) -> dict[Any, dict[str, list[Cell]]]:
    """Per stage or size, per model: one cell per column."""
    rivals = [model for model in (results.base, *results.contenders) if model in of_models]
    table: dict[Any, dict[str, list[Cell]]] = {}
    for key in next(iter(of_models.values()), {}):
        table[key] = {model: [] for model in of_models}
        for column in columns:
            values = {model: getattr(metrics[key], column.name) for model, metrics in of_models.items()}
            best = column.best(values, rivals)
            for model, value in values.items():
                table[key][model].append(Cell(column.show(value), model in best))
    return table


def _gain_cells(results: Results, column: Measure) -> dict[str, list[GainCell]]:
    """Per model: one cell per stage."""
    table: dict[str, list[GainCell]] = {}
    for model, gains in gains_of(results, column).items():
        table[model] = []
        for gain in gains.values():
            found = verdict(gain, column)
            table[model].append(GainCell(difference_text(gain), interval_text(gain), found.mark, found.value))
    return table


def svg_element(figure: Figure, name: str, *, label: str = "") -> Markup:
    """The figure as an SVG element with its own ids and the page's colours; `label` tells screen readers what it is."""
    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawing = stream.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r' width="[\d.]+pt"', "", re.sub(r' height="[\d.]+pt"', "", drawing, count=1), count=1)
    drawing = re.sub(r'\bid="([\w.]+_\d+)"', rf'id="{name}-\1"', drawing)
    for colour, variable in _VARIABLES.items():
        drawing = drawing.replace(colour, variable)
    if label:
        drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
    return Markup(drawing)  # noqa: S704 matplotlib escapes the names it draws
