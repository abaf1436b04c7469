"""The published data sets, prepared once."""

import os
from pathlib import Path

from resus import InteractionLog, PrepareOptions, prepare

RAW = Path(os.environ.get("RESUS_DATA", "../shared/data"))
LOGS = Path("data/benchmarks")


def published_log(name: str, protocol: str = "paper") -> tuple[Path, InteractionLog]:
    """The folder of the log, and the log. Downloads the data set if RESUS_DATA has no such folder."""
    raw = RAW / name
    folder = LOGS / f"{name}-{protocol}"
    options = PrepareOptions.model_validate({"protocol": protocol})
    return folder, prepare(name, folder, path=raw if raw.is_dir() else None, options=options)
