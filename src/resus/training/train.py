"""Train a model: open the run, build the parts, and follow the recipe that the learner names, stage by stage."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from resus.arrays import Floats
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.errors import ConfigError
from resus.history import History
from resus.model.build import build_personalizer
from resus.model.learners import FactorSettings, PlusSettings
from resus.model.personalizer import Personalizer
from resus.progress import Progress, silent
from resus.training.episodes import metatrain
from resus.training.factors import learn_factors, refine_factors
from resus.training.loop import Schedule
from resus.training.predictor import cross_fit, fill_logits, open_logits, pretrain
from resus.training.run import Run, TrainedPredictor
from resus.training.workers import Workers


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model and how its training went."""

    model: Personalizer
    history: History


def train(
    config: Config,
    log: InteractionLog,
    *,
    folder: Path | None = None,
    resume: bool = False,
    given: TrainedPredictor | None = None,
    progress: Progress = silent,
    workers: Workers | None = None,
) -> Trained:
    """Train on the training users and choose epochs on the validation users; the test users are never read.

    With a `folder`, history and checkpoints are kept there. `given` is a trained shared predictor to use. Several
    `workers` train one model together; they must see the same folder.
    """
    if given is not None and config.predictor.joint:
        raise ConfigError(
            "predictor.pretrain=false trains the shared predictor together with the rest, so it cannot come from "
            "another run: choose one"
        )
    run = Run(config, log, folder=folder, given=given, progress=progress, workers=workers)
    run.open(resume=resume)
    torch.manual_seed(config.seed)
    predictor = config.predictor.build_predictor(log.features)  # always drawn: the rest starts from the same weights
    model = build_personalizer(config, log.features, given.predictor if given else predictor)
    RECIPES[config.learner.recipe](run, model)
    return Trained(model, run.history)


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


def write_cross_fitted_logits(
    config: Config, log: InteractionLog, given: TrainedPredictor, *, folder: Path, progress: Progress = silent
) -> History:
    """Fill the file `given.logits` with the training users' cross-fitted logits. Resumes an unfinished run."""
    run = Run(config, log, folder=folder, given=given, progress=progress)
    run.open(resume=True)
    cross_fit(run, open_logits(run))
    return run.history


def train_paper(run: Run, model: Personalizer) -> None:
    """Learn the shared predictor; then encoder, learner and fusion on episodes of the training users.

    Without pretraining ("w/o pretrain"), all four learn together on the episodes.
    """
    if run.config.predictor.joint:
        metatrain(run, model, None, "residuals")
        return
    pretrain(run, model.predictor)
    logits = open_logits(run)
    fill_logits(run, logits, model.predictor)
    metatrain(run, model, logits, "residuals")


def train_plus(run: Run, model: Personalizer) -> None:
    """Learn the shared predictor, then the factors of the encoder and the scales of the learner's prior in turn.

    The factors come from the training users. The scales come from the validation users, whose labels trained neither
    the predictor nor the factors.
    """
    pretrain(run, model.predictor)
    logits = open_logits(run)
    cross_fit(run, logits)  # the training users' logits, from predictors that never saw them
    fill_logits(run, logits, model.predictor)

    model.fusion.requires_grad_(False)  # a posterior mean needs no weight
    torch.manual_seed(run.config.seed)
    factors = _schedule(run, "factors", model, logits)
    learn_factors(model, logits, run.log, run.split.train, factors, seed=run.config.seed)
    _learn_scales(run, model, logits, "scales")
    if FactorSettings.of(run.config.encoder).refine and PlusSettings.of(run.config.learner).taste:
        evidence = _schedule(run, "evidence", model, logits, start=_validation_auc(run, model, logits))
        refine_factors(model, logits, run.log, run.split.train, evidence, seed=run.config.seed)
        _learn_scales(run, model, logits, "final scales")


def _schedule(run: Run, stage: str, model: Personalizer, logits: Floats, start: float = float("-inf")) -> Schedule:
    return run.schedule(
        stage,
        epochs=FactorSettings.of(run.config.encoder).epochs,
        patience=run.config.training.patience,
        validate=lambda: _validation_auc(run, model, logits),
        start=start,
    )


def _learn_scales(run: Run, model: Personalizer, logits: Floats, stage: str) -> None:
    model.encoder.requires_grad_(False)
    metatrain(run, model, logits, stage)
    model.encoder.requires_grad_(True)


def _validation_auc(run: Run, model: Personalizer, logits: Floats) -> float:
    """At one support size per stage, which is enough to compare epochs of the factors."""
    sizes = run.validation.middle_sizes(run.config.evaluation.stages.values())
    return run.validation.auc_of_model(model, logits, sizes)


RECIPES: dict[str, Callable[[Run, Personalizer], None]] = {"paper": train_paper, "plus": train_plus}
