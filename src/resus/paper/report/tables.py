"""Tables of the reproduction: verdicts, times, noise levels, significance, populations and hyperparameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from resus.paper.cells.records import Trial
from resus.paper.cells.summary import Population, Spread, Summary
from resus.paper.claims.judging import Ruling, not_run, p_text
from resus.paper.comparisons import Comparison, find_comparison
from resus.paper.published import Times, paper
from resus.paper.questions import DATA_SET_LABELS, QUESTIONS, STAGES, data_set_label
from resus.paper.report.tabular import Entry, Group, ReportColumn, ReportTable, Row, marked
from resus.report.words import size_range

NONE = Entry("–")
MARKS = "Bold is best, underlined second."


@dataclass(frozen=True)
class Material:
    """What tables are made from. `missing` says why a data set was not run."""

    summary: Summary
    comparisons: Sequence[Comparison]
    labels: Mapping[str, str]
    missing: Mapping[str, str]

    @property
    def data_sets(self) -> list[str]:
        """Data sets with cells and data sets known to be missing. Those of the paper come first, in its order."""
        known = [*self.summary.data_sets, *self.missing]
        return sorted(
            dict.fromkeys(known), key=lambda name: (name not in DATA_SET_LABELS, [*DATA_SET_LABELS, name].index(name))
        )

    def label(self, method: str) -> str:
        return self.labels.get(method, method)

    def stage_title(self, data_set: str, stage: str) -> str:
        sizes = self.summary.stage_sizes(data_set).get(stage)
        return f"Stage {stage} · {size_range(sizes)} events" if sizes else f"Stage {stage}"


def verdict_table(rulings: Sequence[Ruling], data_sets: Sequence[str]) -> ReportTable:
    """All claims at a glance. It also says where the numbers of the paper itself do not support a claim."""
    rows = []
    for ruling in rulings:
        doubts = [
            f"{data_set_label(data_set)} {verdict.words}"
            for data_set, verdict in ruling.on_paper.items()
            if verdict.outcome != "holds"
        ]
        where = "our own claim" if ruling.claim.ours else f"section {ruling.claim.where}"
        where += f" (by its own numbers: {'; '.join(doubts)})" if doubts else ""
        texts = [where, *(ruling.verdicts[name].words for name in data_sets)]
        rows.append(Row(ruling.claim.words, tuple(map(Entry, texts))))
    columns = [
        ReportColumn("paper", words=True),
        *(ReportColumn(data_set_label(name), words=True) for name in data_sets),
    ]
    return ReportTable("verdicts", "Verdicts", "claim", tuple(columns), (Group("", tuple(rows)),))


def table_6(material: Material, data_set: str) -> ReportTable:
    """Times, and the accuracy they buy. The fastest is best."""
    methods = QUESTIONS["rq5"].methods
    timings = {method: material.summary.timing(data_set, method) for method in methods}
    training = marked(
        {method: t.times.training + t.times.pretraining if t else None for method, t in timings.items()},
        _seconds,
        lowest=True,
    )
    test = marked({method: t.times.test if t else None for method, t in timings.items()}, _seconds, lowest=True)
    rows = []
    for method, timing in timings.items():
        printed = paper().times(data_set, method)
        aucs, gaucs = (
            [v for s in STAGES if (v := material.summary.value(data_set, method, s, metric)) is not None]
            for metric in ("auc", "gauc")
        )
        entries = [
            Entry(f"{timing.times.epochs:.3g}") if timing else Entry(not_run(data_set, material.missing)),
            Entry(f"{printed.epochs:.0f}") if printed else NONE,
            replace(training[method], text=_trained(timing.times)) if timing else NONE,
            Entry(_trained(printed)) if printed else NONE,
            test[method],
            Entry(_seconds(printed.test)) if printed else NONE,
            number(sum(aucs) / len(aucs) if aucs else None),
            number(sum(gaucs) / len(gaucs) if gaucs else None),
            Entry(", ".join(map(str, timing.threads))) if timing else NONE,
            Entry("alone" if timing.alone else "with other cells") if timing else NONE,
        ]
        rows.append(Row(material.label(method), tuple(entries)))
    columns = (
        ReportColumn("ours", "epochs"),
        ReportColumn("paper", "epochs"),
        ReportColumn("ours", "training, s (+ pretraining)"),
        ReportColumn("paper", "training, s (+ pretraining)"),
        ReportColumn("ours", "test, all sizes, s"),
        ReportColumn("paper", "test, all sizes, s"),
        ReportColumn("AUC", "mean of the stages"),
        ReportColumn("GAUC", "mean of the stages"),
        ReportColumn("threads"),
        ReportColumn("measured"),
    )
    note = (
        f"{MARKS} Training counts pretraining. RESUS passes every row through two networks, Ψ and Φ; LWA and NLBA need "
        "one. The row of DeepFM, which is Ψ alone, shows the cost of one. The paper's times come from a GPU server: "
        "compare ratios only."
    )
    caption = f"Table 6, {data_set_label(data_set)}: epochs and seconds."
    return ReportTable(f"table6-{data_set}", caption, "method", columns, (Group("", tuple(rows)),), (note,))


def noise_table(material: Material, data_set: str) -> ReportTable:
    """The numbers of figure 4. Best and second are within a level."""
    methods = QUESTIONS["rq4"].methods
    levels = {method: material.summary.noise(data_set, method) for method in methods}
    height = max(map(len, levels.values()))
    rows_of: dict[str, list[Row]] = {method: [] for method in methods}
    for level in range(height):
        present = {method: found[level] for method, found in levels.items() if len(found) > level}
        columns = [
            marked({m: getattr(noise, metric) for m, noise in present.items()}, digits, lowest=metric == "logloss")
            for metric in ("auc", "gauc", "logloss")
        ]
        for method, noise in present.items():
            entries = (Entry(f"{noise.distance:.3g}"), *(column[method] for column in columns))
            rows_of[method].append(Row(_fifth(level, height), entries))
    absent = Row("not run" if material.summary.methods(data_set) else not_run(data_set, material.missing), (NONE,) * 4)
    return ReportTable(
        f"figure4-{data_set}",
        f"Figure 4 in numbers, {data_set_label(data_set)}: support of one fifth, by distance to the query.",
        "support",
        (ReportColumn("mean distance"), ReportColumn("AUC"), ReportColumn("GAUC"), ReportColumn("Logloss")),
        tuple(Group(material.label(name), tuple(rows) or (absent,)) for name, rows in rows_of.items()),
        (f"{MARKS} The paper prints a figure only, no numbers.",),
    )


def significance_table(material: Material) -> ReportTable | None:
    """One row per pair of methods and metric, with the stages side by side. None if nothing was compared."""
    groups = []
    for data_set in material.data_sets:
        own = [each for each in material.comparisons if each.data_set == data_set]
        rows = []
        for method, against, metric in dict.fromkeys((each.method, each.against, each.metric) for each in own):
            found = [find_comparison(own, data_set, method, against, stage, metric) for stage in STAGES]
            seeds = max(len(each.seeds) for each in found if each) if any(found) else 0
            entries = [entry for each in found for entry in _compared(each)]
            pair = f"{material.label(method)} over {material.label(against)}"
            rows.append(Row(pair, (Entry(metric.upper()), *entries, Entry(str(seeds)))))
        if rows:
            groups.append(Group(data_set_label(data_set), tuple(rows)))
    if not groups:
        return None
    titles = ("difference", "95 % interval", "p, t-test", "p, bootstrap")
    columns = [ReportColumn(title, f"stage {stage}") for stage in STAGES for title in titles]
    note = (
        "Mean differences over seeds. The t-test is over seeds. The interval and p of the bootstrap are over users. "
        "Each draw takes the same users for both methods."
    )
    return ReportTable(
        "significance",
        "Significance of differences.",
        "method",
        (ReportColumn("metric"), *columns, ReportColumn("seeds")),
        tuple(groups),
        (note,),
    )


def _compared(comparison: Comparison | None) -> list[Entry]:
    if comparison is None:
        return [NONE] * 4
    low, high = comparison.low, comparison.high
    p_values = [NONE if p is None else Entry(p_text(p)) for p in (comparison.p_ttest, comparison.p_bootstrap)]
    interval = NONE if low is None or high is None else Entry(f"{low:+.4f} to {high:+.4f}")
    return [number(comparison.difference, "{:+.4f}"), interval, *p_values]


def population_table(material: Material) -> ReportTable:
    rows = []
    for data_set in material.data_sets:
        found = [(f"k = {each.size}", each) for each in material.summary.populations(data_set)]
        fixed = material.summary.fixed_population(data_set)
        found += [(f"more than {fixed.size} events", fixed)] if fixed else []
        for name, population in found:
            rows.append(Row(data_set_label(data_set), (Entry(name), *_counts(population))))
        if not found:
            rows.append(Row(data_set_label(data_set), (Entry(not_run(data_set, material.missing)), NONE, NONE)))
    return ReportTable(
        "populations",
        "Populations: test users that have a query after k events, and their queries.",
        "data set",
        (ReportColumn("users with"), ReportColumn("users"), ReportColumn("queries")),
        (Group("", tuple(rows)),),
        ("Ranges are over seeds. Each seed draws its own test users.",),
    )


def fixed_table(material: Material, data_set: str, methods: Sequence[str]) -> ReportTable | None:
    """AUC and GAUC on queries that are the same at every size. None if no user has enough events."""
    population = material.summary.fixed_population(data_set)
    if population is None:
        return None
    entries: dict[str, list[Entry]] = {method: [] for method in methods if material.summary.seeds(data_set, method)}
    columns = []
    for metric in ("auc", "gauc"):
        for stage in STAGES:
            columns.append(ReportColumn(f"{stage}", metric.upper()))
            spreads = {method: material.summary.fixed(data_set, method, stage, metric) for method in entries}
            for method, entry in spread_entries(spreads).items():
                entries[method].append(entry)
    users, queries = (entry.text for entry in _counts(population))
    return ReportTable(
        f"fixed-{data_set}",
        f"The fixed population of {data_set_label(data_set)}: {users} users with more than {population.size} events, "
        f"the same {queries} queries at every size.",
        "method",
        tuple(columns),
        (Group("", tuple(Row(material.label(method), tuple(row)) for method, row in entries.items())),),
        (f"{MARKS} Mean ± standard deviation over seeds.",),
    )


def search_table(trials: Sequence[Trial], labels: Mapping[str, str]) -> ReportTable | None:
    """Every point tried on validation users, the chosen one marked. None if nothing was searched."""
    by_method: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials:
        by_method.setdefault(trial.data_set, {}).setdefault(trial.method, []).append(trial)
    groups = []
    for data_set, methods in by_method.items():
        rows = []
        for method, tried in methods.items():
            chosen = max(tried, key=lambda trial: trial.validation_auc)
            for trial in tried:
                point = ", ".join(f"{key} = {value}" for key, value in trial.point.items())
                score = Entry(f"{trial.validation_auc:.4f}", "best" if trial is chosen else "")
                mark = Entry("✓" if trial is chosen else "")
                rows.append(Row(labels.get(method, method), (Entry(point), score, mark, Entry(f"{trial.seconds:.0f}"))))
        groups.append(Group(data_set_label(data_set), tuple(rows)))
    if not groups:
        return None
    columns = (
        ReportColumn("point", words=True),
        ReportColumn("validation AUC"),
        ReportColumn("chosen"),
        ReportColumn("seconds"),
    )
    caption = "Hyperparameters tried, on validation users only."
    return ReportTable("searches", caption, "method", columns, tuple(groups))


def spread_entries(spreads: Mapping[str, Spread | None], *, lowest: bool = False) -> dict[str, Entry]:
    """Means with their deviations, best and second marked."""
    entries = marked({name: spread.mean if spread else None for name, spread in spreads.items()}, digits, lowest=lowest)
    return {
        name: replace(entry, text=f"{entry.text} ± {spread.deviation:.4f}")
        if (spread := spreads[name]) and spread.deviation is not None
        else entry
        for name, entry in entries.items()
    }


def digits(value: float) -> str:
    return f"{value:.4f}"


def number(value: float | None, form: str = "{:.4f}") -> Entry:
    return NONE if value is None else Entry(form.format(value))


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value < 100 and value % 1 else f"{value:.0f}"


def _trained(times: Times) -> str:
    return _seconds(times.training) + (f" (+{_seconds(times.pretraining)})" if times.pretraining else "")


def _fifth(level: int, height: int) -> str:
    return {0: "nearest fifth", height - 1: "farthest fifth"}.get(level, f"fifth {level + 1}")


def _counts(population: Population) -> tuple[Entry, Entry]:
    return _range(*population.users), _range(*population.queries)


def _range(least: int, most: int) -> Entry:
    return Entry(f"{least:,}" if least == most else f"{least:,} – {most:,}")
