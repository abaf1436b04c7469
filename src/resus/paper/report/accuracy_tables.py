"""Tables 3, 4 and 5: AUC and GAUC side by side, the paper's numbers beside ours, and where RESUS wins for certain."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from resus.evaluation.metrics import RELA_IMPR
from resus.paper.claims.terms import JOINT, RIVALS
from resus.paper.comparisons import Comparison
from resus.paper.published import STAGES, TableNumber, architecture_of, base_of, paper
from resus.paper.questions import ARCHITECTURES, BOOSTED, PROPOSED, QUESTIONS, resus_on
from resus.paper.report.tables import MARKS, NONE, Material, data_set_label, number, spread_entries
from resus.paper.report.tabular import Column, Entry, Group, Row, Table
from resus.paper.verdicts import find_comparison, not_run, significant

STARS = "* RESUS beats {} with p < 0.05 in the t-test over seeds, † in the bootstrap over users."
SEEDS = "Ours: mean ± standard deviation over seeds; RelaImpr is of the seeds that a method shares with its base."
UNEVEN = "Some methods have run with other seeds than others, so with other test users: their means do not compare."


def table_3(material: Material, data_set: str) -> Table:
    methods = QUESTIONS["rq1"].methods
    return _accuracy(
        material,
        3,
        f"table3-{data_set}",
        f"Table 3, {data_set_label(data_set)}: all methods, by cold-start stage.",
        data_set,
        [(material.stage_title(data_set, stage), stage, methods) for stage in STAGES],
        rivals=lambda method: RIVALS if method in PROPOSED else (),
        rival="the best rival of the paper",
    )


def table_4(material: Material, data_set: str) -> Table:
    methods = ("mus", "resus-nn-joint", "resus-nn", "resus-rr-joint", "resus-rr")
    return _accuracy(
        material,
        4,
        f"table4-{data_set}",
        f"Table 4, {data_set_label(data_set)}: the shared predictor Ψ and its pretraining.",
        data_set,
        [(material.stage_title(data_set, stage), stage, methods) for stage in STAGES],
        rivals=lambda method: (JOINT[method],) if method in JOINT else (),
        rival="itself without pretraining",
    )


def table_5(material: Material, data_set: str, stage: str, *, boosting: bool) -> Table:
    """One stage, a block per architecture; best and second are within a block."""
    groups = []
    for kind in ARCHITECTURES:
        boosted = [f"boosted-{kind}"] if boosting and kind in BOOSTED else []
        groups.append((material.label(kind), stage, (kind, *boosted, resus_on("nn", kind), resus_on("rr", kind))))
    title = material.stage_title(data_set, stage)
    return _accuracy(
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


def _accuracy(
    material: Material,
    table: TableNumber,
    name: str,
    caption: str,
    data_set: str,
    groups: Sequence[tuple[str, str, Sequence[str]]],
    *,
    rivals: Callable[[str], Sequence[str]],
    rival: str,
) -> Table:
    """Tables 3 to 5: AUC and GAUC side by side. A group is a title, a stage and its methods."""
    base = {3: material.label("lwa"), 4: material.label("mus"), 5: "Ψ"}[table]
    over_predictor = table == 3
    columns = [
        Column("AUC", "ours"),
        Column("GAUC", "ours"),
        Column("AUC", "paper"),
        Column("difference", "paper"),
        Column(f"over {base}", "RelaImpr"),
        Column("paper", "RelaImpr"),
        *([Column(f"over {material.label('deepfm')}", "RelaImpr")] if over_predictor else []),
        Column("ours", "Logloss"),
        Column("paper", "Logloss"),
        Column("calibration error"),
        Column("seeds"),
    ]
    blocks = []
    for title, stage, methods in groups:
        spreads = {
            metric: {method: material.summary.stage(data_set, method, stage, metric) for method in methods}
            for metric in ("auc", "gauc", "logloss", "calibration_error")
        }
        ours = {metric: spread_entries(of, lowest=metric not in ("auc", "gauc")) for metric, of in spreads.items()}
        rows = []
        for method in methods:
            printed = paper().printed(data_set, method, stage, table)
            own = spreads["auc"][method]
            ranking = {
                metric: replace(
                    ours[metric][method], stars=_stars(material, data_set, method, rivals(method), stage, metric)
                )
                for metric in ("auc", "gauc")
            }
            seeds = len(material.summary.seeds(data_set, method))
            entries = [
                ranking["auc"] if seeds else Entry(not_run(data_set, material.missing)),
                ranking["gauc"],
                number(printed.auc if printed else None),
                number(own.mean - printed.auc if own and printed else None, "{:+.4f}"),
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
    return Table(name, caption, "method", tuple(columns), tuple(blocks), notes)


def _stars(material: Material, data_set: str, method: str, rivals: Sequence[str], stage: str, metric: str) -> str:
    """Against the best of the rivals with which the method was compared."""
    found: dict[str, Comparison] = {}
    for rival in rivals:
        comparison = find_comparison(material.comparisons, data_set, method, rival, stage, metric)
        if comparison:
            found[rival] = comparison
    values = {rival: material.summary.value(data_set, rival, stage, metric) or 0.0 for rival in found}
    if not found:
        return ""
    best = found[max(values, key=lambda rival: values[rival])]
    if best.difference <= 0:
        return ""
    return ("*" if significant(best.p_ttest) else "") + ("†" if significant(best.p_bootstrap) else "")


def _percent(value: float | None) -> Entry:
    return Entry(RELA_IMPR.show(value))
