"""RESUS+ beside its Ψ, practice, the paper's method, and itself without each of its parts."""

from dataclasses import replace

from resus.paper.comparisons import Comparison
from resus.paper.published import STAGES
from resus.paper.questions import PLUS, QUESTIONS
from resus.paper.report.tables import MARKS, NONE, Material, data_set_label, number, spread_entries
from resus.paper.report.tabular import Column, Entry, Group, Row, Table
from resus.paper.verdicts import find_comparison, significant

METRICS = ("auc", "gauc", "logloss", "calibration_error")
NOTE = (
    "Mean ± standard deviation over seeds; differences are over the seeds that both methods have. * and †: the method "
    "and RESUS+ differ with p < 0.05 in the t-test over seeds, † in the bootstrap over users, as far as it was drawn."
)


def beyond_table(material: Material, data_set: str) -> Table:
    """A group per stage; a difference that is no chance is marked."""
    methods = [method for method in QUESTIONS["beyond"].methods if material.summary.seeds(data_set, method)]
    groups = []
    for stage in STAGES:
        entries = {}
        for metric in METRICS:
            spreads = {method: material.summary.stage(data_set, method, stage, metric) for method in methods}
            entries[metric] = spread_entries(spreads, lowest=metric in ("logloss", "calibration_error"))
        rows = []
        for method in methods:
            marked = [
                replace(entries[metric][method], stars=_stars(_against_plus(material, data_set, method, stage, metric)))
                if metric in ("auc", "gauc")
                else entries[metric][method]
                for metric in METRICS
            ]
            gains = [_gain(material, data_set, method, stage, metric) for metric in ("auc", "gauc", "logloss")]
            seeds = Entry(str(len(material.summary.seeds(data_set, method))))
            rows.append(Row(material.label(method), (*marked, *gains, seeds)))
        groups.append(Group(material.stage_title(data_set, stage), tuple(rows)))
    over = f"over {material.label('deepfm')}"
    columns = (
        Column("AUC"),
        Column("GAUC"),
        Column("Logloss"),
        Column("calibration error"),
        Column("AUC", over),
        Column("GAUC", over),
        Column("Logloss", over),
        Column("seeds"),
    )
    caption = f"{data_set_label(data_set)}: RESUS+ and its parts, by cold-start stage."
    return Table(f"beyond-{data_set}", caption, "method", columns, tuple(groups), (f"{MARKS} {NOTE}",))


def _gain(material: Material, data_set: str, method: str, stage: str, metric: str) -> Entry:
    pair = material.summary.pair(data_set, method, "deepfm", stage, metric)
    return NONE if method == "deepfm" or pair is None else number(pair[0] - pair[1], "{:+.4f}")


def _against_plus(material: Material, data_set: str, method: str, stage: str, metric: str) -> Comparison | None:
    return find_comparison(material.comparisons, data_set, PLUS, method, stage, metric)


def _stars(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    return ("*" if significant(comparison.p_ttest) else "") + ("†" if significant(comparison.p_bootstrap) else "")
