"""A shelf of shared predictors and their cross-fitted logits: trained once for all methods that need them."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.files import locked, read_json, write_json
from resus.history import EpochRecord, History
from resus.model.learners import PlusSettings
from resus.model.predictors import PREDICTORS
from resus.model.predictors.base import Predictor
from resus.tensor_files import load_tensors, save_tensors
from resus.training.run import TrainedPredictor, delete_checkpoints
from resus.training.train import cross_fitted_logits, train_predictor


def shared_predictor(task: Task, kind: str | None = None) -> tuple[Predictor, History]:
    """A Ψ trained on the task's training users, and its training history.

    It is the task's own Ψ if that has the right kind, else one from the shelf, else a new one. Without a `kind` it is
    the task's own Ψ, or DeepFM. When several processes ask for the same Ψ, one trains it and the others wait.
    """
    if task.predictor is not None and kind in (None, task.config.predictor.kind):
        return task.predictor, []
    kind = kind or "deepfm"
    pretrain = {"predictor.pretrain": True} if PREDICTORS.is_architecture(kind) else {}
    config = task.config.changed({"predictor.kind": kind, **pretrain})
    if task.shelf is None:
        trained = train_predictor(config, task.log, progress=task.progress)
        return trained.predictor, list(trained.history)
    path = task.shelf / f"{kind}-{config.seed}-{_mark(config, task.log)}.safetensors"
    with locked(path.with_suffix(".lock")):
        if path.exists():
            predictor = config.predictor.build_predictor(task.log.features)
            tensors, facts = load_tensors(path)
            predictor.load_state_dict(tensors)
            return predictor, [EpochRecord(**record) for record in facts["history"]]
        unfinished = path.with_suffix("")
        trained = train_predictor(config, task.log, folder=unfinished, progress=task.progress)
        history = [record.to_json() for record in trained.history]
        save_tensors(path, dict(trained.predictor.state_dict()), {"history": history})
        delete_checkpoints(unfinished)
    return trained.predictor, list(trained.history)


def shared_logits(task: Task, config: Config) -> tuple[Path | None, History]:
    """The file of cross-fitted logits for these settings, and the history of the predictors behind them.

    None if there is no shelf or nothing to share.
    """
    if task.shelf is None or not config.cross_fitted or task.predictor is not None:
        return None, []
    plain = task.config.changed(
        {
            **config.learner.presets(config.protocol),
            "learner.kind": config.learner.kind,
            **{f"predictor.{name}": value for name, value in config.predictor},
            "training.folds": config.training.folds,
        }
    )
    kind = f"{plain.predictor.kind}-{plain.seed}-{_mark(plain, task.log)}"
    path = task.shelf / f"{kind}-folds-{plain.training.folds}.npy"
    finished = path.with_suffix(".json")
    given = TrainedPredictor(*shared_predictor(task, plain.predictor.kind), path)
    with locked(path.with_suffix(".lock")):
        if finished.exists():
            return path, [EpochRecord(**record) for record in read_json(finished)]
        unfinished = path.with_suffix("")
        _, history = cross_fitted_logits(plain, task.log, given, folder=unfinished, progress=task.progress)
        write_json(finished, [record.to_json() for record in history])
        delete_checkpoints(unfinished)
    return path, history


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Ψ, and its logits of every row of training and validation users; NaN for test users.

    A training user's logits come from predictors that never saw the user, so their errors are as large as those for a
    new user.
    """

    predictor: Predictor
    logits: Floats  # [rows of the log]
    history: History


def cross_fitted_predictor(task: Task) -> CrossFitted:
    """The Ψ of `shared_predictor`, with the folds of RESUS+, so that methods with one shelf share them.

    A Ψ that resus does not train has no folds: its own logits are taken for everyone.
    """
    own = {} if task.predictor is not None else {"predictor.kind": "deepfm", "predictor.pretrain": True}
    config = task.config.changed({**own, **PlusSettings.presets("paper"), "learner.kind": "plus"})
    predictor, history = shared_predictor(task)
    path, folds = shared_logits(task, config)
    if path is not None:
        logits = np.array(np.lib.format.open_memmap(path, mode="r"))
    elif config.cross_fitted:
        given = TrainedPredictor(predictor, history)
        logits, folds = cross_fitted_logits(config, task.log, given, progress=task.progress)
    else:
        logits = np.full(task.log.n_rows, np.nan, dtype=np.float32)
    rows = task.log.rows_of(np.concatenate([task.split.train, task.split.validation]))
    missing = rows[np.isnan(logits[rows])]
    logits[missing] = predictor.logits_of_rows(task.log, missing)
    return CrossFitted(predictor, logits, [*history, *folds])


def _mark(config: Config, log: InteractionLog) -> str:
    """A short hash of all that determines a Ψ."""
    rests_on = [config.seed, config.predictor.model_dump(mode="json"), config.split.model_dump(mode="json")]
    return hashlib.sha256(json.dumps([*rests_on, log.content_hash]).encode()).hexdigest()[:12]
