"""Progress without a terminal: a line when a task starts; later lines with count, speed, memory and time left."""

import re

import pytest

from resus.cli import console
from resus.cli.console import progress_bars


def test_long_work_reports_its_speed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "LINE_SECONDS", 0.0)
    with progress_bars() as progress:
        progress("work", 0, 40_000_000, "rows")
        progress("work", 20_000_000, 40_000_000, "rows")
        progress("files", 1, None)
        progress("files", 2, None)
    begun, counted, other, plain = capsys.readouterr().err.splitlines()
    assert (begun, other, plain) == ("work …", "files …", "files: 2/?")
    assert re.fullmatch(r"work: 20M/40M rows, \S+/s, \d+\.\d GB, \d+ s left", counted)


def test_short_work_reports_only_its_start(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars() as progress:
        for done in range(1000):
            progress("work", done, 1000, "rows")
    assert capsys.readouterr().err == "work …\n"
