"""Pages as a browser reads them: whole, self-contained, escaped, with every number."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from html_page import Page
from planted_results import (
    example,
    example_curve,
    example_of_short_users,
    example_with_coverage,
    example_without_truth,
    planted_results,
)

from resus.evaluation.metrics import AUC, METRICS, RELATIVE, Metric
from resus.evaluation.results import Measured, Results
from resus.history import EpochRecord
from resus.report.measures import coverage_rows, gain_metrics, gains_of, verdict
from resus.report.page import write_report, write_warm_up
from resus.report.words import summary, tuned_sentence, wrong_way_sentences

CONFIG = {"predictor": {"embedding_dim": 10}}
HISTORY = [EpochRecord("learner", epoch, 0.6, loss=1 / epoch) for epoch in (1, 2, 3)]


def page_of(tmp_path: Path, results: Results, **options: Any) -> Page:
    return Page(write_report(results, tmp_path / "report.html", **options).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A planted world with gains, settings and history."""
    return page_of(tmp_path_factory.mktemp("full"), example(), config=CONFIG, history=HISTORY)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """No truth, no draws, no settings, no history."""
    return page_of(tmp_path_factory.mktemp("bare"), example_without_truth())


def test_the_page_holds_the_summary_and_every_number(full: Page) -> None:
    results = example()
    for finding in summary(results):
        assert finding in full.text
    for name, model in results.models.items():
        rows = [row for row in full.rows if row[0] == name and not any(" to " in cell for cell in row)]
        fixed = model.fixed_population
        assert fixed is not None
        expected: list[Measured] = [*model.stages.values(), *model.sizes.values(), *fixed.stages.values()]
        for cells, values in zip(rows, expected, strict=True):
            row = [cell for cell in map(str.strip, cells) if cell not in ("", "best")]
            assert row[1:] == [each.show(values.metrics[each.name]) for each in (*METRICS.values(), *RELATIVE.values())]


def test_the_page_is_self_contained(full: Page) -> None:
    assert not {tag for tag, _ in full.tags} & {"script", "link", "img", "iframe", "object"}
    for _, attributes in full.tags:
        for key in ("src", "href", "xlink:href"):
            assert (attributes.get(key) or "#").startswith("#")
    outside = re.findall(r"https?://[\w./]+", re.sub(r'xmlns(:\w+)?="[^"]*"', "", full.html))
    assert outside == []
    assert "@import" not in full.html


def test_ids_are_unique_and_references_find_them(full: Page) -> None:
    ids = Counter(attributes["id"] for _, attributes in full.tags if "id" in attributes)
    assert set(ids.values()) == {1}
    references = set(re.findall(r'(?:url\(#|href="#)([\w.-]+)', full.html))
    assert references
    assert references <= set(ids)


def test_charts_take_their_colours_from_the_page(full: Page) -> None:
    body = full.html.partition("</style>")[2]
    assert "var(--line-0)" in body
    assert re.findall(r"#[0-9a-f]{6}\b", body) == []


def test_names_are_escaped(tmp_path: Path, full: Page) -> None:
    name = "<script>alert('$x$')</script> & <b>"
    results = planted_results((4, 9, 14) * 20, name=name, draws=60)
    renamed = results.model_copy(update={"protocol": "<i>", "log": results.log.model_copy(update={"name": "<u>"})})
    page = page_of(
        tmp_path, renamed, config={"note": name}, history=[replace(record, stage=name) for record in HISTORY]
    )
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in full.tags}
    assert "<u>" in page.text
    assert any(row[0] == name for row in page.rows if row)


def test_what_is_unknown_is_not_mentioned(full: Page, bare: Page) -> None:
    for words in ("Gap closed", "oracle", "Gain over", "Training", "Configuration"):
        assert words in full.text
        assert words not in bare.text
    assert "predictor: embedding_dim: 10" in full.text
    assert "Coverage of" not in full.text
    assert not any("Gain" in (attributes.get("aria-label") or "") for _, attributes in bare.tags)


def test_gains_are_a_table_and_a_picture_with_words_for_screen_readers(full: Page) -> None:
    results = example()
    pictures = [attributes["aria-label"] or "" for tag, attributes in full.tags if tag == "svg"]
    for place, metric in enumerate(gain_metrics(results)):
        assert any(label.startswith(f"Gain in {metric.title} over DeepFM") for label in pictures)
        for name, stages in gains_of(results, metric).items():
            row = [row for row in full.rows if row[0] == name and any(" to " in cell for cell in row)][place]
            expected = []
            for gain in stages.values():
                found = verdict(gain, metric)
                mark = [found.mark] if found.mark else []
                expected += [f"{gain.difference:+.4f}", *mark, found.value, f"{gain.low:+.4f} to {gain.high:+.4f}"]
            assert [cell.strip() for cell in row[1:] if cell.strip()] == expected


def test_every_picture_is_labelled_and_every_group_of_rows_is_a_body(full: Page) -> None:
    pictures = [attributes for tag, attributes in full.tags if tag == "svg"]
    assert pictures
    assert all(each.get("role") == "img" and each.get("aria-label") for each in pictures)
    assert not any("role" in attributes for tag, attributes in full.tags if tag == "figure")
    places = [place for place, (_, attributes) in enumerate(full.tags) if attributes.get("scope") == "rowgroup"]
    assert len(places) > 3
    assert all([tag for tag, _ in full.tags[place - 2 : place]] == ["tbody", "tr"] for place in places)


def test_wrong_ways_are_listed_if_they_were_counted(tmp_path: Path, full: Page) -> None:
    assert all(sentence in full.text for sentence in wrong_way_sentences(example()))
    assert "the wrong way" not in page_of(tmp_path, example().model_copy(update={"wrong_way": {}})).text


def test_the_best_is_said_and_not_only_bold(bare: Page) -> None:
    bold = [attributes for tag, attributes in bare.tags if tag == "td" and "best" in (attributes.get("class") or "")]
    assert len(bold) == bare.words.count("best") > 0


def test_coverage_has_a_row_of_stages_and_validation_users_a_warning(tmp_path: Path) -> None:
    results = example_with_coverage().model_copy(update={"tuned_on_validation": ["RESUS-RR"], "part": "validation"})
    page = page_of(tmp_path, results)
    assert all([label, *cells] in page.rows for label, cells in coverage_rows(results).items())
    assert tuned_sentence(results) in page.text
    assert "chose its epochs on these users" in page.text
    assert "No model was trained on these users" not in page.text


def test_a_new_metric_is_one_record_in_results_and_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the registry knows it, and it has gains because it can be resampled."""
    halves = Metric(
        name="half_auc",
        title="Half AUC",
        meaning="half of the AUC",
        function=lambda labels, logits, users: AUC.function(labels, logits, users) / 2,
        resampler=lambda labels, logits, users, weights: METRICS["auc"].resampler(labels, logits, users, weights) / 2,  # type: ignore[misc]
    )
    monkeypatch.setitem(METRICS, halves.name, halves)
    results = planted_results((4, 9, 14, 20) * 40, draws=61)
    assert results.gains is not None
    stage, gains = results.models["RESUS-RR"].stages["I"], results.gains.models["RESUS-RR"]["I"]
    assert stage.half_auc == pytest.approx((stage.auc or 0) / 2)
    assert gains.half_auc.low == pytest.approx((gains.auc.low or 0) / 2)
    page = page_of(tmp_path, results)
    assert f"{stage.half_auc:.4f}" in page.text
    assert any("Half AUC" in (attributes.get("aria-label") or "") for _, attributes in page.tags)
    assert any("Half AUC, higher is better" in cell for row in page.rows for cell in row)


def test_what_could_not_be_measured_is_said(tmp_path: Path) -> None:
    page = page_of(tmp_path, example_of_short_users())
    assert "No user has a query at support size 5, 6" in page.text
    assert "no fixed population" in page.text
    assert ["RESUS-RR", *["–"] * 6] in page.rows


def test_equal_results_give_equal_bytes(tmp_path: Path, full: Page) -> None:
    again = write_report(example(), tmp_path / "report.html", config=CONFIG, history=HISTORY)
    assert again.read_text(encoding="utf-8") == full.html
    assert list(tmp_path.iterdir()) == [again]


def test_a_config_that_cannot_be_shown_leaves_no_page(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="cannot represent"):
        write_report(example(), tmp_path / "report.html", config={"object": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_warm_up_page_holds_every_number_and_fetches_nothing(tmp_path: Path) -> None:
    curve = example_curve(truth=True)
    picture, path = write_warm_up(curve, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["warm-up.html", "warm-up.png"]
    page = Page(path.read_text(encoding="utf-8"))
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "user"}
    for fact in ("41 test users", "5,678", "<user> bias", "planted world", "No model was trained on these users"):
        assert fact in page.text
    rows = [[cell for cell in row if cell.strip() not in ("", "best")] for row in page.rows]
    assert ["300", "0.7000", "0.8000 ", "0.7600", "0.9000", "0.9000"] in rows
    assert ["300", "0.6500", "0.7500 ", "0.6500", "–", "–"] in rows
    pictures = [attributes["aria-label"] or "" for tag, attributes in page.tags if tag == "svg"]
    assert [label.startswith("AUC and GAUC of every model") for label in pictures] == [True]
    assert page.html.count('class="best"') == page.words.count("best") > 0
