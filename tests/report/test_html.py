"""The report as a browser would read it: whole, alone, escaped, and saying the numbers."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from planted_results import example, example_of_short_users, example_without_truth, planted_results

from resus.evaluation.results import Results, SizeMetrics, StageMetrics
from resus.report.gains import GAIN_COLUMNS, verdict
from resus.report.html import write_report
from resus.report.summary import summary

HISTORY = [{"stage": "learner", "epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3)]


class Page(HTMLParser):
    """Tags with their attributes, the text of the body, and tables as rows of cells."""

    void = frozenset({"meta", "br"})

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(self.html)
        self.close()
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} is closed in its order"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1].append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(tmp_path: Path, results: Results, **options: Any) -> Page:
    return Page(write_report(results, tmp_path / "report.html", **options))


def test_the_summary_and_every_number_stand_in_the_page(tmp_path: Path) -> None:
    results = example()
    page = page_of(tmp_path, results)
    for finding in summary(results):
        assert finding in page.text
    for name, model in results.models.items():
        rows = [row for row in page.rows if row[0] == name and not any(" to " in cell for cell in row)]
        fixed = model.fixed_population
        assert fixed is not None
        expected: list[StageMetrics | SizeMetrics] = [
            *model.stages.values(),
            *model.sizes.values(),
            *fixed.stages.values(),
        ]
        assert len(rows) == len(expected)
        for cells, metrics in zip(rows, expected, strict=True):
            row = [cell for cell in map(str.strip, cells) if cell not in ("", "best")]
            assert row[1:4] == [f"{metrics.auc:.4f}", f"{metrics.gauc:.4f}", f"{metrics.rela_impr:+.1f}%"]
            assert row[4:] == [
                f"{metrics.logloss:.4f}",
                f"{metrics.calibration_error:.4f}",
                f"{metrics.gap_closed:.0%}",
            ]


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    page = page_of(tmp_path, example(), history=HISTORY)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"}
    for _, attributes in page.tags:
        for key in ("src", "href", "xlink:href"):
            assert (attributes.get(key) or "#").startswith("#")
    outside = re.findall(r"https?://[\w./]+", re.sub(r'xmlns(:\w+)?="[^"]*"', "", page.html))
    assert outside == []
    assert "@import" not in page.html


def test_ids_are_unique_and_references_find_them(tmp_path: Path) -> None:
    page = page_of(tmp_path, example(), history=HISTORY)
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert set(ids.values()) == {1}
    references = set(re.findall(r'(?:url\(#|href="#)([\w.-]+)', page.html))
    assert references
    assert references <= set(ids)


def test_charts_take_their_colours_from_the_page(tmp_path: Path) -> None:
    body = page_of(tmp_path, example(), history=HISTORY).html.partition("</style>")[2]
    assert "var(--line-0)" in body
    assert re.findall(r"#[0-9a-f]{6}\b", body) == []


def test_names_are_escaped(tmp_path: Path) -> None:
    name = "<script>alert('$x$')</script> & <b>"
    results = planted_results((4, 9, 14) * 20, name=name, draws=60)
    renamed = results.model_copy(update={"protocol": "<i>", "log": results.log.model_copy(update={"name": "<u>"})})
    page = page_of(tmp_path, renamed, config={"note": name}, history=[{**row, "stage": name} for row in HISTORY])
    plain = page_of(tmp_path, results, config={"note": "x"}, history=HISTORY)
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in plain.tags}
    assert "<u>" in page.text
    assert any(row[0] == name for row in page.rows if row)


def test_without_truth_no_gap_is_mentioned(tmp_path: Path) -> None:
    assert "Gap closed" in page_of(tmp_path, example()).text
    text = page_of(tmp_path, example_without_truth()).text
    assert "Gap closed" not in text
    assert "oracle" not in text


def test_gains_are_a_table_and_a_picture_that_a_screen_reader_tells(tmp_path: Path) -> None:
    results = example()
    page = page_of(tmp_path, results)
    assert results.gains is not None
    for name, stages in results.gains.models.items():
        rows = [row for row in page.rows if row[0] == name and any(" to " in cell for cell in row)]
        for row, column in zip(rows, GAIN_COLUMNS, strict=True):
            cells = [cell.strip() for cell in row[1:] if cell.strip()]
            for gains in stages.values():
                gain = getattr(gains, column.name)
                found = verdict(gain, column)
                mark = [found.mark] if found.mark else []
                expected = [f"{gain.difference:+.4f}", *mark, found.value, f"{gain.low:+.4f} to {gain.high:+.4f}"]
                assert cells[: len(expected)] == expected
                cells = cells[len(expected) :]
            assert cells == []
    pictures = [attributes["aria-label"] for tag, attributes in page.tags if tag == "svg"]
    for column in GAIN_COLUMNS:
        assert any((label or "").startswith(f"Gain in {column.title} over DeepFM") for label in pictures)


def test_every_picture_is_labelled_and_every_group_of_rows_is_a_body(tmp_path: Path) -> None:
    page = page_of(tmp_path, example(), history=HISTORY)
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert pictures
    assert all(each.get("role") == "img" and each.get("aria-label") for each in pictures)
    assert not any("role" in attributes for tag, attributes in page.tags if tag == "figure")
    places = [place for place, (_, attributes) in enumerate(page.tags) if attributes.get("scope") == "rowgroup"]
    assert len(places) > 3
    assert all([tag for tag, _ in page.tags[place - 2 : place]] == ["tbody", "tr"] for place in places)


def test_the_best_is_said_and_not_only_bold(tmp_path: Path) -> None:
    page = page_of(tmp_path, example_without_truth())
    bold = [attributes for tag, attributes in page.tags if tag == "td" and "best" in (attributes.get("class") or "")]
    assert len(bold) == page.words.count("best") > 0


def test_numbers_of_validation_users_say_what_was_learned_there(tmp_path: Path) -> None:
    said = "RESUS-RR learned the three scales (bias, taste, repeats) from these users"
    plus = example().model_copy(update={"tuned_on_validation": ["RESUS-RR"]})
    assert said not in page_of(tmp_path, plus).text
    here = page_of(tmp_path, plus.model_copy(update={"part": "validation"})).text
    assert said in here
    assert "Epochs were chosen on these users" in here
    assert "No model was fitted on these users" not in here


def test_without_draws_no_gain_is_spoken_of(tmp_path: Path) -> None:
    page = page_of(tmp_path, example_without_truth())
    assert "Gain over" not in page.text
    assert not any("Gain" in (attributes.get("aria-label") or "") for _, attributes in page.tags)


def test_what_could_not_be_measured_is_said(tmp_path: Path) -> None:
    page = page_of(tmp_path, example_of_short_users())
    assert "No user has a query at support size 5, 6" in page.text
    assert "no fixed population" in page.text
    assert ["RESUS-RR", *["–"] * 6] in page.rows


def test_config_and_training_are_shown_only_where_given(tmp_path: Path) -> None:
    bare = page_of(tmp_path, example()).text
    assert "Configuration" not in bare
    assert "Training" not in bare
    full = page_of(tmp_path, example(), config={"predictor": {"embedding_dim": 10}}, history=HISTORY).text
    assert "predictor: embedding_dim: 10" in full
    assert "Training" in full


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    pages = [write_report(example(), tmp_path / name, history=HISTORY).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_a_config_that_cannot_be_shown_leaves_no_page(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="cannot represent"):
        write_report(example(), tmp_path / "report.html", config={"object": object()})
    assert list(tmp_path.iterdir()) == []
