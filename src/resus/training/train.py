"""Train a model: open the run, build the parts, and follow the recipe that the learner names, stage by stage."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from resus.arrays import Floats
from resus.checking import on_one_line
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit
from resus.errors import ConfigError, TrainingError
from resus.history import History
from resus.model.build import build_personalizer
from resus.model.personalizer import Personalizer
from resus.progress import Progress, silent
from resus.training.loop import REMEDIES, UNSOLVABLE
from resus.training.predictor import cross_fit, open_logits, pretrain
from resus.training.recipes import RECIPES
from resus.training.run import Run, TrainedPredictor
from resus.training.warm_start import WarmStart
from resus.training.workers import Workers


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, how its training went, and with which users."""

    model: Personalizer
    history: History
    split: UserSplit


def train(
    config: Config,
    log: InteractionLog,
    *,
    folder: Path | None = None,
    resume: bool = False,
    given: TrainedPredictor | None = None,
    progress: Progress = silent,
    workers: Workers | None = None,
    start: WarmStart | None = None,
    device: torch.device | None = None,
    watch: Callable[[History], None] | None = None,
) -> Trained:
    """Train on the training users and choose epochs on the validation users; the test users are never read.

    With a `folder`, history and checkpoints are kept there. `given` is a trained shared predictor to use, `start`
    a model whose weights training starts from. Several `workers` train one model together; they must see the same
    folder. `watch` is called with the history of a stage after each of its epochs. The weights start on the
    processor, so that they are the same on every `device`, and then move there.
    """
    if given is not None and config.predictor.joint:
        raise ConfigError(
            "predictor.pretrain=false trains the shared predictor together with the rest, so it cannot come from "
            "another run: choose one"
        )
    if given is not None and start is not None:
        raise ConfigError("a warm start brings its own shared model, so it cannot come from another run: choose one")
    run = Run(
        config,
        log,
        folder=folder,
        given=given,
        progress=progress,
        workers=workers,
        start=start,
        device=device,
        watch=watch,
    )
    run.open(resume=resume)
    torch.manual_seed(config.seed)
    predictor = config.predictor.build_predictor(log.features)  # always drawn: the rest starts from the same weights
    model = build_personalizer(config, log.features, given.predictor if given else predictor)
    if start is not None:
        start.into(config, model, log.features)
    model.move(run.device)
    try:
        RECIPES[config.learner.recipe](run, model)
    except UNSOLVABLE as error:
        raise TrainingError(f"training cannot solve its equations ({on_one_line(error)}); {REMEDIES}") from error
    return Trained(model, run.history, run.split)


def train_predictor(
    config: Config, log: InteractionLog, *, folder: Path | None = None, progress: Progress = silent
) -> TrainedPredictor:
    """Train the shared predictor alone, as `train` does. Resumes an unfinished run."""
    run = Run(config, log, folder=folder, progress=progress)
    run.open(resume=True)
    torch.manual_seed(config.seed)
    predictor = config.predictor.build_predictor(log.features)
    pretrain(run, predictor)
    return TrainedPredictor(predictor, run.history)


def cross_fitted_logits(
    config: Config,
    log: InteractionLog,
    given: TrainedPredictor,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> tuple[Floats, History]:
    """The training users' cross-fitted logits, NaN for all other rows, and how the predictors behind them learned.

    They are kept in the file `given.logits` if it is set. With a `folder`, resumes an unfinished run.
    """
    run = Run(config, log, folder=folder, given=given, progress=progress)
    run.open(resume=True)
    logits = open_logits(run)
    cross_fit(run, logits)
    return logits, run.history
