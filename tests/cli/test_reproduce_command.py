"""`resus reproduce` from the command to the report, and the ways to hold it wrong."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from resus_process import SHORT, refused_here, start, succeed_here

from resus.paper.cells.records import CELLS, append_record, read_cells

METHODS = "deepfm,user-bias,lwa,resus-nn,resus-rr"


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks are slower with several threads."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


@pytest.mark.integration
def test_a_question_is_answered_with_tables_figures_and_verdicts(workplace: Path) -> None:
    words = ("reproduce", "rq1", "--dataset", "log", "--runs", 2, "--methods", METHODS, *SHORT, "--replicates", 20)
    said = succeed_here(*words, "--out", "answer", cwd=workplace)
    assert "10 cells, 0 of them finished" in said
    folder = workplace / "answer"
    page = (folder / "report.html").read_text()
    assert "RESUS-NN" in page
    assert "<script" not in page
    text = (folder / "report.md").read_text()
    assert "holds" in text
    assert list(folder.glob("tables/*.tex"))
    assert {path.suffix for path in folder.glob("figures/*")} == {".png", ".pdf"}
    assert len(read_cells(folder)) == 10
    again = succeed_here(*words, "--out", "answer", cwd=workplace)
    assert "10 cells, 10 of them finished" in again
    assert len(read_cells(folder)) == 10
    comparisons = [json.loads(line) for line in (folder / "comparisons.jsonl").read_text().splitlines()]
    assert {line["replicates"] for line in comparisons} == {20}
    assert {line["against"] for line in comparisons} == {"lwa", "deepfm", "user-bias"}


@pytest.mark.integration
def test_interrupted_it_says_how_to_go_on(workplace: Path) -> None:
    running = start("reproduce", "rq1", "--dataset", "log", "--methods", METHODS, *SHORT, "--out", "cut", cwd=workplace)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (workplace / "cut" / "cells.jsonl").exists():
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    done = read_cells(workplace / "cut")
    gone = done[0].model_copy(update={"method": "a-method-that-is-gone"})
    append_record(workplace / "cut" / CELLS, gone)
    said = succeed_here(
        "reproduce", "rq1", "--dataset", "log", "--methods", METHODS, *SHORT, "--out", "cut", "--report-only",
        cwd=workplace,
    )  # fmt: skip
    assert "report.html" in said
    assert read_cells(workplace / "cut") == [*done, gone]
    assert gone.method not in (workplace / "cut" / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["rq6"], ("no question 'rq6'", "rq1")),
        (["rq1", "--methods", "mellu"], ("no method 'mellu'", "did you mean 'melu'")),
        (["rq4", "--dataset", "log", "--methods", "lwa"], ("lwa", "rq4")),
        (["rq1", "--dataset", "nowhere"], ("nowhere", "resus prepare")),
        (["rq1"], ("no published data set is prepared", "--quick")),
        (["rq1", "--quick", "--dataset", "log"], ("--quick", "--dataset")),
        (["rq1", "--dataset", "log", "--set", "training.epoch=3"], ("training.epoch", "training.epochs")),
        (["rq1", "--dataset", "log", "--set", "seed=3"], ("seed", "--runs")),
        (["rq1", "--dataset", "log", "--set", "learner.kind=ridge"], ("learner.kind", "--methods")),
        (["rq1", "--dataset", "log", "--dataset", "./log"], ("a second log of 'log'", "--out")),
        (["rq1", "--dataset", "log", "--report-only", "--out", "none"], ("none", "no finished cell")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_gets_one_sentence(words: list[str], wanted: tuple[str, ...], workplace: Path) -> None:
    sentence = refused_here("reproduce", *words, cwd=workplace)
    assert all(part in sentence for part in wanted), sentence
    assert not (workplace / "none").exists()


@pytest.mark.integration
def test_other_settings_are_not_mixed_in(workplace: Path) -> None:
    words = ("reproduce", "rq1", "--dataset", "log", "--runs", 1, "--methods", "deepfm", "--out", "claimed")
    succeed_here(*words, *SHORT, cwd=workplace)
    told = refused_here(*words, *SHORT, "--set", "training.patience=1", cwd=workplace)
    assert "other settings" in told
    assert "--out" in told
