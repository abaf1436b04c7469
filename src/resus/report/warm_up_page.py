"""The warm-up curve as a picture and as one HTML file with everything inside, no script, nothing fetched."""

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from resus.evaluation.metrics import AUC, GAUC, LOGLOSS, Measure
from resus.evaluation.results import WarmUp
from resus.files import atomic_path, write_text
from resus.report.html import Cell, svg_element
from resus.report.validation_users import scales_sentence
from resus.report.warm_up_figure import warm_up_figure
from resus.report.warm_up_summary import warm_up_population, warm_up_summary


def draw_warm_up(curve: WarmUp, folder: Path) -> tuple[Path, Path]:
    """Write `warm-up.png` and `warm-up.html`, each whole or not at all."""
    picture, page = folder / "warm-up.png", folder / "warm-up.html"
    figure = warm_up_figure(curve)
    with atomic_path(picture) as aside:
        figure.savefig(aside, format="png", dpi=160, metadata={"Software": None})
    write_text(page, _page(curve, figure))
    return picture, page


def _page(curve: WarmUp, figure: Figure) -> str:
    page = Environment(loader=PackageLoader("resus.report"), autoescape=True, undefined=StrictUndefined)
    names = [curve.base, *curve.contenders, *(name for name in (curve.oracle, curve.crowd) if name is not None)]
    return page.get_template("warm-up.html.j2").render(
        curve=curve,
        names=names,
        population=warm_up_population(curve),
        findings=warm_up_summary(curve),
        learned_here=scales_sentence(curve),
        drawing=svg_element(
            figure,
            "warm-up",
            label="AUC and GAUC of every model against the number of events known of the user; the tables below have "
            "the numbers",
        ),
        tables={column.title: _cells(curve, names, column) for column in (AUC, GAUC, LOGLOSS)},
    )


def _cells(curve: WarmUp, names: list[str], column: Measure) -> dict[int, list[Cell]]:
    """Per size, one cell per model."""
    table = {}
    for size in curve.sizes:
        values = {name: getattr(curve.models[name][size], column.name) for name in names}
        best = column.best(values, [curve.base, *curve.contenders])
        table[size] = [Cell(column.show(value), name in best) for name, value in values.items()]
    return table
