"""Run cells: train a method on one data set with one seed, score every support size, keep the results."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from resus.arrays import Floats
from resus.baselines.base import Method, Task
from resus.baselines.shelf import shared_predictor
from resus.config.resolve import PLAIN, resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.population import ScoredQueries, staged_results
from resus.paper.cells.measure import measure
from resus.paper.cells.noise import noise_levels
from resus.paper.cells.plan import PlannedCell, missing
from resus.paper.cells.records import CELLS, Cell, NoiseLevel, TrainedEpoch, append_record, scores_path
from resus.paper.cells.search import choose
from resus.paper.cells.workers import Failures, run_missing
from resus.paper.questions import QUESTIONS
from resus.paper.rivals import METHODS
from resus.progress import Progress, silent
from resus.tensor_files import save_tensors


def run_cells(planned: Sequence[PlannedCell], *, jobs: int, progress: Progress = silent) -> Failures:
    return run_missing(planned, run_cell, missing, jobs=jobs, progress=progress)


def run_cell(planned: PlannedCell, progress: Progress = silent) -> Cell:
    """Run the cell, or resume it. Its line is written last."""
    torch.set_num_threads(planned.threads)
    log = InteractionLog.open(planned.log)
    config = resolve({**PLAIN, **planned.settings, "seed": planned.seed}, data_set=log.data_set)
    spec = METHODS[planned.method]
    work = planned.folder / "unfinished" / planned.name
    shelf = planned.folder / "shelf" / (planned.data_set + ("-alone" if planned.alone else ""))
    hyperparameters = choose(planned, spec, log, config, progress) if planned.search else {}
    task = Task(log, config, folder=work, shelf=shelf, progress=progress)
    measured = measure(planned.method, spec, task, hyperparameters)
    results = staged_results(measured.scored, stages=config.evaluation.stages, base=planned.method)
    cell = Cell(
        data_set=planned.data_set,
        method=planned.method,
        seed=planned.seed,
        mark=config.fingerprint(log.content_hash)[:12],
        hyperparameters=hyperparameters,
        results=results[planned.method],
        epochs=[
            TrainedEpoch(stage=each.stage, epoch=each.epoch, validation_auc=each.validation_auc, seconds=each.seconds)
            for each in measured.history
        ],
        seconds=measured.seconds,
        threads=planned.threads,
        alone=planned.alone,
        noise=_noise(planned, measured.method, task, measured.ordered),
    )
    kept = scores_path(planned.folder, planned.key)
    if not kept.exists():  # a cell that runs again to be timed keeps its first results and scores
        _keep_scores(kept, measured.scored, config, measured.scored.logits[planned.method])
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
    assert predictor.network is not None, "the default predictor is a network"
    encoder = predictor.network.get_submodule("encoder")
    return noise_levels(method, task.log, ordered, encoder, task.config.evaluation.max_size)
