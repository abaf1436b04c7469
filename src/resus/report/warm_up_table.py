"""The warm-up curve on a terminal: a table of AUC and one of GAUC, a line per number of events."""

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from resus.evaluation.metrics import AUC, GAUC, Measure
from resus.evaluation.results import WarmUp
from resus.report.validation_users import scales_sentence
from resus.report.warm_up_summary import warm_up_population, warm_up_summary


def warm_up_table(curve: WarmUp) -> Iterator[RenderableType]:
    """What to print, in order."""
    yield Text.assemble(
        (curve.log.name, "bold"), f" · {curve.part} users · protocol {curve.protocol} · seed {curve.seed}"
    )
    for column in (AUC, GAUC):
        yield Text("")
        yield _table(curve, column)
    yield Text(_legend(curve), style="dim")
    yield Text("")
    for sentence in filter(None, [*warm_up_population(curve), scales_sentence(curve)]):
        yield Text(sentence)
    for sentence in warm_up_summary(curve):
        yield Text(sentence, style="dim")


def _legend(curve: WarmUp) -> str:
    best = "Bold is the best trained model of a line"
    return f"{best}; italic are events beyond training." if curve.sizes[-1] > _trained_by_all(curve) else f"{best}."


def _trained_by_all(curve: WarmUp) -> int:
    """Beyond so many events some run is asked for more than it was trained with."""
    return min(curve.trained_up_to.values())


def _table(curve: WarmUp, column: Measure) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column(Text(f"{column.title}\nevents"), justify="right", no_wrap=True)
    bounds = [name for name in (curve.oracle, curve.crowd) if name is not None]
    names = [curve.base, *curve.contenders, *bounds]
    for name in names:
        table.add_column(
            Text(name, style="dim" if name in bounds else ""), justify="right", min_width=6, overflow="fold"
        )
    for size in curve.sizes:
        values = {name: getattr(curve.models[name][size], column.name) for name in names}
        best = column.best(values, [name for name in names if name not in bounds])
        styles = {name: "bold" if name in best else "dim" if name in bounds else "" for name in names}
        beyond = size > _trained_by_all(curve)
        table.add_row(
            Text(f"{size:,}", style="italic" if beyond else ""),
            *(Text(column.show(value), style=styles[name]) for name, value in values.items()),
        )
    return table
