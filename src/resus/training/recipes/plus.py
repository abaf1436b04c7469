"""The recipe of RESUS+."""

import torch

from resus.arrays import Floats
from resus.model.learners import FactorSettings, PlusSettings
from resus.model.personalizer import Personalizer
from resus.training.episodes import metatrain
from resus.training.factors import learn_factors, refine_factors
from resus.training.loop import Schedule
from resus.training.predictor import cross_fit, fill_logits, open_logits, pretrain
from resus.training.run import Run


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
