"""The trials of a search in an SQLite file, from which a killed search goes on without losing one."""

import hashlib
import json
import sqlite3
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resus.errors import ArtifactError

if TYPE_CHECKING:
    import optuna

DATABASE = "trials.db"
KILLED = "killed"  # an attribute of trials that another one repeats
REASON = "reason"  # an attribute of trials that failed


def open_study(folder: Path, asked: Mapping[str, Any], *, maximize: bool, resume: bool) -> "optuna.Study":
    """A new search, or the one in the folder if it is to `resume` and was asked for the same."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder / DATABASE
    if path.exists() and not resume:
        raise ArtifactError(f"{folder} holds a search: continue it with --resume, or choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        try:
            # a URL would read signs of the path, such as ? and %, as its own
            opened = partial(sqlite3.connect, path.resolve(), check_same_thread=False, timeout=60)
            storage = optuna.storages.RDBStorage("sqlite:///", engine_kwargs={"creator": opened})
            study = optuna.create_study(
                storage=storage,
                study_name="resus",
                direction="maximize" if maximize else "minimize",
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1),
                load_if_exists=True,
            )
        except Exception as error:  # of SQLAlchemy, if the file is damaged
            said = " ".join(str(error).split())[:200]
            raise ArtifactError(f"{path} cannot be read ({said}): delete it, or choose another folder") from None
    mark = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
    if study.user_attrs.setdefault("asked", mark) != mark:
        raise ArtifactError(
            f"{folder} holds a search on other data or with other options: use the same ones, or choose another folder "
            "with --out"
        )
    study.set_user_attr("asked", mark)
    _ask_again_for_killed_trials(study)
    return study


def _ask_again_for_killed_trials(study: "optuna.Study") -> None:
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.enqueue_trial(trial.params, skip_if_exists=False)
        study._storage.set_trial_user_attr(trial._trial_id, KILLED, True)
        study.tell(trial.number, state=TrialState.FAIL)


def finished_trials(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    """Without those that were killed, which others repeat, and those that wait."""
    trials = study.get_trials(deepcopy=False)
    return [trial for trial in trials if trial.state.is_finished() and KILLED not in trial.user_attrs]
