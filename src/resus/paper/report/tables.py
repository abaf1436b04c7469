"""The tables of the reproduction: ours with the spread over seeds, the paper's number beside it, and the difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from resus.paper.claims.p_values import p_text
from resus.paper.comparisons import Comparison
from resus.paper.published import STAGES, Times, paper
from resus.paper.questions import DATA_SETS, QUESTIONS
from resus.paper.report.summary import Population, Spread, Summary
from resus.paper.report.tabular import Column, Entry, Group, Row, Table, marked, words
from resus.paper.verdicts import Ruling, find_comparison, not_run
from resus.report.words import size_range

NONE = Entry("–")
MARKS = "Bold is best, underlined second."


@dataclass(frozen=True)
class Material:
    """What tables are made from; `missing` says why a data set was not run."""

    summary: Summary
    comparisons: Sequence[Comparison]
    labels: Mapping[str, str]
    missing: Mapping[str, str]

    @property
    def data_sets(self) -> list[str]:
        """The paper's, in its order, then others; those with cells and those that are known to be missing."""
        known = [*self.summary.data_sets, *self.missing]
        return sorted(dict.fromkeys(known), key=lambda name: (name not in DATA_SETS, [*DATA_SETS, name].index(name)))

    def label(self, method: str) -> str:
        return self.labels.get(method, method)

    def stage_title(self, data_set: str, stage: str) -> str:
        sizes = self.summary.stage_sizes(data_set).get(stage)
        return f"Stage {stage} · {size_range(sizes)} events" if sizes else f"Stage {stage}"


def data_set_label(data_set: str) -> str:
    return DATA_SETS.get(data_set, data_set)


def verdict_table(rulings: Sequence[Ruling], data_sets: Sequence[str]) -> Table:
    """Every claim at a glance; where the paper's own numbers do not bear it out, that is said."""
    rows = []
    for ruling in rulings:
        doubts = [
            f"{data_set_label(data_set)} {verdict.words}"
            for data_set, verdict in ruling.on_paper.items()
            if verdict.outcome != "holds"
        ]
        where = "our own question" if ruling.claim.ours else f"section {ruling.claim.where}"
        where += f" (by its own numbers: {'; '.join(doubts)})" if doubts else ""
        rows.append(Row(ruling.claim.words, words([where, *(ruling.verdicts[name].words for name in data_sets)])))
    columns = [Column("paper", words=True), *(Column(data_set_label(name), words=True) for name in data_sets)]
    return Table("verdicts", "Verdicts", "claim", tuple(columns), (Group("", tuple(rows)),))


def table_6(material: Material, data_set: str) -> Table:
    """Times, beside what they buy; the fastest is best."""
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
            Entry("alone" if timing.alone else "beside other cells") if timing else NONE,
        ]
        rows.append(Row(material.label(method), tuple(entries)))
    columns = (
        Column("ours", "epochs"),
        Column("paper", "epochs"),
        Column("ours", "training, s (+ pretraining)"),
        Column("paper", "training, s (+ pretraining)"),
        Column("ours", "test, all sizes, s"),
        Column("paper", "test, all sizes, s"),
        Column("AUC", "mean of the stages"),
        Column("GAUC", "mean of the stages"),
        Column("threads"),
        Column("measured"),
    )
    note = (
        f"{MARKS} Training counts pretraining. RESUS passes every row through two networks, Ψ and Φ, where LWA and NLBA"
        " need one; the row of DeepFM, which is Ψ alone, shows what one costs. The paper's times are of a GPU server; "
        "compare them in ratio only."
    )
    caption = f"Table 6, {data_set_label(data_set)}: epochs and seconds."
    return Table(f"table6-{data_set}", caption, "method", columns, (Group("", tuple(rows)),), (note,))


def noise_table(material: Material, data_set: str) -> Table:
    """The numbers of figure 4; best and second are within a level."""
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
    return Table(
        f"figure4-{data_set}",
        f"Figure 4 in numbers, {data_set_label(data_set)}: support of one fifth, by distance to the query.",
        "support",
        (Column("mean distance"), Column("AUC"), Column("GAUC"), Column("Logloss")),
        tuple(Group(material.label(name), tuple(rows) or (absent,)) for name, rows in rows_of.items()),
        (f"{MARKS} The paper shows a figure only, so there is no number to set beside ours.",),
    )


def significance_table(material: Material) -> Table | None:
    """A row per pair of methods and metric, the stages side by side; none where nothing was compared."""
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
    columns = [Column(title, f"stage {stage}") for stage in STAGES for title in titles]
    note = (
        "Mean differences over seeds. The t-test is over seeds; the interval and the bootstrap's p are over users, "
        "redrawn in pairs."
    )
    return Table(
        "significance",
        "Significance of differences.",
        "method",
        (Column("metric"), *columns, Column("seeds")),
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


def population_table(material: Material) -> Table:
    rows = []
    for data_set in material.data_sets:
        found = [(f"k = {each.size}", each) for each in material.summary.populations(data_set)]
        fixed = material.summary.fixed_population(data_set)
        found += [(f"more than {fixed.size} events", fixed)] if fixed else []
        for name, population in found:
            rows.append(Row(data_set_label(data_set), (Entry(name), *_counts(population))))
        if not found:
            rows.append(Row(data_set_label(data_set), (Entry(not_run(data_set, material.missing)), NONE, NONE)))
    return Table(
        "populations",
        "Populations: test users that have a query after k events, and their queries.",
        "data set",
        (Column("users with"), Column("users"), Column("queries")),
        (Group("", tuple(rows)),),
        ("Ranges are over seeds, each of which draws its own test users.",),
    )


def fixed_table(material: Material, data_set: str, methods: Sequence[str]) -> Table | None:
    """AUC and GAUC where the queries are the same at every size; none where no user is that long."""
    population = material.summary.fixed_population(data_set)
    if population is None:
        return None
    entries: dict[str, list[Entry]] = {method: [] for method in methods if material.summary.seeds(data_set, method)}
    columns = []
    for metric in ("auc", "gauc"):
        for stage in STAGES:
            columns.append(Column(f"{stage}", metric.upper()))
            spreads = {method: material.summary.fixed(data_set, method, stage, metric) for method in entries}
            for method, entry in spread_entries(spreads).items():
                entries[method].append(entry)
    users, queries = (entry.text for entry in _counts(population))
    return Table(
        f"fixed-{data_set}",
        f"The fixed population of {data_set_label(data_set)}: {users} users with more than {population.size} events, "
        f"the same {queries} queries at every size.",
        "method",
        tuple(columns),
        (Group("", tuple(Row(material.label(method), tuple(row)) for method, row in entries.items())),),
        (f"{MARKS} Mean ± standard deviation over seeds.",),
    )


def search_table(searches: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> Table | None:
    """What was tried on validation users, the chosen point marked; none where nothing was searched."""
    groups = []
    for data_set in dict.fromkeys(line["data_set"] for line in searches):
        rows = []
        for method in dict.fromkeys(line["method"] for line in searches if line["data_set"] == data_set):
            tried = [line for line in searches if (line["data_set"], line["method"]) == (data_set, method)]
            chosen = max(tried, key=lambda line: line["validation_auc"])
            for line in tried:
                point = ", ".join(f"{key} = {value}" for key, value in line["point"].items())
                score = Entry(f"{line['validation_auc']:.4f}", "best" if line is chosen else "")
                entries = (Entry(point), score, Entry("✓" if line is chosen else ""), Entry(f"{line['seconds']:.0f}"))
                rows.append(Row(labels.get(method, method), entries))
        groups.append(Group(data_set_label(data_set), tuple(rows)))
    if not groups:
        return None
    columns = (Column("point", words=True), Column("validation AUC"), Column("chosen"), Column("seconds"))
    caption = "Hyperparameters tried, on validation users only."
    return Table("searches", caption, "method", columns, tuple(groups))


def spread_entries(spreads: Mapping[str, Spread | None], *, lowest: bool = False) -> dict[str, Entry]:
    """Means with their deviations, the best marked."""
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
