"""Tables 3, 4 and 5 and the table of RESUS+: AUC and GAUC side by side, significant differences marked."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from resus.paper.claims.judging import not_run, significant
from resus.paper.comparisons import Comparison, find_comparison
from resus.paper.published import TableNumber, architecture_of, base_of, paper
from resus.paper.questions import (
    ARCHITECTURES,
    BOOSTED,
    JOINT,
    PAPER_RIVALS,
    PLUS,
    PROPOSED,
    QUESTIONS,
    STAGES,
    TABLE_4,
    data_set_label,
    resus_on,
)
from resus.paper.report.tables import MARKS, NONE, Material, number, spread_entries
from resus.paper.report.tabular import Entry, Group, ReportColumn, ReportTable, Row

STARS = "* RESUS beats {} with p < 0.05 in the t-test over seeds, † in the bootstrap over users."
SEEDS = "Ours: mean ± standard deviation over seeds. RelaImpr is over the seeds that a method shares with its base."
UNEVEN = "Some methods ran with other seeds than others, so with other test users: do not compare their means."
BEYOND = (
    "Mean ± standard deviation over seeds. Differences are over the seeds that both methods have. The method and "
    "RESUS+ differ with p < 0.05: * in the t-test over seeds, † in the bootstrap over users (if it was drawn)."
)
LOWER_IS_BETTER = {"auc": False, "gauc": False, "logloss": True, "calibration_error": True}
Stars = Callable[[str, str, str], str]  # method, stage and metric → marks


def table_3(material: Material, data_set: str) -> ReportTable:
    return _beside_the_paper(
        material,
        3,
        f"table3-{data_set}",
        f"Table 3, {data_set_label(data_set)}: all methods, by cold-start stage.",
        data_set,
        [(material.stage_title(data_set, stage), stage, QUESTIONS["rq1"].methods) for stage in STAGES],
        rivals=lambda method: PAPER_RIVALS if method in PROPOSED else (),
        rival="the best rival of the paper",
    )


def table_4(material: Material, data_set: str) -> ReportTable:
    return _beside_the_paper(
        material,
        4,
        f"table4-{data_set}",
        f"Table 4, {data_set_label(data_set)}: the shared predictor Ψ and its pretraining.",
        data_set,
        [(material.stage_title(data_set, stage), stage, TABLE_4) for stage in STAGES],
        rivals=lambda method: (JOINT[method],) if method in JOINT else (),
        rival="itself without pretraining",
    )


def table_5(material: Material, data_set: str, stage: str, *, boosting: bool) -> ReportTable:
    """One stage, with one block per architecture. Best and second are within a block."""
    groups = []
    for kind in ARCHITECTURES:
        boosted = [f"boosted-{kind}"] if boosting and kind in BOOSTED else []
        groups.append((material.label(kind), stage, (kind, *boosted, resus_on("nn", kind), resus_on("rr", kind))))
    title = material.stage_title(data_set, stage)
    return _beside_the_paper(
        material,
        5,
        f"table5-{data_set}-{stage}",
        f"Table 5, {data_set_label(data_set)}, {title[0].lower()}{title[1:]}: architectures of Ψ"
        + (" and gradient boosting." if boosting else "."),
        data_set,
        groups,
        rivals=lambda method: (architecture_of(method),) if method.startswith("resus-") else (),
        rival="its Ψ",
    )


def beyond_table(material: Material, data_set: str) -> ReportTable:
    """RESUS+ next to its Ψ, what practitioners use, the paper's RESUS, and itself without each of its parts."""

    def stars(method: str, stage: str, metric: str) -> str:
        return _marks(find_comparison(material.comparisons, data_set, PLUS, method, stage, metric))

    def gain(method: str, stage: str, metric: str) -> Entry:
        pair = material.summary.pair(data_set, method, "deepfm", stage, metric)
        return NONE if method == "deepfm" or pair is None else number(pair[0] - pair[1], "{:+.4f}")

    methods = [method for method in QUESTIONS["beyond"].methods if material.summary.seeds(data_set, method)]
    groups = []
    for stage in STAGES:
        entries = _entries(material, data_set, stage, methods, stars)
        rows = [
            Row(
                material.label(method),
                (
                    *(entries[metric][method] for metric in LOWER_IS_BETTER),
                    *(gain(method, stage, metric) for metric in ("auc", "gauc", "logloss")),
                    Entry(str(len(material.summary.seeds(data_set, method)))),
                ),
            )
            for method in methods
        ]
        groups.append(Group(material.stage_title(data_set, stage), tuple(rows)))
    over = f"over {material.label('deepfm')}"
    columns = (
        *(ReportColumn(title) for title in ("AUC", "GAUC", "Logloss", "calibration error")),
        *(ReportColumn(title, over) for title in ("AUC", "GAUC", "Logloss")),
        ReportColumn("seeds"),
    )
    caption = f"{data_set_label(data_set)}: RESUS+ and its parts, by cold-start stage."
    return ReportTable(f"beyond-{data_set}", caption, "method", columns, tuple(groups), (f"{MARKS} {BEYOND}",))


def _beside_the_paper(
    material: Material,
    table: TableNumber,
    name: str,
    caption: str,
    data_set: str,
    groups: Sequence[tuple[str, str, Sequence[str]]],
    *,
    rivals: Callable[[str], Sequence[str]],
    rival: str,
) -> ReportTable:
    """Our numbers next to those of the paper. A group is a title, a stage and its methods."""

    def stars(method: str, stage: str, metric: str) -> str:
        return _stars(material, data_set, method, rivals(method), stage, metric)

    base = {3: material.label("lwa"), 4: material.label("mus"), 5: "Ψ"}[table]
    over_predictor = table == 3
    columns = [
        ReportColumn("AUC", "ours"),
        ReportColumn("GAUC", "ours"),
        ReportColumn("AUC", "paper"),
        ReportColumn("difference", "paper"),
        ReportColumn(f"over {base}", "RelaImpr"),
        ReportColumn("paper", "RelaImpr"),
        *([ReportColumn(f"over {material.label('deepfm')}", "RelaImpr")] if over_predictor else []),
        ReportColumn("ours", "Logloss"),
        ReportColumn("paper", "Logloss"),
        ReportColumn("calibration error"),
        ReportColumn("seeds"),
    ]
    blocks = []
    for title, stage, methods in groups:
        ours = _entries(material, data_set, stage, methods, stars)
        rows = []
        for method in methods:
            printed = paper().printed(data_set, method, stage, table)
            own = material.summary.value(data_set, method, stage, "auc")
            seeds = len(material.summary.seeds(data_set, method))
            entries = [
                ours["auc"][method] if seeds else Entry(not_run(data_set, material.missing)),
                ours["gauc"][method],
                number(printed.auc if printed else None),
                number(own - printed.auc if own is not None and printed else None, "{:+.4f}"),
                _percent(material.summary.rela_impr(data_set, method, stage, base_of(table, method))),
                _percent(printed.rela_impr if printed else None),
                *([_percent(material.summary.rela_impr(data_set, method, stage, "deepfm"))] if over_predictor else []),
                ours["logloss"][method],
                number(printed.logloss if printed else None),
                ours["calibration_error"][method],
                Entry(str(seeds)) if seeds else NONE,
            ]
            rows.append(Row(material.label(method), tuple(entries)))
        blocks.append(Group(title, tuple(rows)))
    run = {tuple(found) for _, _, group in groups for m in group if (found := material.summary.seeds(data_set, m))}
    notes = (f"{MARKS} {STARS.format(rival)} {SEEDS}", *([UNEVEN] if len(run) > 1 else []))
    return ReportTable(name, caption, "method", tuple(columns), tuple(blocks), notes)


def _entries(
    material: Material, data_set: str, stage: str, methods: Sequence[str], stars: Stars
) -> dict[str, dict[str, Entry]]:
    """By metric and method: the mean over seeds, best and second marked, AUC and GAUC with stars."""
    found = {}
    for metric, lowest in LOWER_IS_BETTER.items():
        spreads = {method: material.summary.stage(data_set, method, stage, metric) for method in methods}
        entries = spread_entries(spreads, lowest=lowest)
        if not lowest:
            entries = {method: replace(entry, stars=stars(method, stage, metric)) for method, entry in entries.items()}
        found[metric] = entries
    return found


def _stars(material: Material, data_set: str, method: str, rivals: Sequence[str], stage: str, metric: str) -> str:
    """Against the best of the rivals that the method was compared with."""
    found = {
        rival: comparison
        for rival in rivals
        if (comparison := find_comparison(material.comparisons, data_set, method, rival, stage, metric))
    }
    if not found:
        return ""
    values = {rival: material.summary.value(data_set, rival, stage, metric) or 0.0 for rival in found}
    best = found[max(values, key=lambda rival: values[rival])]
    return _marks(best) if best.difference > 0 else ""


def _marks(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    return ("*" if significant(comparison.p_ttest) else "") + ("†" if significant(comparison.p_bootstrap) else "")


def _percent(value: float | None) -> Entry:
    return number(value, "{:+.1f}%")
