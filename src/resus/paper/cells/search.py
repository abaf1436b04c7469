"""Hyperparameters of the rivals, chosen on the validation users of the first seed; what was tried is kept."""

import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resus.baselines.method import Task
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.errors import TrainingError
from resus.files import append_line, locked
from resus.history import best_epoch
from resus.paper.cells.cells import whole_lines
from resus.paper.rivals.catalogue import Entry
from resus.progress import Progress

SEARCHES = "searches.jsonl"
ROWS = 120_000  # of the training users, about: enough to tell a good step size from a bad one
EPOCHS = 3


def choose(
    folder: Path, method: str, entry: Entry, log: InteractionLog, data_set: str, config: Config, progress: Progress
) -> dict[str, Any]:
    """The point of the method's grid with the best validation AUC; points already tried are not tried again."""
    if not entry.grid:
        return {}
    with locked(folder / "locks" / f"search-{data_set}-{method}.lock"):
        tried = [line for line in read_searches(folder) if (line["data_set"], line["method"]) == (data_set, method)]
        grid = [dict(zip(entry.grid, values, strict=True)) for values in itertools.product(*entry.grid.values())]
        tried = [line for line in tried if line["point"] in grid]
        done = [line["point"] for line in tried]
        for point in grid:
            if point not in done:
                tried.append(_try(entry, point, log, config, folder, progress) | {"data_set": data_set})
                tried[-1]["method"] = method
                append_line(folder / SEARCHES, json.dumps(tried[-1]))
    best: Mapping[str, Any] = max(tried, key=lambda line: line["validation_auc"])
    return dict(best["point"])


def read_searches(folder: Path) -> list[dict[str, Any]]:
    """Every point that was tried, with the validation AUC that it reached."""
    return [json.loads(line) for line in whole_lines(folder / SEARCHES)]


def _try(
    entry: Entry, point: dict[str, Any], log: InteractionLog, config: Config, folder: Path, progress: Progress
) -> dict[str, Any]:
    settings = {"seed": 1, "training.epochs": min(EPOCHS, config.training.epochs)}
    everyone = Task(log, config.changed(settings))
    rows = int(log.lengths[everyone.split.train].sum())
    task = Task(log, everyone.config, shelf=folder / "shelf" / "search", progress=progress, every=max(1, rows // ROWS))
    began = time.perf_counter()
    try:
        history = entry.build(**point).fit(task)
        score = best_epoch(history).validation_auc  # a stage never ends below its start
    except TrainingError:  # a step size that diverges is a bad one
        score = 0.0
    return {"point": point, "validation_auc": score, "seconds": round(time.perf_counter() - began, 1)}
