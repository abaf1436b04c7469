"""What all tests share: where the published data lie, and that no property is judged by the time it takes to check."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("resus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("resus")


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder with the published data sets; a folder that CI names must exist."""
    named = os.environ.get("RESUS_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        if named and os.environ.get("CI"):
            pytest.fail(f"RESUS_DATA names {folder}, which does not exist")
        pytest.skip(f"no published data in {folder}: set RESUS_DATA to their folder")
    return folder
