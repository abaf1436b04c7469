"""Training on the workers of a Ray cluster. Ray starts them and, if one dies, starts all of them again.

Each worker runs `Resus.fit`. After a restart they resume from the checkpoints in the run folder, so every worker must
see that folder and the log.
"""

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resus.artifact import FACTS
from resus.cluster import cluster
from resus.config.settings import Config
from resus.errors import ResusError, TrainingError
from resus.estimator import Resus
from resus.files import write_text
from resus.progress import Progress, silent
from resus.training.run import CLUSTER
from resus.training.workers import TorchWorkers

RESTARTS = 3  # of all workers, after one has died
TIMEOUT_SECONDS = 24 * 3600  # workers wait so long for one that fits trees or validates
PROGRESS_FILE = Path(CLUSTER) / "progress.json"
PROGRESS_SECONDS = 0.5


def fit_on_ray(
    config: Config,
    log: Path,
    *,
    folder: Path,
    workers: int,
    resume: bool = False,
    predictor_from: Path | None = None,
    warm_start: Path | None = None,
    progress: Progress = silent,
) -> Resus:
    """`Resus.fit` on a number of workers. The model is the one that a single process learns."""
    folder, log = folder.resolve(), log.resolve()
    model = Resus.from_config(config)
    source, start = (Resus.load(run) if run else None for run in (predictor_from, warm_start))
    if (folder / FACTS).is_file():
        return model.fit(log, folder=folder, resume=resume, predictor_from=source, warm_start=start)
    with cluster(workers):
        model.claim(log, folder=folder, resume=resume, predictor_from=source, warm_start=start)
        task = {
            "config": config.model_dump(mode="json"),
            "log": str(log),
            "folder": str(folder),
            "predictor_from": str(predictor_from.resolve()) if predictor_from else None,
            "warm_start": str(warm_start.resolve()) if warm_start else None,
        }
        with _progress_from(folder / PROGRESS_FILE, progress):
            _run(task, workers)
    return Resus.load(folder)


def _run(task: dict[str, Any], workers: int) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer

    own = Path(task["folder"]) / CLUSTER
    trainer = TorchTrainer(
        _work,
        train_loop_config=task,
        torch_config=TorchConfig(timeout_s=TIMEOUT_SECONDS),
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(storage_path=str(own), failure_config=FailureConfig(max_failures=RESTARTS)),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        raise _reason(error) from error
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _reason(error: Exception) -> ResusError:
    failures = list(getattr(error, "worker_failures", {}).values())
    known = next((failure for failure in failures if isinstance(failure, ResusError)), None)
    if known is not None:
        return known
    first = " ".join(str(failures[0] if failures else error).split())[:300]
    return TrainingError(
        f"the workers failed again after {RESTARTS} restarts ({first}): resume with the same command and --resume"
    )


def _work(task: dict[str, Any]) -> None:
    """What each worker runs."""
    workers, folder = TorchWorkers(), Path(task["folder"])
    predictor_from = Resus.load(task["predictor_from"]) if task["predictor_from"] else None
    Resus.from_config(Config.model_validate(task["config"])).fit(
        task["log"],
        folder=folder,
        resume=True,
        predictor_from=predictor_from,
        warm_start=task["warm_start"],
        progress=_progress_to(folder / PROGRESS_FILE) if workers.rank == 0 else silent,
        workers=workers,
    )


def _progress_to(path: Path) -> Progress:
    """Progress that a worker writes to a file, not too often."""
    last_task, last_time = "", 0.0

    def write(task: str, done: int, total: int | None, unit: str = "") -> None:
        nonlocal last_task, last_time
        now = time.monotonic()
        if task != last_task or now - last_time >= PROGRESS_SECONDS or done == total:
            last_task, last_time = task, now
            write_text(path, json.dumps([task, done, total, unit]))

    return write


@contextlib.contextmanager
def _progress_from(path: Path, progress: Progress) -> Iterator[None]:
    """Pass on what a worker writes to a file while the block runs."""
    ended = threading.Event()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):  # not written yet, or deleted with the checkpoints
            progress(*json.loads(path.read_text(encoding="utf-8")))

    def watch() -> None:
        while not ended.wait(PROGRESS_SECONDS):
            read()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        read()
