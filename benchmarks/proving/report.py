"""The tables of the proving ground: who is how good, against whom RESUS+ wins, and what each row costs."""

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from benchmarks.planted import SIZES, WorldCell, share_closed
from benchmarks.proving.cells import ProvedCell
from benchmarks.proving.compare import CERTAIN, Comparison, best_shares, means_over_seeds, shares, with_shared_seeds
from benchmarks.proving.draws import DRAWS, METRICS
from benchmarks.proving.methods import ROWS, SHARED, label_of
from resus.evaluation.metrics import METRICS as ALL_METRICS
from resus.paper.questions import PLUS, data_set_label
from resus.paper.report.tabular import Entry, Group, ReportColumn, ReportTable, Row, as_markdown, marked

WORSE, BETTER = "*", "†"
NONE = Entry("–")
DIFFERENCES, COST = "differences", "cost"


def tables_of(cells: Sequence[ProvedCell], comparisons: Sequence[Comparison]) -> list[ReportTable]:
    """All tables of cells with one number of training users."""
    found = [won_table(cells, comparisons)]
    for data_set in dict.fromkeys(cell.data_set for cell in cells):
        own = with_shared_seeds([cell for cell in cells if cell.data_set == data_set])
        compared = [each for each in comparisons if each.data_set == data_set]
        found += [stage_table(own, compared), size_table(own), difference_table(own, compared)]
    return [table for table in [*found, cost_table(cells)] if table.groups[0].rows]


def won_table(cells: Sequence[ProvedCell], comparisons: Sequence[Comparison]) -> ReportTable:
    """Against whom RESUS+ wins, and how often each row is the best."""
    against, best, rows = shares(comparisons), best_shares(cells), []
    for method in methods_of(cells):
        entries = []
        for metric in METRICS:
            share = against.get((method, metric))
            entries += [
                Entry(f"{share.won}/{share.compared}") if share else NONE,
                Entry(f"{share.certainly_won}:{share.certainly_lost}") if share else NONE,
                Entry("{}/{}".format(*best[method, metric])) if (method, metric) in best else NONE,
            ]
        rows.append(Row(label_of(method), tuple(entries)))
    columns = tuple(
        ReportColumn(title, ALL_METRICS[metric].title) for metric in METRICS for title in ("ahead", "surely", "best")
    )
    note = (
        "Counts of data sets × stages, by means over seeds. Ahead: RESUS+ is better than the row. Surely: "
        f"better:worse with p < {CERTAIN} after Holm's correction over all rows and stages of one data set and metric. "
        "Best: the row is the best of all, RESUS+ without a part left aside."
    )
    return ReportTable("won", "Where RESUS+ wins.", "against", columns, (Group("", tuple(rows)),), (note,))


def stage_table(cells: Sequence[ProvedCell], comparisons: Sequence[Comparison]) -> ReportTable:
    """Means over seeds by metric and stage."""
    judged = {(each.against, each.metric, each.stage): each for each in comparisons}
    methods, stages = methods_of(cells), list(cells[0].stages)
    entries: dict[str, list[Entry]] = {method: [] for method in methods}
    for metric in METRICS:
        for stage in stages:
            means = means_over_seeds(cells, stage, metric)
            lowest = not ALL_METRICS[metric].higher_is_better
            shown = marked({method: means.get(method) for method in methods}, "{:.4f}".format, lowest=lowest)
            for method, entry in shown.items():
                stars = _stars(judged.get((method, metric, stage)))
                entries[method].append(Entry(entry.text, "best" if entry.mark == "best" else "", stars))
    columns = tuple(ReportColumn(stage, ALL_METRICS[metric].title) for metric in METRICS for stage in stages)
    users = {cell.test_users for cell in cells}
    seeds = sorted({cell.seed for cell in cells})
    averaged = f"Mean over {len(seeds)} seeds" if len(seeds) > 1 else f"Seed {seeds[0]}"
    note = (
        f"{averaged}, {' or '.join(f'{count:,}' for count in sorted(users))} test users each. "
        f"Bold: the best. {WORSE}: RESUS+ is better, {BETTER}: RESUS+ is worse (paired bootstrap over "
        f"users, {DRAWS:,} draws, Holm, p < {CERTAIN})."
    )
    return ReportTable(
        f"stages-{cells[0].data_set}",
        f"{data_set_label(cells[0].data_set)}, by stage.",
        "method",
        columns,
        (Group("", tuple(Row(label_of(method), tuple(found)) for method, found in entries.items())),),
        (note,),
    )


def size_table(cells: Sequence[ProvedCell]) -> ReportTable:
    """Means over seeds at one support size per stage."""
    methods, sizes = methods_of(cells), list(cells[0].sizes)
    entries: dict[str, list[Entry]] = {method: [] for method in methods}
    for metric in METRICS:
        for size in sizes:
            values = {}
            for method in methods:
                found = [getattr(cell.sizes[size], metric) for cell in cells if cell.method == method]
                values[method] = None if None in found else float(np.mean(found))
            for method, value in values.items():
                entries[method].append(NONE if value is None else Entry(f"{value:.4f}"))
    columns = tuple(ReportColumn(f"{size} events", ALL_METRICS[metric].title) for metric in METRICS for size in sizes)
    caption = f"{data_set_label(cells[0].data_set)}, at single support sizes."
    rows = tuple(Row(label_of(method), tuple(found)) for method, found in entries.items())
    return ReportTable(f"sizes-{cells[0].data_set}", caption, "method", columns, (Group("", rows),))


def difference_table(cells: Sequence[ProvedCell], comparisons: Sequence[Comparison]) -> ReportTable:
    """RESUS+ minus every other row, with the p-value."""
    stages = list(cells[0].stages)
    judged = {(each.against, each.metric, each.stage): each for each in comparisons}
    rows = []
    for method in dict.fromkeys(each.against for each in comparisons):
        found = [judged.get((method, metric, stage)) for metric in METRICS for stage in stages]
        rows.append(Row(label_of(method), tuple(NONE if each is None else Entry(_difference(each)) for each in found)))
    columns = tuple(ReportColumn(stage, ALL_METRICS[metric].title) for metric in METRICS for stage in stages)
    caption = f"{data_set_label(cells[0].data_set)}: RESUS+ minus the row, p after Holm's correction."
    return ReportTable(f"{DIFFERENCES}-{cells[0].data_set}", caption, "against", columns, (Group("", tuple(rows)),))


def cost_table(cells: Sequence[ProvedCell]) -> ReportTable:
    """Seconds and memory of each row on each data set."""
    data_sets = list(dict.fromkeys(cell.data_set for cell in cells))
    rows = []
    for method in methods_of(cells):
        entries = []
        for data_set in data_sets:
            own = [cell for cell in cells if (cell.data_set, cell.method) == (data_set, method)]
            entries.append(Entry(_cost(own)) if own else NONE)
        rows.append(Row(label_of(method), tuple(entries)))
    threads = sorted({cell.threads for cell in cells})
    note = (
        "Seconds to train the shared model + the rest, seconds to score all support sizes of all test users, and peak "
        f"memory; means over seeds. Cells ran with {' or '.join(map(str, threads))} thread(s), some side by side. "
        "Cross-fitted logits count in full for each row that needs them."
    )
    columns = tuple(ReportColumn(data_set_label(data_set)) for data_set in data_sets)
    return ReportTable(COST, "What it costs.", "method", columns, (Group("", tuple(rows)),), (note,))


def planted_table(worlds: Sequence[WorldCell]) -> ReportTable:
    """How close RESUS+ comes to the best possible answer, by the number of users."""
    rows = []
    for users in sorted({world.users for world in worlds}):
        own = [world for world in worlds if world.users == users]
        shares = [Entry(f"{share_closed(own, size):.1%}") for size in SIZES]
        rows.append(Row(f"{users:,} users", (*shares, Entry(str(len(own))))))
    columns = (*(ReportColumn(f"{size} events", "closed after") for size in SIZES), ReportColumn("seeds"))
    caption = "Planted worlds: what RESUS+ closes of the gap that the exact posterior closes."
    note = "The gap in AUC is that between the best answer without and with knowledge of the user (crowd and oracle)."
    return ReportTable("planted", caption, "world", columns, (Group("", tuple(rows)),), (note,))


def methods_of(cells: Sequence[ProvedCell]) -> list[str]:
    """The rows that have cells, in the order of the table; others after them."""
    present = dict.fromkeys(cell.method for cell in cells)
    return [*(method for method in ROWS if method in present), *(method for method in present if method not in ROWS)]


def as_page(
    cells: Sequence[ProvedCell], comparisons: Sequence[Comparison], worlds: Sequence[WorldCell], *, whole: bool
) -> str:
    """The tables in Markdown, one section per number of training users; differences and cost only if `whole`."""
    parts = []
    for training_users in sorted({cell.training_users for cell in cells}, key=lambda number: -(number or 10**9)):
        own = [cell for cell in cells if cell.training_users == training_users]
        compared = [each for each in comparisons if each.training_users == training_users]
        parts.append(f"## {title_of(training_users)}\n")
        tables = tables_of(own, compared)
        parts += [as_markdown(table) for table in tables if whole or not table.name.startswith((DIFFERENCES, COST))]
    if worlds:
        parts += ["## Planted worlds\n", as_markdown(planted_table(worlds))]
    return "\n".join(parts)


def title_of(training_users: int | None) -> str:
    return "Seven tenths of the users train" if training_users is None else f"{training_users:,} users train"


def on_terminal(table: ReportTable) -> Table:
    """The same table for rich."""
    shown = Table(title=table.caption, caption=" ".join(table.notes) or None, caption_justify="left")
    shown.add_column(table.corner)
    spans = table.headings or [("", 1)] * len(table.columns)  # a terminal is narrow: one column per heading
    ends = np.cumsum([span for _, span in spans])
    for (heading, span), end in zip(spans, ends, strict=True):
        titles = " ".join(column.title for column in table.columns[end - span : end])
        shown.add_column(f"{heading}\n{titles}" if heading else titles)
    for row in (row for group in table.groups for row in group.rows):
        texts = [_on_terminal(entry) for entry in row.entries]
        cells = [" ".join(texts[end - span : end]) for (_, span), end in zip(spans, ends, strict=True)]
        shown.add_row(row.title, *cells, style="bold" if row.title == label_of(PLUS) else None)
    return shown


def _on_terminal(entry: Entry) -> str:
    text = entry.text.removeprefix("0") if entry.text.startswith("0.") else entry.text
    return f"[green]{text}[/]{entry.stars}" if entry.mark == "best" else text + entry.stars


def _stars(comparison: Comparison | None) -> str:
    if comparison is None or not comparison.certain:
        return ""
    return WORSE if comparison.wins else BETTER


def _difference(comparison: Comparison) -> str:
    p = comparison.p_holm
    shown = "" if p is None else " (p < 0.001)" if p < 0.001 else f" (p = {p:.3f})"
    return f"{comparison.difference:+.4f}{shown}".replace("-", "−")


def _cost(cells: Sequence[ProvedCell]) -> str:
    pretraining, training, scoring = (
        np.mean([getattr(cell.seconds, part) for cell in cells]) for part in ("pretraining", "training", "scoring")
    )
    if cells[0].method == SHARED:  # its training is that of the shared model
        pretraining, training = training, pretraining
    memory = max(cell.peak_bytes for cell in cells) / 1e9
    return f"{pretraining:.0f} + {training:.0f} s, {scoring:.1f} s, {memory:.1f} GB"
