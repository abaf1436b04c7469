"""Ray's workers run as fast as other tests."""

import pytest


@pytest.fixture(autouse=True)
def _no_niceness(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, workers yield to every other process. Next to other tests they would hardly run at all."""
    monkeypatch.setenv("RAY_worker_niceness", "0")
