"""The gains over the base on a terminal: a row per model, a column per stage, one metric under the other."""

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from resus.evaluation.metrics import Measure
from resus.evaluation.results import Gain, Results
from resus.report.gains import GAIN_COLUMNS, difference_text, gain_sentence, gains_of, interval_text, verdict


@dataclass(frozen=True)
class GainTable:
    """A renderable that sets each interval beside its difference, or below it where the width asks for that."""

    results: Results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        results = self.results
        if results.gains is None or not results.contenders:
            return
        yield Text("")
        yield Text.assemble((f"gain over {results.base}", "bold"), f" (95 % of {results.gains.draws} draws over users)")
        yield Text("")
        on_one_line = self._table(" ")
        unbounded = options.update(max_width=10_000)  # a measure is otherwise cut to the width at hand
        fits = Measurement.get(console, unbounded, on_one_line).maximum <= options.max_width
        yield on_one_line if fits else self._table("\n")
        yield Text("")
        for model in results.contenders:
            yield Text(gain_sentence(results, model))
        yield Text("↑ higher is better, ↓ lower is better; ✓ better, ✗ worse: the interval leaves 0 out.", style="dim")

    def _table(self, between: str) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("model")
        for stage in self.results.stages:
            table.add_column(f"stage {stage}", no_wrap=True)
        for column in GAIN_COLUMNS:
            table.add_section()
            table.add_row(Text(f"{column.title} {'↑' if column.higher_is_better else '↓'}", style="italic"))
            gains = gains_of(self.results, column)
            for model in self.results.contenders:
                table.add_row(Text(model), *(_cell(gain, column, between) for gain in gains[model].values()))
        return table


def _cell(gain: Gain, column: Measure, between: str) -> Text:
    found = verdict(gain, column)
    parts = f"{difference_text(gain)} {found.mark or ' '}", interval_text(gain)
    return Text(between.join(parts).rstrip(), style="bold" if found.mark else "")
