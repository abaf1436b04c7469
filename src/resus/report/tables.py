"""Results, gains and warm-up curves as tables on a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from resus.evaluation.metrics import AUC, GAUC, Measure, Metric
from resus.evaluation.results import Evaluation, Gain, Results, WarmUp
from resus.report.measures import (
    ShownCell,
    cells,
    gain_cell,
    gain_metrics,
    gains_of,
    metrics_of,
    relative_measures_of,
)
from resus.report.words import (
    coverage_sentences,
    gain_sentence,
    negatives_sentence,
    tuned_sentence,
    warm_up_population,
    warm_up_summary,
    wrong_way_sentences,
)


@dataclass(frozen=True)
class StageTable:
    """Models against stages, and the population below. Stages are side by side if they fit, else stacked."""

    results: Results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        results = self.results
        yield _title(results, f" · base {results.base}")
        yield Text("")
        measured, relative = metrics_of(results), relative_measures_of(results)
        side_by_side = [self._side_by_side(columns) for columns in (measured, relative)]
        if all(_fits(table, console, options) for table in side_by_side):
            yield side_by_side[0]
            yield Text("")
            yield side_by_side[1]
        else:
            yield self._stacked([*measured, *relative])
        yield Text("")
        yield from self._notes()

    def _side_by_side(self, columns: Sequence[Measure]) -> Table:
        table = _empty_table(padding=(0, 0, 0, 0))
        table.add_column(Text("\n\nmodel"), no_wrap=True)
        rows: dict[str, list[Text]] = {model: [] for model in self.results.models}
        for stage in self.results.stages:
            for place, column in enumerate(columns):
                over = f"stage {stage}" if place == 0 else ""
                table.add_column(Text(f"{over}\n{_heading(column)}"), justify="right", no_wrap=True)
                for model, cell in self._cells(stage, column).items():
                    rows[model].append(cell)
        for model, row in rows.items():
            table.add_row(Text(model, style=_style(self.results, model)), *row)
        return table

    def _stacked(self, columns: Sequence[Measure]) -> Table:
        table = _empty_table()
        table.add_column("model")
        for column in columns:
            table.add_column(Text(_heading(column)), justify="right", no_wrap=True)
        for stage in self.results.stages:
            table.add_section()
            table.add_row(Text(f"stage {stage}", style="italic"))
            of_columns = [self._cells(stage, column) for column in columns]
            for model in self.results.models:
                table.add_row(
                    Text(model, style=_style(self.results, model)), *(of_column[model] for of_column in of_columns)
                )
        return table

    def _cells(self, stage: str, column: Measure) -> Mapping[str, Text]:
        found = cells(self.results, {name: model.stages[stage] for name, model in self.results.models.items()}, column)
        return {model: _styled(self.results, model, cell) for model, cell in found.items()}

    def _notes(self) -> RenderResult:
        results = self.results
        at_sizes = results.models[results.base].sizes
        for k in dict.fromkeys([results.sizes[0], results.sizes[-1]]):
            yield Text(f"k = {k}: {at_sizes[k].users:,} users, {at_sizes[k].queries:,} queries", style="dim")
        yield Text(f"RelaImpr is relative to {results.base}. Bold is the best trained model of a column.", style="dim")
        unscored = [str(k) for k in results.sizes if not at_sizes[k].queries]
        if unscored:
            yield Text(f"No user has a query at k = {', '.join(unscored)}: stages skip these sizes.", style="dim")
        sentences = [*coverage_sentences(results), *wrong_way_sentences(results), tuned_sentence(results)]
        sentences.append(negatives_sentence(results))
        for sentence in filter(None, sentences):
            yield Text(sentence)


@dataclass(frozen=True)
class GainTable:
    """Gains over the base with their intervals: next to the difference if they fit, else below it."""

    results: Results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        results = self.results
        if results.gains is None or not gain_metrics(results):
            return
        yield Text("")
        draws = f" (95 % of {results.gains.draws} draws of users)"
        yield Text.assemble((f"gain over {results.base}", "bold"), draws)
        yield Text("")
        on_one_line = self._table(" ")
        yield on_one_line if _fits(on_one_line, console, options) else self._table("\n")
        yield Text("")
        for model in results.contenders:
            yield Text(gain_sentence(results, model))
        yield Text("↑ higher is better, ↓ lower is better. ✓ better, ✗ worse: the interval excludes 0.", style="dim")

    def _table(self, between: str) -> Table:
        table = _empty_table()
        table.add_column("model")
        for stage in self.results.stages:
            table.add_column(f"stage {stage}", no_wrap=True)
        for metric in gain_metrics(self.results):
            table.add_section()
            table.add_row(Text(f"{metric.title} {'↑' if metric.higher_is_better else '↓'}", style="italic"))
            gains = gains_of(self.results, metric)
            for model in self.results.contenders:
                table.add_row(Text(model), *(_gain_text(gain, metric, between) for gain in gains[model].values()))
        return table


def warm_up_table(curve: WarmUp) -> Iterator[RenderableType]:
    """What to print, in order: a table of AUC and one of GAUC, a row per number of events, then the sentences."""
    yield _title(curve)
    trained_by_all = min(curve.trained_up_to.values())
    for metric in (AUC, GAUC):
        yield Text("")
        yield _curve_table(curve, metric, trained_by_all)
    italic = " Italic rows have more events than training." if curve.sizes[-1] > trained_by_all else ""
    yield Text(f"Bold is the best trained model of a row.{italic}", style="dim")
    yield Text("")
    for sentence in filter(None, [*warm_up_population(curve), tuned_sentence(curve)]):
        yield Text(sentence)
    for sentence in warm_up_summary(curve):
        yield Text(sentence, style="dim")


def _curve_table(curve: WarmUp, metric: Metric, trained_by_all: int) -> Table:
    table = _empty_table(padding=(0, 2, 0, 0))
    table.add_column(Text(f"{metric.title}\nevents"), justify="right", no_wrap=True)
    names = [curve.base, *curve.contenders, *curve.bounds]
    for name in names:
        table.add_column(Text(name, style=_style(curve, name)), justify="right", min_width=6, overflow="fold")
    for size in curve.sizes:
        row = cells(curve, {name: curve.models[name][size] for name in names}, metric)
        events = Text(f"{size:,}", style="italic" if size > trained_by_all else "")
        table.add_row(events, *(_styled(curve, name, cell) for name, cell in row.items()))
    return table


def _title(evaluation: Evaluation, more: str = "") -> Text:
    facts = f" · {evaluation.part} users · protocol {evaluation.protocol} · seed {evaluation.seed}{more}"
    return Text.assemble((evaluation.log.name, "bold"), facts)


def _empty_table(padding: tuple[int, int, int, int] = (0, 1, 0, 0)) -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, show_edge=False)


def _fits(table: Table, console: Console, options: ConsoleOptions) -> bool:
    unbounded = options.update(max_width=10_000)  # otherwise rich cuts the measure to the width at hand
    return Measurement.get(console, unbounded, table).maximum <= options.max_width


def _heading(measure: Measure) -> str:
    """Two lines, so that headings of one line stand at the bottom."""
    heading = measure.heading or measure.title
    return heading if "\n" in heading else f"\n{heading}"


def _styled(evaluation: Evaluation, model: str, cell: ShownCell) -> Text:
    return Text(cell.text, style="bold" if cell.best else _style(evaluation, model))


def _style(evaluation: Evaluation, model: str) -> str:
    return "dim" if model in evaluation.bounds else ""


def _gain_text(gain: Gain, metric: Metric, between: str) -> Text:
    cell = gain_cell(gain, metric)
    shown = f"{cell.difference} {cell.verdict.mark or ' '}{between}{cell.interval}"
    return Text(shown.rstrip(), style="bold" if cell.verdict.mark else "")
