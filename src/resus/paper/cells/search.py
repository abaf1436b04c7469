"""Choose the hyperparameters of a rival on the validation users of the first seed, and keep every trial."""

import itertools
import time
from pathlib import Path

from resus.baselines.base import MethodSpec, Task
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.errors import TrainingError
from resus.files import locked
from resus.history import best_epoch
from resus.paper.cells.plan import PlannedCell
from resus.paper.cells.records import TRIALS, Hyperparameters, Trial, append_record, read_trials
from resus.progress import Progress

ROWS = 120_000  # about as many rows of training users: enough to tell a good step size from a bad one
EPOCHS = 3


def choose(
    planned: PlannedCell, spec: MethodSpec, log: InteractionLog, config: Config, progress: Progress
) -> Hyperparameters:
    """The point of the method's grid with the best validation AUC. Earlier trials count and do not run again."""
    if not spec.grid:
        return {}
    folder, data_set, method = planned.folder, planned.data_set, planned.method
    grid = [dict(zip(spec.grid, values, strict=True)) for values in itertools.product(*spec.grid.values())]
    with locked(folder / "locks" / f"search-{data_set}-{method}.lock"):
        known = [trial for trial in read_trials(folder) if (trial.data_set, trial.method) == (data_set, method)]
        trials = [trial for trial in known if trial.point in grid]
        tried = [trial.point for trial in trials]
        for point in (point for point in grid if point not in tried):
            auc, seconds = _try(spec, point, log, config, folder, progress)
            trial = Trial(data_set=data_set, method=method, point=point, validation_auc=auc, seconds=seconds)
            append_record(folder / TRIALS, trial)
            trials.append(trial)
    return max(trials, key=lambda trial: trial.validation_auc).point


def _try(
    spec: MethodSpec, point: Hyperparameters, log: InteractionLog, config: Config, folder: Path, progress: Progress
) -> tuple[float, float]:
    """Validation AUC and seconds."""
    everyone = Task(log, config.changed({"seed": 1, "training.epochs": min(EPOCHS, config.training.epochs)}))
    rows = int(log.lengths[everyone.split.train].sum())
    task = Task(log, everyone.config, shelf=folder / "shelf" / "search", progress=progress, every=max(1, rows // ROWS))
    began = time.perf_counter()
    try:
        history = spec.build(**point).fit(task)
        reached = best_epoch(history).validation_auc  # a stage never ends below its start
    except TrainingError:  # training diverged: a bad step size
        reached = 0.0
    return reached, round(time.perf_counter() - began, 1)
