"""A table as data, written as Markdown and as LaTeX (booktabs). The template of the page writes it as HTML."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Mark = Literal["", "best", "second"]

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
    "±": r"\ensuremath{\pm}",
    "−": r"\ensuremath{-}",
    "→": r"\ensuremath{\to}",
    "≤": r"\ensuremath{\le}",
    "Δ": r"\ensuremath{\Delta}",
    "Ψ": r"\ensuremath{\Psi}",
    "Φ": r"\ensuremath{\Phi}",
    "β": r"\ensuremath{\beta}",
    "†": r"\dag{}",
    "✓": r"\ensuremath{\surd}",
    "–": "--",
    "·": r"\textperiodcentered{}",
}


@dataclass(frozen=True)
class ReportColumn:
    """A title, under an optional heading that neighbouring columns share."""

    title: str
    heading: str = ""
    words: bool = False  # left-aligned and wrapped

    @property
    def full(self) -> str:
        return ": ".join(filter(None, (self.heading, self.title)))


@dataclass(frozen=True)
class Entry:
    text: str
    mark: Mark = ""
    stars: str = ""


@dataclass(frozen=True)
class Row:
    title: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Group:
    """Rows under one heading, or without a heading if the title is empty."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class ReportTable:
    """`name` is the name of its file. Every row has one entry per column."""

    name: str
    caption: str
    corner: str
    columns: tuple[ReportColumn, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in (row for group in self.groups for row in group.rows):
            assert len(row.entries) == len(self.columns), f"{self.name}: {row.title}"

    @property
    def headings(self) -> list[tuple[str, int]]:
        """Each heading and how many columns it spans. Empty if no column has a heading."""
        spans = [(name, len(list(members))) for name, members in groupby(column.heading for column in self.columns)]
        return spans if any(name for name, _ in spans) else []


def marked(
    values: Mapping[str, float | None], show: Callable[[float], str], *, lowest: bool = False
) -> dict[str, Entry]:
    """Entries with the best and the second best marked, judged by the digits shown."""
    present = {name: value for name, value in values.items() if value is not None}
    ranked = [show(value) for value in sorted(present.values(), reverse=not lowest)]
    places = list(dict.fromkeys(ranked)) if len(present) > 1 else []
    marks: dict[str, Mark] = {}
    if len(places) > 1:  # if all are equal, none is best
        marks = {places[0]: "best"}
        if ranked.count(places[0]) == 1:
            marks[places[1]] = "second"
    return {
        name: Entry("–") if value is None else Entry(show(value), marks.get(show(value), ""))
        for name, value in values.items()
    }


def as_markdown(table: ReportTable) -> str:
    """Markdown has only one heading line. The title of a group gets its own row."""
    lines = [f"**{markdown_text(table.caption)}**", ""] if table.caption else []
    lines.append(
        _markdown_row([markdown_text(table.corner), *(markdown_text(column.full) for column in table.columns)])
    )
    lines.append(_markdown_row([":--", *(":--" if column.words else "--:" for column in table.columns)]))
    for group in table.groups:
        if group.title:
            lines.append(_markdown_row([f"*{markdown_text(group.title)}*", *[""] * len(table.columns)]))
        lines += [
            _markdown_row([markdown_text(row.title), *(_markdown_entry(entry) for entry in row.entries)])
            for row in group.rows
        ]
    for note in table.notes:
        lines += ["", markdown_text(note)]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_entry(entry: Entry) -> str:
    text = markdown_text(entry.text)
    shown = {"": text, "best": f"**{text}**", "second": f"<u>{text}</u>"}[entry.mark]
    return shown + markdown_text(entry.stars)


def markdown_text(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", " ".join(text.split()))


def as_latex(table: ReportTable) -> str:
    r"""A table for \input. It needs the packages booktabs and graphicx."""
    width = len(table.columns) + 1
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{_latex(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{_latex_columns(table)}}}",
        r"\toprule",
        *_latex_headings(table),
        _latex_row([table.corner, *(column.title for column in table.columns)]),
        r"\midrule",
    ]
    for place, group in enumerate(table.groups):
        if place:
            lines.append(r"\midrule" if group.title else r"\addlinespace")
        if group.title:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{_latex(group.title)}}}}} \\")
        lines += [
            " & ".join([_latex(row.title), *(_latex_entry(entry) for entry in row.entries)]) + r" \\"
            for row in group.rows
        ]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    lines += [rf"\par\smallskip\footnotesize {_latex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_headings(table: ReportTable) -> list[str]:
    if not table.headings:
        return []
    cells, rules, place = [""], [], 2
    for heading, span in table.headings:
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{_latex(heading)}}}")
        if heading:
            rules.append(rf"\cmidrule(lr){{{place}-{place + span - 1}}}")
        place += span
    return [" & ".join(cells) + r" \\", " ".join(rules)]


def _latex_columns(table: ReportTable) -> str:
    wrapped = any(column.words for column in table.columns)
    return ("p{7cm}" if wrapped else "l") + "".join("p{4cm}" if column.words else "r" for column in table.columns)


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(_latex(text) for text in texts) + r" \\"


def _latex_entry(entry: Entry) -> str:
    text = _latex(entry.text)
    shown = {"": text, "best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}[entry.mark]
    return shown + (rf"\textsuperscript{{{_latex(entry.stars)}}}" if entry.stars else "")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
