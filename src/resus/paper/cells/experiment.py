"""One cell: train a method on one data set with one seed, score every support size, keep what came out."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from resus.baselines.method import Floats, Method, Task
from resus.baselines.shared_predictor import shared_predictor
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.population import ScoredQueries, staged_results
from resus.history import EpochRecord, History
from resus.model.predictors.neural import NeuralPredictor
from resus.paper.cells.cells import Cell, Epoch, Key, NoiseLevel, Seconds, add_cell, scores_path
from resus.paper.cells.noise import noise_levels
from resus.paper.cells.search import choose
from resus.paper.questions import QUESTIONS
from resus.paper.rivals.catalogue import entry_of
from resus.progress import Progress, silent
from resus.tensor_files import save_tensors


@dataclass(frozen=True)
class Request:
    """A cell to run. `settings` are a run's settings by dotted key, on top of the data set's.

    Without `search` the method's default hyperparameters are taken.
    """

    folder: Path
    log: Path
    data_set: str
    method: str
    seed: int
    settings: Mapping[str, Any]
    threads: int
    alone: bool
    search: bool = True

    @property
    def key(self) -> Key:
        return self.data_set, self.method, self.seed

    @property
    def name(self) -> str:
        return f"{self.data_set}-{self.method}-{self.seed}" + ("-alone" if self.alone else "")


def run_cell(request: Request, progress: Progress = silent) -> Cell:
    """Run it, or go on with it; its line is written last."""
    torch.set_num_threads(request.threads)
    log = InteractionLog.open(request.log)
    config = resolve({**request.settings, "seed": request.seed}, data_set=log.data_set)
    entry = entry_of(request.method)
    work = request.folder / "unfinished" / request.name
    shelf = request.folder / "shelf" / (request.data_set + ("-alone" if request.alone else ""))
    hyperparameters = {}
    if request.search:
        hyperparameters = choose(request.folder, request.method, entry, log, request.data_set, config, progress)
    task = Task(log, config, folder=work, shelf=shelf, progress=progress)
    pretraining: History = shared_predictor(task, entry.predictor)[1] if entry.predictor else []

    method = entry.build(**hyperparameters)
    began = time.perf_counter()
    history = method.fit(task)
    training = time.perf_counter() - began
    if request.method == entry.predictor:  # Ψ itself came from the shelf: its pretraining is its training
        pretraining = []
    else:
        history = [line for line in history if line not in pretraining]
    training = max(training, _seconds(history))  # a cell that was gone on with took longer than it seems
    own = [] if entry.predictor else [line for line in history if line.stage == "predictor"]

    ordered = OrderedUsers.of(log, task.split.test, config.seed)
    began = time.perf_counter()
    logits = method.score_prefixes(log, ordered, config.evaluation.sizes)
    scoring = time.perf_counter() - began
    scored = _scored(log, ordered, config, request.method, logits)
    cell = Cell(
        data_set=request.data_set,
        method=request.method,
        seed=request.seed,
        mark=config.fingerprint(log.content_hash)[:12],
        hyperparameters=hyperparameters,
        results=staged_results(scored, stages=config.evaluation.stages, base=request.method)[request.method],
        epochs=[_epoch(line) for line in history],
        seconds=Seconds(
            pretraining=round(_seconds(pretraining) + _seconds(own), 2),
            training=round(training - _seconds(own), 2),
            scoring=round(scoring, 2),
        ),
        threads=request.threads,
        alone=request.alone,
        noise=_noise(request, method, task, ordered),
    )
    kept = scores_path(request.folder, request.key)
    if not kept.exists():  # a cell that is timed again has its scores, and its first results count
        _keep_scores(kept, scored, config, logits)
    add_cell(request.folder, cell)
    shutil.rmtree(work, ignore_errors=True)
    return cell


def _scored(log: InteractionLog, ordered: OrderedUsers, config: Config, name: str, logits: Floats) -> ScoredQueries:
    return ScoredQueries(
        labels=log.labels[ordered.rows],
        users=np.repeat(ordered.users, ordered.lengths),
        positions=ordered.positions,
        sizes=config.evaluation.sizes,
        logits={name: logits},
    )


def _keep_scores(path: Path, scored: ScoredQueries, config: Config, logits: Floats) -> None:
    tensors = {
        "logits": torch.from_numpy(np.ascontiguousarray(logits)),
        "labels": torch.from_numpy(scored.labels),
        "users": torch.from_numpy(scored.users),
        "positions": torch.from_numpy(scored.positions),
    }
    save_tensors(path, tensors, {"sizes": list(scored.sizes), "stages": config.evaluation.stages})


def _noise(request: Request, method: Method, task: Task, ordered: OrderedUsers) -> list[NoiseLevel] | None:
    """Only where time orders the events, as in the paper: else a support says nothing about the past."""
    if request.method not in QUESTIONS["rq4"].methods or not task.log.ordered:
        return None
    predictor, _ = shared_predictor(task)
    assert isinstance(predictor, NeuralPredictor)
    return noise_levels(method, task.log, ordered, predictor, task.config.evaluation.max_size)


def _epoch(line: EpochRecord) -> Epoch:
    return Epoch(stage=line.stage, epoch=line.epoch, validation_auc=line.validation_auc, seconds=line.seconds)


def _seconds(history: History) -> float:
    return float(sum(line.seconds for line in history))
