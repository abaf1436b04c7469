"""What a search leaves behind: the best settings as a config file, and a table of its trials."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from resus.files import write_text
from resus.tuning.storage import REASON, finished_trials

if TYPE_CHECKING:
    import optuna

BEST, TABLE = "best.yaml", "trials.csv"
SETTINGS = "settings"  # an attribute of a trial


def settings_of(trial: "optuna.trial.FrozenTrial") -> dict[str, Any]:
    """By dotted keys."""
    found: dict[str, Any] = json.loads(trial.user_attrs.get(SETTINGS, "{}"))
    return found


def best_trial(study: "optuna.Study") -> "optuna.trial.FrozenTrial | None":
    """The first of the best; None if no trial is complete."""
    complete = [trial for trial in finished_trials(study) if trial.state.name == "COMPLETE"]
    sign = 1 if study.direction.name == "MAXIMIZE" else -1
    return max(complete, key=lambda trial: sign * (trial.value or 0.0), default=None)


def write_outcome(study: "optuna.Study", folder: Path, metric: str) -> None:
    """Both files, whole or as they were."""
    trials = finished_trials(study)
    keys = sorted({key for trial in trials for key in settings_of(trial)})
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["trial", "state", metric, "seconds", *keys, REASON])
    for trial in trials:
        own = settings_of(trial)
        seconds = round(trial.duration.total_seconds(), 1) if trial.duration else None
        values = (json.dumps(own[key]) if isinstance(own.get(key), list) else own.get(key) for key in keys)
        table.writerow(
            [trial.number, trial.state.name.lower(), trial.value, seconds, *values, trial.user_attrs.get(REASON)]
        )
    write_text(folder / TABLE, text.getvalue())
    best = best_trial(study)
    if best is not None:
        said = f"# trial {best.number}: {metric} {best.value:.4f} on validation users\n"
        write_text(folder / BEST, said + yaml.safe_dump(_nested(settings_of(best)), sort_keys=False))


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """In sections, as a person would write them."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        (found.setdefault(section, {}) if section else found)[name] = value
    return found
