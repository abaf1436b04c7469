"""The report of a reproduction: one HTML file, the same in Markdown, tables for LaTeX, and figures as files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from resus.files import write_text
from resus.paper.cells.records import Cell, Trial
from resus.paper.cells.summary import Summary
from resus.paper.claims import CLAIMS
from resus.paper.claims.judging import Outcome, Ruling, not_run, rule
from resus.paper.comparisons import Comparison
from resus.paper.published import paper
from resus.paper.questions import ABLATIONS, QUESTIONS, STAGES, data_set_label
from resus.paper.report.accuracy_tables import beyond_table, table_3, table_4, table_5
from resus.paper.report.figures import convergence_figure, noise_figure, save_figure, size_figure
from resus.paper.report.tables import (
    Material,
    fixed_table,
    noise_table,
    population_table,
    search_table,
    significance_table,
    table_6,
    verdict_table,
)
from resus.paper.report.tabular import ReportTable, as_latex, as_markdown, markdown_text
from resus.report.figures import svg_element

TITLES = {True: "The paper's section 5, reproduced", False: "Beyond the paper: RESUS+"}
VERDICT_NOTE = (
    "Every verdict is computed from the tables below. Differences are over the seeds that both methods have. “By its "
    "own numbers” is the result of the same check on the numbers that the paper prints."
)
METHOD = (
    "Users are split 7:2:1 at random by seed; no method trains on a test user. A user's first k events are the "
    "support, every later event is a query. A stage is the unweighted mean over its support sizes.",
    "With one seed, all methods answer the same queries of the same test users. Each seed draws new test users, so "
    "methods are compared seed by seed.",
    "AUC ranks the queries of all users in one list, so it also rewards knowing which users click a lot. GAUC ranks "
    "inside each user. If AUC rises but GAUC does not, the method has only learned who clicks a lot, not what each "
    "user likes.",
    "RelaImpr = ((AUC − 0.5) / (AUC of the base − 0.5) − 1) · 100 %, of mean AUCs.",
    "Calibration error is the mean distance between predicted and observed click rate over 20 bins of equal mass.",
    "Hyperparameters are chosen on validation users only.",
)


@dataclass(frozen=True)
class Picture:
    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """One research question. `remarks` say which data sets have nothing to show, and why."""

    name: str
    title: str
    asks: str
    remarks: tuple[str, ...]
    tables: tuple[ReportTable, ...]
    pictures: tuple[Picture, ...]
    rulings: tuple[Ruling, ...]


@dataclass(frozen=True)
class Report:
    """What both pages show."""

    title: str
    lead: str
    facts: Mapping[str, str]
    verdicts: ReportTable
    sections: Sequence[Section]
    appendix: Sequence[ReportTable]


def write_reproduction(
    folder: Path,
    cells: Sequence[Cell],
    comparisons: Sequence[Comparison],
    *,
    questions: Sequence[str],
    labels: Mapping[str, str],
    trials: Sequence[Trial],
    facts: Mapping[str, str],
    missing: Mapping[str, str],
) -> list[Path]:
    """Write report.html, report.md, tables/*.tex and figures/*. Each file is whole or absent; the report comes last."""
    material = Material(Summary(cells), comparisons, labels, missing)
    claims = [claim for claim in CLAIMS if claim.question in questions]
    rulings = rule(claims, material.summary, paper(), material.data_sets, comparisons, labels, missing)
    sections = [_section(material, name, questions, rulings) for name in QUESTIONS if name in questions]
    report = Report(
        title=TITLES[any(section.name != "beyond" for section in sections)],
        lead=_lead(rulings, material.data_sets),
        facts=facts,
        verdicts=verdict_table(rulings, material.data_sets),
        sections=sections,
        appendix=_appendix(material, sections, trials),
    )
    written = []
    for table in [report.verdicts, *(table for section in sections for table in section.tables), *report.appendix]:
        written.append(folder / "tables" / f"{table.name}.tex")
        write_text(written[-1], as_latex(table))
    for picture in (picture for section in sections for picture in section.pictures):
        written += save_figure(picture.figure, folder / "figures", picture.name)
    for name, text in {"report.md": _markdown(report), "report.html": _html(report, material.data_sets)}.items():
        written.append(folder / name)
        write_text(written[-1], text)
    return written


def _section(material: Material, name: str, asked: Sequence[str], rulings: Sequence[Ruling]) -> Section:
    question = QUESTIONS[name]
    remarks, tables = [], []
    for data_set in material.data_sets:
        found = _tables(material, name, asked, data_set)
        if not found and name == "rq3" and "rq2" in asked:
            continue  # rq2 already says so
        if not found:
            reason = not_run(data_set, material.missing)
            if material.summary.methods(data_set):
                reason = "not run: time does not order its events" if name == "rq4" else "not run"
            remarks.append(f"{data_set_label(data_set)}: {reason}.")
        tables += found
    if name == "rq3" and "rq2" in asked:
        remarks.append("The rows with boosting are in table 5, above.")
    return Section(
        name,
        question.title,
        question.asks,
        tuple(remarks),
        tuple(tables),
        tuple(_pictures(material, name)),
        tuple(ruling for ruling in rulings if ruling.claim.question == name),
    )


def _tables(material: Material, question: str, asked: Sequence[str], data_set: str) -> list[ReportTable]:
    """Empty if a data set has neither our numbers nor the paper's. Table 5 answers two questions and comes once."""
    run = set(material.summary.methods(data_set)) & set(QUESTIONS[question].methods)
    found: list[ReportTable] = []
    if question == "rq1" and (run or data_set in paper().tables[3]):
        found.append(table_3(material, data_set))
    if question == "rq2" and (run or data_set in paper().tables[4]):
        found.append(table_4(material, data_set))
    first = question == "rq2" or (question == "rq3" and "rq2" not in asked)
    if first and (run or data_set in paper().tables[5]):
        found += [table_5(material, data_set, stage, boosting="rq3" in asked) for stage in STAGES]
    if question == "rq4" and any(material.summary.noise(data_set, method) for method in run):
        found.append(noise_table(material, data_set))
    if question == "beyond" and run:
        found.append(beyond_table(material, data_set))
    if question == "rq5" and (run or data_set in paper().timed):
        found.append(table_6(material, data_set))
    return found


def _pictures(material: Material, question: str) -> list[Picture]:
    summary, data_sets, labels = material.summary, material.data_sets, material.labels
    drawn: list[tuple[str, str, Figure | None]] = []
    match question:
        case "rq1" | "beyond":
            methods = [method for method in QUESTIONS[question].methods if method not in ABLATIONS]
            drawn += [
                (
                    f"sizes-{name}" if question == "rq1" else f"{question}-sizes-{name}",
                    f"{data_set_label(name)}: AUC and GAUC by support size.",
                    size_figure(summary, name, labels, methods),
                )
                for name in data_sets
            ]
        case "rq4":
            caption = "Figure 4: AUC and Logloss as the support gets farther from the query."
            drawn.append(("figure4", caption, noise_figure(summary, data_sets, labels)))
        case "rq5":
            caption = "Figure 5: validation AUC by epoch of training, without pretraining."
            drawn.append(("figure5", caption, convergence_figure(summary, data_sets, labels)))
    return [Picture(name, caption, figure) for name, caption, figure in drawn if figure is not None]


def _appendix(material: Material, sections: Sequence[Section], trials: Sequence[Trial]) -> list[ReportTable]:
    methods = list(dict.fromkeys(method for section in sections for method in QUESTIONS[section.name].methods))
    fixed = [fixed_table(material, data_set, methods) for data_set in material.data_sets]
    found = [significance_table(material), population_table(material), *fixed, search_table(trials, material.labels)]
    return [table for table in found if table is not None]


def _lead(rulings: Sequence[Ruling], data_sets: Sequence[str]) -> str:
    """How many claims of the paper hold, for each data set."""
    sentences = []
    for data_set in data_sets:
        outcomes = [ruling.verdicts[data_set].outcome for ruling in rulings if not ruling.claim.ours]
        counts = {outcome: outcomes.count(outcome) for outcome in Outcome if outcome is not Outcome.UNTESTED}
        if any(counts.values()):
            listed = ", ".join(f"{outcome} {count}" for outcome, count in counts.items())
            tested = f"{sum(counts.values())} claims of the paper tested"
            sentences.append(f"{data_set_label(data_set)}: {tested}; {listed}.")
    return " ".join(sentences)


def _html(report: Report, data_sets: Sequence[str]) -> str:
    templates = ChoiceLoader([PackageLoader("resus.paper", "report"), PackageLoader("resus.report")])
    page = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
    page.filters |= {"svg": svg_element, "data_set_label": data_set_label}
    return page.get_template("reproduction.html.j2").render(
        report=report,
        verdict_columns=[data_set_label(data_set) for data_set in data_sets],
        verdict_note=VERDICT_NOTE,
        method=METHOD,
    )


def _markdown(report: Report) -> str:
    facts = "\n".join(f"- {markdown_text(f'{name}: {fact}')}" for name, fact in report.facts.items())
    verdicts = as_markdown(report.verdicts).partition("\n\n")[2]  # without the caption, which the heading says
    parts = [f"# {report.title}", report.lead, facts, "## Verdicts", verdicts, VERDICT_NOTE]
    for section in report.sections:
        parts += [f"## {section.title}", f"*{section.asks}*", *section.remarks]
        parts += [as_markdown(table) for table in section.tables]
        for picture in section.pictures:
            parts.append(f"![{picture.caption}](figures/{picture.name}.png)\n\n*{picture.caption}*")
        parts += ["### Claims", "\n".join(line for ruling in section.rulings for line in _ruling(ruling))]
    parts += ["## Details", *(as_markdown(table) for table in report.appendix)]
    parts += ["## How it is measured", "\n".join(f"- {line}" for line in METHOD)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _ruling(ruling: Ruling) -> list[str]:
    own = " (our own claim)" if ruling.claim.ours else ""
    return [
        f"- {markdown_text(ruling.claim.words)}{own}",
        *(
            f"  - {data_set_label(data_set)}: **{markdown_text(verdict.words)}**. {markdown_text(verdict.evidence)}"
            for data_set, verdict in ruling.verdicts.items()
        ),
    ]
