"""Results and warm-up curves as HTML pages. Each is one file with everything inside: no script, nothing to fetch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from resus.evaluation.metrics import AUC, GAUC, Measure
from resus.evaluation.results import Measured, Results, WarmUp
from resus.files import write_text
from resus.history import EpochRecord
from resus.report import figures
from resus.report.measures import (
    ShownCell,
    cells,
    coverage_rows,
    gain_cell,
    gain_metrics,
    gains_of,
    metrics_of,
    relative_measures_of,
)
from resus.report.words import (
    negatives_sentence,
    size_range,
    summary,
    tuned_sentence,
    warm_up_population,
    warm_up_summary,
    wrong_way_sentences,
)

_BY_SIZE = "of every model by number of events in the support"


def write_report(
    results: Results,
    path: Path,
    *,
    config: Mapping[str, Any] | None = None,
    history: Sequence[EpochRecord] = (),
) -> Path:
    """The page is written whole or not at all."""
    measures = [*metrics_of(results), *relative_measures_of(results)]
    training = figures.history_figure(history)
    fixed = {name: model.fixed_population for name, model in results.models.items()}
    html = _render(
        "report.html.j2",
        results=results,
        findings=summary(results),
        measures=measures,
        stages=_table(results, {name: model.stages for name, model in results.models.items()}, measures),
        sizes=_table(results, {name: model.sizes for name, model in results.models.items()}, measures),
        fixed=fixed[results.base],
        fixed_stages=_table(results, {name: p.stages for name, p in fixed.items() if p is not None}, measures),
        population=results.models[results.base].sizes,
        gains={
            f"{metric.title}, {metric.direction}": {
                model: [gain_cell(gain, metric) for gain in gains.values()]
                for model, gains in gains_of(results, metric).items()
            }
            for metric in gain_metrics(results)
        },
        gain_curves=[
            figures.svg_element(
                figures.gain_figure(results, [metric]),
                f"gain-{metric.name}",
                label=f"Gain in {metric.title} over {results.base} of every trained model by stage, with its interval; "
                "the table below has the numbers",
            )
            for metric in gain_metrics(results)
        ],
        coverage=coverage_rows(results),
        negatives=negatives_sentence(results),
        wrong_way=wrong_way_sentences(results),
        tuned=tuned_sentence(results),
        ranking=figures.svg_element(
            figures.curve_figure(results, [AUC, GAUC]), "ranking", label=f"AUC and GAUC {_BY_SIZE}"
        ),
        curves=[
            figures.svg_element(
                figures.curve_figure(results, [measure]), measure.name, label=f"{measure.title} {_BY_SIZE}"
            )
            for measure in measures
            if measure not in (AUC, GAUC)
        ],
        population_curve=figures.svg_element(
            figures.population_figure(results), "population", label="Users and queries by events in the support"
        ),
        training=training and figures.svg_element(training, "training", label="The record of training, by epoch"),
        config=yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True) if config else None,
    )
    write_text(path, html)
    return path


def write_warm_up(curve: WarmUp, folder: Path) -> tuple[Path, Path]:
    """Write `warm-up.png` and `warm-up.html`, each whole or not at all."""
    figure = figures.warm_up_figure(curve)
    picture = figures.save_png(figure, folder / "warm-up.png")
    names = [curve.base, *curve.contenders, *curve.bounds]
    label = "AUC and GAUC of every model by number of known events; the tables below have the numbers"
    html = _render(
        "warm-up.html.j2",
        curve=curve,
        names=names,
        population=warm_up_population(curve),
        findings=warm_up_summary(curve),
        tuned=tuned_sentence(curve),
        drawing=figures.svg_element(figure, "warm-up", label=label),
        tables=[
            (metric, {k: cells(curve, {name: curve.models[name][k] for name in names}, metric) for k in curve.sizes})
            for metric in metrics_of(curve)
        ],
    )
    page = folder / "warm-up.html"
    write_text(page, html)
    return picture, page


def _render(template: str, **values: Any) -> str:
    pages = Environment(loader=PackageLoader("resus.report"), autoescape=True, undefined=StrictUndefined)
    pages.filters |= {"size_range": size_range, "thousands": "{:,}".format}
    return pages.get_template(template).render(**values)


def _table(
    results: Results, of_models: Mapping[str, Mapping[Any, Measured]], measures: Sequence[Measure]
) -> dict[Any, dict[str, list[ShownCell]]]:
    """Per stage or size, per model: one cell per measure."""
    table: dict[Any, dict[str, list[ShownCell]]] = {}
    for key in next(iter(of_models.values()), {}):
        values = {model: of_model[key] for model, of_model in of_models.items()}
        columns = [cells(results, values, measure) for measure in measures]
        table[key] = {model: [column[model] for column in columns] for model in of_models}
    return table
