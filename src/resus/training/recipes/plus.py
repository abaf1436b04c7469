"""The recipe of RESUS+."""

import numpy as np
import torch

from resus.arrays import Floats
from resus.model.learners import FactorSettings
from resus.model.personalizer import Personalizer
from resus.training.factors import learn_factors
from resus.training.predictor import better_of, cross_fit, fill_logits, open_logits, pretrain
from resus.training.run import Run
from resus.training.scales import learn_scales

FEW_USERS = 2000


def train_plus(run: Run, model: Personalizer) -> None:
    """Learn the shared predictor, then the factors of the encoder, then the scales of the learner.

    The factors come from the training users. The scales come from the validation users, whose labels trained neither
    the predictor nor the factors. With few users, predictors that miss a fold of them are worse than the one of all,
    and factors learned on their logits may be, too: so the factors are also learned without folds, and the validation
    users choose.
    """
    pretrain(run, model.predictor)
    kept = open_logits(run)
    fitted = cross_fit(run, kept)  # the training users' logits, from predictors that never saw them
    model.use_predictor(better_of(run, model.predictor, fitted))
    model.fusion.requires_grad_(False)  # a posterior mean needs no weight

    start = _copy(model)
    losses, trained = [], []
    ways = {"": np.array(kept)}  # a copy: the file holds no logits of this model's own predictor
    if fitted and len(run.split.train) < FEW_USERS:
        ways[" without folds"] = np.full_like(kept, np.nan)
    for stage, logits in ways.items():
        fill_logits(run, logits, model.predictor)
        model.load_state_dict(start)
        _learn(run, model, logits, stage)
        sizes = run.validation.middle_sizes(run.config.evaluation.stages.values())
        losses.append(run.validation.logloss_of_model(model, logits, sizes))
        trained.append(_copy(model))
    model.load_state_dict(trained[int(np.argmin(losses))])


def _learn(run: Run, model: Personalizer, logits: Floats, stage: str) -> None:
    """Factors and scales on these logits of the training and validation users."""
    torch.manual_seed(run.config.seed)
    sizes = run.validation.middle_sizes(run.config.evaluation.stages.values())

    def validate() -> float:
        """At one support size per stage, which is enough to compare epochs of the factors."""
        return run.validation.auc_of_model(model, logits, sizes)

    epochs, patience = FactorSettings.of(run.config.encoder).epochs, run.config.training.patience
    schedule = run.schedule(f"factors{stage}", epochs=epochs, patience=patience, validate=validate)
    learn_factors(model, logits, run.log, run.split.train, schedule, seed=run.config.seed)
    learn_scales(run, model, logits, validate, f"scales{stage}")


def _copy(model: Personalizer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}
