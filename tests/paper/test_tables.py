"""Tables say the numbers, mark the best, and are whole in Markdown and in LaTeX."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_cells import LEVELS, cells_of, comparison, every_cell, planted_cell, trial

from resus.paper.cells.records import Cell
from resus.paper.cells.summary import Summary
from resus.paper.claims.judging import Check, Claim, Ruling, verdict_of
from resus.paper.comparisons import Comparison
from resus.paper.questions import ABLATIONS, PLUS, QUESTIONS
from resus.paper.report.accuracy_tables import beyond_table, table_3, table_4, table_5
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
from resus.paper.report.tabular import Entry, Group, ReportColumn, ReportTable, Row, as_latex, as_markdown, marked

LABELS = {"resus-rr": "RESUS-RR", "meta-embedding": "Meta-Embedding", "wide-deep": "Wide&Deep"}
MISSING = {"taobao": "data not available"}


def material(cells: list[Cell], comparisons: list[Comparison] | None = None) -> Material:
    return Material(Summary(cells), comparisons or [], LABELS, MISSING)


def row(table: ReportTable, title: str, group: int = 0) -> dict[str, Entry]:
    (found,) = (row for row in table.groups[group].rows if row.title == title)
    return dict(zip((column.full for column in table.columns), found.entries, strict=True))


def full_tables() -> list[ReportTable]:
    comparisons = [comparison(stage=stage, metric=metric) for stage in ("I", "II") for metric in ("auc", "gauc")]
    full = material(every_cell(), comparisons)
    checks = [Check("I", 1, "a"), Check("II", -1, "b")]
    claim = Claim("rq1", "RESUS_RR wins in 50 % of cases & more", (), lambda _: checks, where="5.2")
    ruling = Ruling(claim, {"ml-1m": verdict_of(checks)}, {"frappe": verdict_of(checks[1:])})
    tables = [
        table_3(full, "ml-1m"),
        table_3(full, "taobao"),
        table_4(full, "ml-1m"),
        table_5(full, "ml-1m", "II", boosting=True),
        beyond_table(full, "ml-1m"),
        table_6(full, "ml-1m"),
        noise_table(full, "ml-1m"),
        significance_table(full),
        population_table(full),
        fixed_table(full, "ml-1m", QUESTIONS["rq1"].methods),
        search_table([trial(0.1, 0.8), trial(0.01, 0.71)], LABELS),
        verdict_table([ruling], ["ml-1m"]),
    ]
    assert None not in tables
    return [table for table in tables if table is not None]


def test_ours_the_papers_and_the_difference() -> None:
    found = row(table_3(material(cells_of(LEVELS)), "ml-1m"), "RESUS-RR")
    assert found["ours: AUC"].text == "0.7275 ± 0.0007"
    assert found["paper: AUC"].text == "0.7645"
    assert found["paper: difference"].text == "-0.0370"
    lwa, own, shared = (LEVELS[name] + 0.0015 for name in ("lwa", "resus-rr", "deepfm"))
    assert found["RelaImpr: over lwa"].text == f"{((own - 0.5) / (lwa - 0.5) - 1) * 100:+.1f}%"
    assert found["RelaImpr: over deepfm"].text == f"{((own - 0.5) / (shared - 0.5) - 1) * 100:+.1f}%"
    assert found["RelaImpr: paper"].text == "+19.3%"
    assert found["Logloss: paper"].text == "0.3318"
    assert found["seeds"].text == "2"


def test_one_seed_has_no_deviation() -> None:
    assert row(table_3(material([planted_cell(auc=0.75)]), "ml-1m"), "RESUS-RR")["ours: AUC"].text == "0.7500"


def test_resus_plus_shows_its_gain_over_the_shared_model() -> None:
    cells = cells_of({"deepfm": 0.70, "user-bias": 0.71, PLUS: 0.74, ABLATIONS[0]: 0.73})
    some = material(cells, [comparison(PLUS, "user-bias", stage="II")])
    table = beyond_table(some, "ml-1m")
    assert [row.title for row in table.groups[1].rows] == ["deepfm", "user-bias", PLUS, ABLATIONS[0]]
    own = row(table, PLUS, 1)
    assert (own["over deepfm: AUC"].text, own["AUC"].mark) == ("+0.0400", "best")
    assert row(table, "deepfm", 1)["over deepfm: AUC"].text == "–"
    assert row(table, "user-bias", 1)["AUC"].stars == "*†"


def test_uneven_seeds_are_warned_of() -> None:
    even = cells_of({"melu": 0.7, "resus-rr": 0.7})
    assert len(table_3(material(even), "ml-1m").notes) == 1
    assert "do not compare" in table_3(material(even[:-1]), "ml-1m").notes[1]


def test_auc_and_gauc_stand_side_by_side() -> None:
    for table in (table_3, table_4):
        assert [column.full for column in table(material([]), "ml-1m").columns][:2] == ["ours: AUC", "ours: GAUC"]


def test_the_best_two_of_a_stage_are_marked() -> None:
    table = table_3(material(cells_of(LEVELS)), "ml-1m")
    for stage in range(3):
        marks = {r.title: r.entries[0].mark for r in table.groups[stage].rows if r.entries[0].mark}
        assert marks == {"RESUS-RR": "best", "resus-nn": "second"}


def test_architectures_are_ranked_within_their_own_block() -> None:
    cells = cells_of({"lr": 0.70, "boosted-lr": 0.71, "resus-nn-lr": 0.72, "fm": 0.80, "resus-rr-fm": 0.79})
    table = table_5(material(cells), "ml-1m", "I", boosting=True)
    assert row(table, "resus-nn-lr", 0)["ours: AUC"].mark == "best"
    assert row(table, "boosted-lr", 0)["ours: AUC"].mark == "second"
    assert row(table, "fm", 1)["ours: AUC"].mark == "best"
    assert row(table, "resus-nn-lr", 0)["RelaImpr: over Ψ"].text.startswith("+")
    assert "boosted-lr" not in {r.title for r in table_5(material(cells), "ml-1m", "I", boosting=False).groups[0].rows}


@pytest.mark.parametrize(
    ("p_ttest", "p_bootstrap", "difference", "stars"),
    [
        (0.01, 0.01, 0.01, "*†"),
        (0.01, 0.30, 0.01, "*"),
        (None, 0.01, 0.01, "†"),
        (0.30, None, 0.01, ""),
        (0.01, 0.01, -0.01, ""),
    ],
)
def test_stars(p_ttest: float | None, p_bootstrap: float | None, difference: float, stars: str) -> None:
    made = comparison(p_ttest=p_ttest, p_bootstrap=p_bootstrap, difference=difference)
    found = row(table_3(material(cells_of(LEVELS), [made]), "ml-1m"), "RESUS-RR")
    assert found["ours: AUC"].stars == stars
    assert found["ours: GAUC"].stars == ""


def test_stars_are_against_the_best_rival_that_was_compared() -> None:
    comparisons = [comparison(against="meta-embedding", p_ttest=0.4, p_bootstrap=0.4), comparison(against="lwa")]
    found = row(table_3(material(cells_of(LEVELS), comparisons), "ml-1m"), "RESUS-RR")
    assert found["ours: AUC"].stars == ""


def test_what_was_not_run_says_so_beside_the_papers_number() -> None:
    some = material([planted_cell("melu")])
    assert row(table_3(some, "ml-1m"), "RESUS-RR")["ours: AUC"].text == "not run"
    absent = row(table_3(some, "taobao"), "RESUS-RR")
    assert absent["ours: AUC"].text == "not run: data not available"
    assert absent["paper: AUC"].text == "0.6109"
    assert row(table_6(some, "taobao"), "RESUS-RR")["epochs: ours"].text == "not run: data not available"
    assert noise_table(some, "ml-1m").groups[0].rows[0].title == "not run"


def test_data_sets_keep_the_papers_order() -> None:
    cells = [planted_cell(data_set=name) for name in ("planted", "frappe", "ml-1m")]
    assert material(cells).data_sets == ["ml-1m", "frappe", "taobao", "planted"]


def test_times_tell_pretraining_and_company() -> None:
    cells = [planted_cell("resus-rr", seconds=50.5), planted_cell("lwa", seconds=80, alone=False)]
    table = table_6(material(cells), "ml-1m")
    ours = row(table, "RESUS-RR")
    assert ours["training, s (+ pretraining): ours"] == Entry("50.5 (+5)", "best")
    assert ours["training, s (+ pretraining): paper"].text == "438 (+20)"
    assert ours["test, all sizes, s: ours"].text == "0.5"
    assert (ours["measured"].text, ours["threads"].text, ours["epochs: paper"].text) == ("alone", "2", "4")
    assert row(table, "lwa")["measured"].text == "with other cells"
    assert row(table, "lwa")["training, s (+ pretraining): paper"].text == "1085"


def test_a_comparison_shows_both_tests_and_the_interval() -> None:
    made = [comparison(seeds=(1,), p_ttest=0.9), comparison(difference=0.008, p_bootstrap=0.0001, p_ttest=None)]
    table = significance_table(material([planted_cell()], made))
    assert table is not None
    found = row(table, "RESUS-RR over Meta-Embedding")
    assert found["stage I: difference"].text == "+0.0080"
    assert found["stage I: 95 % interval"].text == "+0.0050 to +0.0110"
    assert (found["stage I: p, bootstrap"].text, found["stage I: p, t-test"].text) == ("< 0.001", "–")
    assert (found["stage II: difference"].text, found["seeds"].text) == ("–", "3")
    assert significance_table(material([planted_cell()])) is None


def test_the_chosen_point_of_a_search_is_marked() -> None:
    table = search_table([trial(0.1, 0.71), trial(0.01, 0.74), trial(0.001, 0.72)], LABELS)
    assert table is not None
    assert [(r.entries[0].text, r.entries[2].text) for r in table.groups[0].rows] == [
        ("rate = 0.1", ""),
        ("rate = 0.01", "✓"),
        ("rate = 0.001", ""),
    ]
    assert search_table([], LABELS) is None


def test_verdicts_at_a_glance_with_the_papers_own_doubts() -> None:
    (table,) = (table for table in full_tables() if table.name == "verdicts")
    texts = [entry.text for entry in table.groups[0].rows[0].entries]
    assert texts == ["section 5.2 (by its own numbers: Frappe does not hold)", "holds in part: I"]


@given(values=st.dictionaries(st.text(min_size=1), st.none() | st.floats(0, 1), max_size=8), lowest=st.booleans())
def test_marks_follow_the_shown_digits(values: dict[str, float | None], lowest: bool) -> None:
    entries = marked(values, lambda value: f"{value:.2f}", lowest=lowest)
    assert {name for name, value in values.items() if value is None} == {n for n, e in entries.items() if e.text == "–"}
    shown = [entry.text for name, entry in entries.items() if values[name] is not None]
    places = sorted(set(shown), reverse=not lowest)
    for entry in entries.values():
        if entry.mark == "best":
            assert entry.text == places[0]
        if entry.mark == "second":
            assert entry.text == places[1]
            assert shown.count(places[0]) == 1
    assert any(entry.mark == "best" for entry in entries.values()) == (len(places) > 1)


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


@pytest.mark.parametrize("table", full_tables(), ids=lambda table: table.name)
def test_markdown_has_one_cell_per_column(table: ReportTable) -> None:
    lines = [line for line in as_markdown(table).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + sum(len(group.rows) + bool(group.title) for group in table.groups)
    for line in lines:
        assert len(re.split(r"(?<!\\)\|", line)) == len(table.columns) + 3
    body = unescaped(as_markdown(table))
    for each in (row for group in table.groups for row in group.rows):
        assert all(entry.text in body for entry in each.entries)


@pytest.mark.parametrize("table", full_tables(), ids=lambda table: table.name)
def test_latex_is_whole(table: ReportTable) -> None:
    text = as_latex(table)
    assert text.isascii(), "no character that a plain LaTeX cannot set"
    plain = re.sub(r"\\[\\{}&%$#_]", "", text)
    assert plain.count("{") == plain.count("}")
    assert "%" not in plain.replace("{!}{%\n", "")
    opened = re.findall(r"\\begin\{(\w+)\}", text)
    assert opened == ["table", "tabular"] == re.findall(r"\\end\{(\w+)\}", text)[::-1]
    assert [text.count(rule) for rule in (r"\toprule", r"\bottomrule")] == [1, 1]
    for line in text.splitlines():
        if line.endswith(r"\\"):
            cells = re.split(r"(?<!\\)&", line)
            spans = [int(span) for span in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            assert len(cells) + sum(spans) - len(spans) == len(table.columns) + 1


@given(text=st.text(alphabet=st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), min_size=1))
def test_no_text_breaks_a_table(text: str) -> None:
    table = ReportTable(
        "t", text, text, (ReportColumn(text, text),), (Group(text, (Row(text, (Entry(text, "best"),)),)),), (text,)
    )
    plain = re.sub(r"\\[\\{}&%$#_]", "", as_latex(table))
    assert plain.count("{") == plain.count("}")
    for line in as_latex(table).splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert len(re.split(r"(?<!\\)&", line)) == 2
    rows = [line for line in as_markdown(table).splitlines() if line.startswith("| ")]
    assert len(rows) == 4
    for line in rows:
        assert len(re.split(r"(?<!\\)\|", line.replace("\\\\", ""))) == 4


def test_every_entry_has_its_column() -> None:
    with pytest.raises(AssertionError, match="narrow"):
        ReportTable("narrow", "", "", (ReportColumn("a"),), (Group("", (Row("r", ()),)),))
