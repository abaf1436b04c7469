"""Run one cell: train a method on one data set with one seed, score every support size, keep the results."""

import shutil
import time
from pathlib import Path

import numpy as np
import torch

from resus.arrays import Floats
from resus.baselines.base import Method, Task
from resus.baselines.shelf import shared_predictor
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.population import ScoredQueries, staged_results
from resus.history import History
from resus.model.predictors.neural import NeuralPredictor
from resus.paper.cells.noise import noise_levels
from resus.paper.cells.plan import PlannedCell
from resus.paper.cells.records import CELLS, Cell, NoiseLevel, Seconds, TrainedEpoch, append_record, scores_path
from resus.paper.cells.search import choose
from resus.paper.questions import QUESTIONS
from resus.paper.rivals import METHODS
from resus.progress import Progress, silent
from resus.tensor_files import save_tensors


def run_cell(planned: PlannedCell, progress: Progress = silent) -> Cell:
    """Run the cell, or resume it. Its line is written last."""
    torch.set_num_threads(planned.threads)
    log = InteractionLog.open(planned.log)
    config = resolve({**planned.settings, "seed": planned.seed}, data_set=log.data_set)
    spec = METHODS[planned.method]
    work = planned.folder / "unfinished" / planned.name
    shelf = planned.folder / "shelf" / (planned.data_set + ("-alone" if planned.alone else ""))
    hyperparameters = choose(planned, spec, log, config, progress) if planned.search else {}
    task = Task(log, config, folder=work, shelf=shelf, progress=progress)
    pretraining: History = shared_predictor(task, spec.predictor)[1] if spec.predictor else []

    method = spec.build(**hyperparameters)
    began = time.perf_counter()
    history = method.fit(task)
    training = time.perf_counter() - began
    if planned.method == spec.predictor:  # Ψ itself came from the shelf: its pretraining is its training
        pretraining = []
    else:
        history = [line for line in history if line not in pretraining]
    training = max(training, _seconds(history))  # a resumed cell took longer than this process saw
    own = [] if spec.predictor else [line for line in history if line.stage == "predictor"]

    ordered = OrderedUsers.of(log, task.split.test, config.seed)
    began = time.perf_counter()
    logits = method.score_prefixes(log, ordered, config.evaluation.sizes)
    scoring = time.perf_counter() - began
    scored = ScoredQueries(
        labels=log.labels[ordered.rows],
        users=np.repeat(ordered.users, ordered.lengths),
        positions=ordered.positions,
        sizes=config.evaluation.sizes,
        logits={planned.method: logits},
    )
    cell = Cell(
        data_set=planned.data_set,
        method=planned.method,
        seed=planned.seed,
        mark=config.fingerprint(log.content_hash)[:12],
        hyperparameters=hyperparameters,
        results=staged_results(scored, stages=config.evaluation.stages, base=planned.method)[planned.method],
        epochs=[
            TrainedEpoch(stage=each.stage, epoch=each.epoch, validation_auc=each.validation_auc, seconds=each.seconds)
            for each in history
        ],
        seconds=Seconds(
            pretraining=round(_seconds(pretraining) + _seconds(own), 2),
            training=round(training - _seconds(own), 2),
            scoring=round(scoring, 2),
        ),
        threads=planned.threads,
        alone=planned.alone,
        noise=_noise(planned, method, task, ordered),
    )
    kept = scores_path(planned.folder, planned.key)
    if not kept.exists():  # a cell that runs again to be timed keeps its first results and scores
        _keep_scores(kept, scored, config, logits)
    append_record(planned.folder / CELLS, cell)
    shutil.rmtree(work, ignore_errors=True)
    return cell


def _keep_scores(path: Path, scored: ScoredQueries, config: Config, logits: Floats) -> None:
    tensors = {
        "logits": torch.from_numpy(np.ascontiguousarray(logits)),
        "labels": torch.from_numpy(scored.labels),
        "users": torch.from_numpy(scored.users),
        "positions": torch.from_numpy(scored.positions),
    }
    save_tensors(path, tensors, {"sizes": list(scored.sizes), "stages": config.evaluation.stages})


def _noise(planned: PlannedCell, method: Method, task: Task, ordered: OrderedUsers) -> list[NoiseLevel] | None:
    """Only where time orders the events, as in the paper."""
    if planned.method not in QUESTIONS["rq4"].methods or not task.log.ordered:
        return None
    predictor, _ = shared_predictor(task)
    assert isinstance(predictor, NeuralPredictor)
    return noise_levels(method, task.log, ordered, predictor, task.config.evaluation.max_size)


def _seconds(history: History) -> float:
    return float(sum(epoch.seconds for epoch in history))
