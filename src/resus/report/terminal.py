"""The stage table on a terminal: stages side by side where they fit, one under the other where they do not."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from resus.evaluation.metrics import AUC, CALIBRATION, GAP_CLOSED, GAUC, LOGLOSS, RELA_IMPR, Measure
from resus.evaluation.results import Results
from resus.report.coverage import coverage_sentences
from resus.report.validation_users import scales_sentence


def results_table(results: Results) -> "StageTable":
    """Models against stages, AUC and GAUC side by side, the best of each column bold, the population below."""
    return StageTable(results)


@dataclass(frozen=True)
class StageTable:
    """A renderable that picks its layout by the width it is given."""

    results: Results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        results = self.results
        yield Text.assemble(
            (results.log.name, "bold"),
            f" · {results.part} users · protocol {results.protocol} · seed {results.seed} · base {results.base}",
        )
        yield Text("")
        side_by_side = self._side_by_side((AUC, GAUC, LOGLOSS, RELA_IMPR))
        gap = (GAP_CLOSED,) if results.has_truth else ()
        unbounded = options.update(max_width=10_000)  # a measure is otherwise cut to the width at hand
        if Measurement.get(console, unbounded, side_by_side).maximum <= options.max_width:
            yield side_by_side
            if gap:
                yield Text("\nShare of the AUC gap from crowd to oracle that is closed")
                yield self._side_by_side(gap)
        else:
            yield self._stacked((AUC, GAUC, LOGLOSS, RELA_IMPR, CALIBRATION, *gap))
        yield Text("")
        yield from self._population()

    def _side_by_side(self, columns: Sequence[Measure]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
        table.add_column(Text("\n\nmodel"), no_wrap=True)
        cells: dict[str, list[Text]] = {model: [] for model in self.results.models}
        for stage in self.results.stages:
            for place, column in enumerate(columns):
                over = f"stage {stage}" if place == 0 else ""
                table.add_column(
                    Text(f"{over}\n{column.heading or chr(10) + column.title}"), justify="right", no_wrap=True
                )
                for model, cell in self._cells(stage, column).items():
                    cells[model].append(cell)
        for model, row in cells.items():
            table.add_row(self._name(model), *row)
        return table

    def _stacked(self, columns: Sequence[Measure]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("model")
        for column in columns:
            table.add_column(Text(column.heading or column.title), justify="right", no_wrap=True)
        for stage in self.results.stages:
            table.add_section()
            table.add_row(Text(f"stage {stage}", style="italic"))
            cells = [self._cells(stage, column) for column in columns]
            for model in self.results.models:
                table.add_row(self._name(model), *(of_column[model] for of_column in cells))
        return table

    def _cells(self, stage: str, column: Measure) -> dict[str, Text]:
        values = {name: of.stages[stage].metrics[column.name] for name, of in self.results.models.items()}
        best = column.best(values, [self.results.base, *self.results.contenders])
        return {
            model: Text(column.show(value), style="bold" if model in best else self._style(model))
            for model, value in values.items()
        }

    def _name(self, model: str) -> Text:
        return Text(model, style=self._style(model))

    def _style(self, model: str) -> str:
        return "dim" if model in (self.results.oracle, self.results.crowd) else ""

    def _population(self) -> RenderResult:
        at_sizes = self.results.models[self.results.base].sizes
        for k in dict.fromkeys([self.results.sizes[0], self.results.sizes[-1]]):
            yield Text(f"k = {k}: {at_sizes[k].users:,} users, {at_sizes[k].queries:,} queries", style="dim")
        yield Text(f"RelaImpr is against {self.results.base}; bold is the best of a column.", style="dim")
        unscored = [str(k) for k in self.results.sizes if not at_sizes[k].queries]
        if unscored:
            yield Text(f"No user has a query at k = {', '.join(unscored)}: no stage counts these sizes.", style="dim")
        for sentence in filter(None, [*coverage_sentences(self.results), scales_sentence(self.results)]):
            yield Text(sentence)
