import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder with the published data sets; a folder that CI names must exist."""
    named = os.environ.get("RESUS_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        if named and os.environ.get("CI"):
            pytest.fail(f"RESUS_DATA names {folder}, which does not exist")
        pytest.skip(f"no published data in {folder}: set RESUS_DATA to their folder")
    return folder
