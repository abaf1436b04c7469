"""The report as a reader meets it: whole, alone, escaped, saying the numbers, and made from any subset of cells."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from html_page import Page
from planted_cells import LEVELS, cells_of, comparison, every_cell, planted_cell, trial, without_auc

from resus.paper.cells.records import Cell
from resus.paper.cells.summary import Summary
from resus.paper.questions import QUESTIONS
from resus.paper.report.page import write_reproduction

PICTURES = ("sizes-ml-1m", "beyond-sizes-ml-1m", "figure4", "figure5")


def written(folder: Path, cells: list[Cell], **changes: Any) -> list[Path]:
    arguments: dict[str, Any] = {
        "comparisons": [],
        "questions": list(QUESTIONS),
        "labels": {"resus-rr": "RESUS-RR", "melu": "MeLU"},
        "trials": [],
        "facts": {"machine": "two cores"},
        "missing": {},
    }
    return write_reproduction(folder, cells, **(arguments | changes))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything there is, on one data set; another is missing."""
    folder = tmp_path_factory.mktemp("report")
    paths = written(
        folder,
        every_cell(seeds=[1, 2]),
        comparisons=[comparison(seeds=(1, 2))],
        trials=[trial(0.1, 0.8), trial(0.01, 0.71)],
        missing={"taobao": "data not available"},
    )
    assert sorted(paths) == sorted(path for path in folder.rglob("*") if path.is_file())
    return folder


def html_of(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def markdown_of(folder: Path) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


def test_tables_and_figures_are_files_of_their_own(full: Path) -> None:
    tables = {path.stem for path in (full / "tables").iterdir()}
    assert tables >= {"table3-ml-1m", "table3-taobao", "table4-ml-1m", "table5-ml-1m-III", "table6-ml-1m"}
    assert tables >= {"verdicts", "significance", "populations", "searches", "figure4-ml-1m", "fixed-ml-1m"}
    figures = {path.name for path in (full / "figures").iterdir()}
    assert figures == {f"{name}.{kind}" for name in PICTURES for kind in ("png", "pdf")}


def test_the_page_needs_nothing_but_itself(full: Path) -> None:
    page = Page(html_of(full))
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe"}
    assert not re.findall(r"(?:src|href)=[\"'](?!#)", html_of(full))
    assert "url(http" not in html_of(full)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert max(Counter(ids).values()) == 1


def test_the_page_opens_with_verdicts_then_takes_each_question(full: Path) -> None:
    for text in (Page(html_of(full)).text, markdown_of(full)):
        places = [text.index("RESUS, the better of its two learners")]
        places += [text.index(question.asks) for question in QUESTIONS.values()]
        assert places == sorted(places)
    heads = [row for row in Page(html_of(full)).rows if row[:1] == ["claim"]]
    assert heads == [["claim", "paper", "MovieLens-1M", "Taobao"]]


def test_numbers_verdicts_and_facts_are_in_both(full: Path) -> None:
    plain = re.sub(r"\\(.)", r"\1", markdown_of(full))
    ours = Summary(every_cell(seeds=[1, 2])).stage("ml-1m", "resus-rr", "III", "auc")
    assert ours is not None
    shown = f"{ours.mean:.4f} ± {ours.deviation:.4f}"
    for text in (Page(html_of(full)).text, plain):
        assert "0.7645" in text, "the paper's"
        assert shown in text, "ours"
        assert f"III: RESUS-RR {ours.mean:.4f}, meta-embedding {ours.mean - 0.008:.4f} (+0.0080)" in text
        assert "two cores" in text
        assert "not run: data not available" in text
        assert "rate = 0.1" in text
    assert f"**{shown}**" in markdown_of(full)


def test_table_5_comes_once_with_boosting(full: Path) -> None:
    assert markdown_of(full).count("Table 5, MovieLens-1M, stage I ·") == 1
    assert "| boosted-lr |" in markdown_of(full)


def test_pictures_of_the_markdown_are_there(full: Path) -> None:
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", markdown_of(full))
    assert len(links) == len(PICTURES)
    for link in links:
        assert (full / link).is_file()


def test_every_table_of_the_page_is_rectangular(full: Path) -> None:
    page = Page(html_of(full))
    assert len(page.widths) == len(list((full / "tables").iterdir()))
    for widths in page.widths:
        assert len(widths) > 1
        assert len(set(widths)) == 1


def test_names_are_escaped(tmp_path: Path) -> None:
    name = "<script>alert('$x$')</script> & | _"
    labels = {"resus-rr": name, "melu": name}
    cells = cells_of({"resus-rr": 0.7, "melu": 0.6}, data_set="<b>")
    written(tmp_path, cells, labels=labels, facts={"<i>": "<u>"}, questions=["rq1"])
    page = Page(html_of(tmp_path))
    assert not {tag for tag, _ in page.tags} & {"script", "b", "i", "u"}
    assert any(row[0] == name for row in page.rows if row)
    assert "<u>" in page.text


@pytest.mark.parametrize(
    "cells",
    [
        [],
        [planted_cell("deepfm", data_set="planted")],
        [planted_cell(method, data_set="planted") for method in ("mus", "lr", "resus-rr", "boosted-fm")],
        [without_auc(planted_cell(method, data_set="planted")) for method in ("deepfm", "resus-rr")],
    ],
    ids=["none", "one", "some", "without AUC"],
)
def test_any_subset_of_cells_makes_a_report(tmp_path: Path, cells: list[Cell]) -> None:
    written(tmp_path, cells)
    page = Page(html_of(tmp_path))
    assert "not tested here" in page.text or not cells
    assert "nan" not in page.text.split()
    assert "None" not in page.text.split()
    heads = [row for row in page.rows if row[:1] == ["claim"]]
    assert heads == [["claim", "paper", *(["planted"] if cells else [])]]


def test_only_the_questions_that_were_asked(tmp_path: Path) -> None:
    written(tmp_path, cells_of(LEVELS), questions=["rq3"])
    text = markdown_of(tmp_path)
    assert QUESTIONS["rq3"].asks in text
    assert QUESTIONS["rq1"].asks not in text
    assert "Table 5, MovieLens-1M" in text
    assert "RESUS, the better of its two learners" not in text


def test_resus_plus_has_a_page_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, every_cell(seeds=[1]), questions=["beyond"])
    assert markdown_of(tmp_path).startswith("# Beyond the paper: RESUS+")
    assert all(method in markdown_of(tmp_path) for method in QUESTIONS["beyond"].methods if method != "resus-rr")
    assert (tmp_path / "figures" / "beyond-sizes-ml-1m.png").is_file()


def test_equal_cells_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("first", "again"):
        written(tmp_path / name, cells_of({"resus-rr": 0.7, "melu": 0.69}), questions=["rq1"])
    for path in (tmp_path / "first").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "again" / path.relative_to(tmp_path / "first")).read_bytes()
