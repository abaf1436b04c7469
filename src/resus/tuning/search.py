"""Try settings one after the other, and keep what the validation users say about each. Test users are not touched."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from resus.checking import on_one_line
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.errors import ArtifactError, TrainingError
from resus.estimator import Resus
from resus.evaluation.metrics import METRICS
from resus.extras import need
from resus.files import locked
from resus.history import History
from resus.progress import Progress, silent
from resus.tracking.watching import Watch
from resus.training.loop import UNSOLVABLE
from resus.tuning.outcome import SETTINGS, write_outcome
from resus.tuning.storage import REASON, finished_trials, open_study
from resus.tuning.suggestions import Suggestions

if TYPE_CHECKING:
    import optuna

LOCK = ".lock"
TRIALS = "trials"  # folder of the trial that is running
STEPS_OF_A_STAGE = 10_000
JUDGED = {"predictor": 0, "residuals": 1, "factors": 1}  # stages by which a bad trial shows early

FAILURES = (TrainingError, MemoryError, torch.OutOfMemoryError, *UNSOLVABLE)

Tell = Callable[["optuna.trial.FrozenTrial"], None]
Track = Callable[[int, Config, Path], AbstractContextManager[Watch | None]]


@dataclass(frozen=True)
class Limits:
    """A search ends after so many trials, or before the first one that would begin after so many seconds."""

    trials: int
    seconds: float | None = None


class TimeIsUpError(Exception):
    """Ends a trial early; it is repeated, from its last epoch, when the search goes on."""


def search(
    log: Path,
    suggestions: Suggestions,
    folder: Path,
    limits: Limits,
    *,
    metric: str = "auc",
    seed: int = 1,
    resume: bool = False,
    progress: Progress = silent,
    tell: Tell = lambda _: None,
    track: Track | None = None,
) -> "optuna.Study":
    """Search until the limits; the best settings are then in `best.yaml`. A killed search goes on with `resume`."""
    need("tune", "resus tune")
    opened = InteractionLog.open(log)
    asked = {
        "log": opened.content_hash,
        "metric": metric,
        "seed": seed,
        "learners": suggestions.learners,
        "predictors": suggestions.predictors,
        "fixed": suggestions.base,
    }
    with locked(folder / LOCK, wait=False) as free:
        if not free:
            raise ArtifactError(f"another search is at work in {folder}: wait for it, or choose another folder (--out)")
        study = open_study(folder, asked, maximize=METRICS[metric].higher_is_better, resume=resume)
        ends = time.monotonic() + limits.seconds if limits.seconds is not None else None
        if not study.get_trials(deepcopy=False):
            study.enqueue_trial(suggestions.defaults())
        _Search(study, log, opened, suggestions, folder, metric, seed, ends, progress, track).run(limits.trials, tell)
        write_outcome(study, folder, metric)
        with contextlib.suppress(OSError):  # a trial that is not finished keeps its checkpoints there
            (folder / TRIALS).rmdir()
    return study


@dataclass(frozen=True, eq=False)
class _Search:
    study: "optuna.Study"
    path: Path
    log: InteractionLog
    suggestions: Suggestions
    folder: Path
    metric: str
    seed: int
    ends: float | None
    progress: Progress
    track: Track | None

    def run(self, trials: int, tell: Tell) -> None:
        import optuna

        while (done := len(finished_trials(self.study))) < trials and not self._late():
            self.progress("trials", done, trials, "trials")
            self.study.sampler = optuna.samplers.TPESampler(seed=self.seed + done)  # the same after a kill
            trial = self.study.ask()
            try:
                self._try(trial)
            except TimeIsUpError:
                return
            write_outcome(self.study, self.folder, self.metric)
            tell(self.study.get_trials(deepcopy=False)[trial.number])
        self.progress("trials", min(done, trials), trials, "trials")

    def _late(self) -> bool:
        return self.ends is not None and time.monotonic() >= self.ends

    def _try(self, trial: "optuna.Trial") -> None:
        """Train with the suggested settings and tell the study how it went."""
        import optuna
        from optuna.trial import TrialState

        chosen = self.suggestions.settings_of(trial)
        config = self.suggestions.config_of(chosen)
        trial.set_user_attr(SETTINGS, json.dumps(chosen, default=str))
        place = self.folder / TRIALS / config.fingerprint(self.log.content_hash)[:16]
        watched = self.track(trial.number, config, place) if self.track else None
        try:
            value = self._value(trial, config, place, watched)
        except optuna.TrialPruned:
            self.study.tell(trial, state=TrialState.PRUNED)
        except FAILURES as error:  # it diverged, or is too large: other settings may do better
            trial.set_user_attr(REASON, on_one_line(error) or type(error).__name__)
            self.study.tell(trial, state=TrialState.FAIL)
        else:
            self.study.tell(trial, value)
        shutil.rmtree(place, ignore_errors=True)

    def _value(
        self, trial: "optuna.Trial", config: Config, place: Path, watched: AbstractContextManager[Watch | None] | None
    ) -> float:
        judge = _Judge(trial, self._late, METRICS[self.metric].higher_is_better)
        if watched is None:
            return self._fitted(judge, config, place)
        with watched as watch:
            return self._fitted(judge, config, place, watch)

    def _fitted(self, judge: "_Judge", config: Config, place: Path, watch: Watch | None = None) -> float:
        def both(history: History) -> None:
            if watch is not None:
                watch(history)
            judge(history)

        model = Resus.from_config(config).fit(self.path, folder=place, resume=True, progress=self.progress, watch=both)
        results = model.evaluate(self.log, part="validation", draws=0, progress=self.progress)
        assert results.part == "validation", "a search must not look at test users"
        stages = results.models[model.name].stages.values()
        values = [value for stage in stages if (value := stage.metrics[self.metric]) is not None]
        if not values:
            raise TrainingError("no validation user has a query")
        reached = float(np.mean(values))
        if watch is not None:
            watch.finish(model.history, {f"validation.{self.metric}": reached})
        return reached


class _Judge:
    """Ends a trial whose validation AUC is below the median of earlier trials at the same epoch, or if time is up."""

    def __init__(self, trial: "optuna.Trial", late: Callable[[], bool], higher_is_better: bool) -> None:
        self._trial, self._late, self._sign = trial, late, 1 if higher_is_better else -1
        self._told: set[int] = set()

    def __call__(self, history: History) -> None:
        import optuna

        if self._late():
            raise TimeIsUpError
        if not history or history[0].stage not in JUDGED:
            return
        first = JUDGED[history[0].stage] * STEPS_OF_A_STAGE
        best = float("-inf")
        for record in history:
            best = max(best, record.validation_auc)
            if first + record.epoch not in self._told:
                self._told.add(first + record.epoch)
                self._trial.report(self._sign * best, first + record.epoch)
        if self._trial.should_prune():
            raise optuna.TrialPruned
