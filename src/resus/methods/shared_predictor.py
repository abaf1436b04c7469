"""Ψ, trained once for all the methods of a comparison that stand on it."""

import hashlib
import json

from resus.builders import AnyPredictor, build_predictor
from resus.files import locked
from resus.methods.method import History, Task
from resus.trainer import forget_checkpoints, train_predictor
from resus.training.checkpoint import load_tensors, save_tensors


def shared_predictor(task: Task, kind: str | None = None) -> tuple[AnyPredictor, History]:
    """A Ψ trained on the task's training users, and how it came about; the task's own, or from its shelf if there.

    Without a `kind`, the task's own if it has one, else DeepFM. Of several processes that ask for the same one, one
    trains and the others wait.
    """
    if task.predictor is not None and kind in (None, task.config.predictor.kind):
        return task.predictor, []
    kind = kind or "deepfm"
    config = task.config.changed({"predictor.kind": kind, "predictor.column": "", "predictor.pretrain": True})
    if task.shelf is None:
        return train_predictor(config, task.log, progress=task.progress)
    rests_on = [config.seed, config.predictor.model_dump(mode="json"), config.split.model_dump(mode="json")]
    mark = hashlib.sha256(json.dumps([*rests_on, task.log.content_hash]).encode()).hexdigest()[:12]
    path = task.shelf / f"{kind}-{config.seed}-{mark}.safetensors"
    with locked(path.with_suffix(".lock")):
        if path.exists():
            predictor = build_predictor(config, task.log.features)
            tensors, facts = load_tensors(path)
            predictor.load_state_dict(tensors)
            return predictor, facts["history"]
        unfinished = path.with_suffix("")
        predictor, history = train_predictor(config, task.log, folder=unfinished, progress=task.progress)
        save_tensors(path, dict(predictor.state_dict()), {"history": history})
        forget_checkpoints(unfinished)
    return predictor, history
