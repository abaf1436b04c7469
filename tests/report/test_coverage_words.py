"""What is said of intervals, on the terminal and in the page."""

import io
from pathlib import Path

from planted_results import example, example_with_coverage
from rich.console import Console

from resus.evaluation.results import Coverage, ModelCoverage, Results, StageCoverage
from resus.report.coverage import coverage_rows, coverage_sentences
from resus.report.html import write_report
from resus.report.terminal import results_table

SENTENCE = (
    "RESUS-RR: 90 % intervals of a user's clicks cover 91 / 89 / – % of users in stages I / II / III "
    "(66 / 76 / – % if it were sure of the user, 62 / 67 / – % for DeepFM); "
    "those of a logit cover 86 / 86 / – % of the true ones."
)


def test_one_sentence_says_all_stages_and_the_contrasts() -> None:
    assert coverage_sentences(example_with_coverage()) == [SENTENCE]
    console = Console(width=100, file=io.StringIO())
    console.print(results_table(example_with_coverage()))
    assert isinstance(console.file, io.StringIO)
    assert SENTENCE in " ".join(console.file.getvalue().split())


def test_what_is_not_known_is_not_spoken_of() -> None:
    stage = StageCoverage(clicks=0.9, coins=0.5, predictor=None, true_logits=None)
    nothing = StageCoverage(clicks=None, coins=None, predictor=None, true_logits=None)
    [sentence] = coverage_sentences(covered(stage))
    assert sentence == (
        "RESUS+: 90 % intervals of a user's clicks cover 90 % of users in stage I (50 % if it were sure of the user)."
    )
    assert list(coverage_rows(covered(stage)).values()) == [["90%"], ["50%"]]
    [sentence] = coverage_sentences(covered(nothing))
    assert "cannot be judged" in sentence
    assert coverage_sentences(example()) == []
    assert coverage_rows(example()) == {}


def test_the_page_has_a_row_of_stages_per_interval(tmp_path: Path) -> None:
    page = write_report(example_with_coverage(), tmp_path / "report.html").read_text()
    for label, cells in coverage_rows(example_with_coverage()).items():
        escaped = label.replace("'", "&#39;")
        assert f'<th scope="row">{escaped}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert "90 % intervals" in page
    assert "intervals cover" not in write_report(example(), tmp_path / "plain.html").read_text()


def covered(stage: StageCoverage) -> Results:
    models = {"RESUS+": ModelCoverage(predictor=None, stages={"I": stage})}
    return example().model_copy(update={"coverage": Coverage(level=0.9, models=models)})
