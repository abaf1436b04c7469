"""Training on the workers of a cluster, through Ray Train: Ray starts them and, when one dies, all of them anew.

What they do is `Resus.fit` with a crew; a crew that is started anew goes on from the checkpoint in the run folder, so
that folder and the log must be where every worker sees them.
"""

import shutil
from pathlib import Path
from typing import Any

from resus.artifact import FACTS
from resus.cluster.news import leave_in, told_from
from resus.cluster.ray_cluster import cluster
from resus.config.settings import Config
from resus.errors import ResusError, TrainingError
from resus.estimator import Resus
from resus.progress import Progress, silent
from resus.training.crew import TorchCrew
from resus.training.run import CLUSTERS_OWN

RESTARTS = 3  # of all workers after one has died
PATIENCE_SECONDS = 24 * 3600  # that workers wait for one which grows trees or validates
NEWS = Path(CLUSTERS_OWN) / "progress.json"


def fit_on_ray(
    config: Config,
    log: Path,
    *,
    folder: Path,
    workers: int,
    resume: bool = False,
    predictor_from: Path | None = None,
    progress: Progress = silent,
) -> Resus:
    """`Resus.fit` on `workers` processes of a cluster; two or twenty learn the model that one learns."""
    folder, log = folder.resolve(), log.resolve()
    model = Resus.from_config(config)
    pretrained = Resus.load(predictor_from) if predictor_from else None
    if (folder / FACTS).is_file():
        return model.fit(log, folder=folder, resume=resume, predictor_from=pretrained)
    with cluster(workers):
        model.claim(log, folder=folder, resume=resume, predictor_from=pretrained)
        task = {
            "config": config.model_dump(mode="json"),
            "log": str(log),
            "folder": str(folder),
            "predictor_from": str(predictor_from.resolve()) if predictor_from else None,
        }
        with told_from(folder / NEWS, progress):
            _run(task, workers)
    return Resus.load(folder)


def _run(task: dict[str, Any], workers: int) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer

    own = Path(task["folder"]) / CLUSTERS_OWN
    trainer = TorchTrainer(
        _work,
        train_loop_config=task,
        torch_config=TorchConfig(timeout_s=PATIENCE_SECONDS),
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
    return TrainingError(f"the workers gave up after {RESTARTS} restarts ({first}): the same with --resume goes on")


def _work(task: dict[str, Any]) -> None:
    """One worker's part."""
    crew, folder = TorchCrew(), Path(task["folder"])
    predictor_from = Resus.load(task["predictor_from"]) if task["predictor_from"] else None
    Resus.from_config(Config.model_validate(task["config"])).fit(
        task["log"],
        folder=folder,
        resume=True,
        predictor_from=predictor_from,
        progress=leave_in(folder / NEWS) if crew.rank == 0 else silent,
        crew=crew,
    )
