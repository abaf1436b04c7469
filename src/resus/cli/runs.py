"""Runs named on the command line, to be compared on the log that they share."""

from collections.abc import Sequence
from pathlib import Path

from resus.cli.locations import find_log
from resus.errors import ConfigError
from resus.estimator import Resus


def load_runs(runs: Sequence[Path]) -> dict[str, Resus]:
    """The runs by the name that tables give them; where two have the same, the folder tells them apart."""
    if len({run.resolve() for run in runs}) < len(runs):
        raise ConfigError("the same run is named twice: name each run once")
    models = [Resus.load(run) for run in runs]
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        names = [f"{name} [{run}]" for name, run in zip(names, runs, strict=True)]
    return dict(zip(names, models, strict=True))


def log_of_runs(models: dict[str, Resus], runs: Sequence[Path], data: str | None) -> Path:
    """Where their log lies: as `data` says, or where the first was trained."""
    log = find_log(data) if data else next(iter(models.values())).log_path
    if not log.is_dir():
        raise ConfigError(f"the log {log} on which {runs[0]} was trained is gone: say where it is with --data")
    return log


def check_part(part: str) -> None:
    if part not in ("test", "validation"):
        raise ConfigError(f"--part is '{part}': choose test or validation")
