"""The recipe of RESUS+."""

import math

import numpy as np
import torch

from resus.arrays import Floats
from resus.model.learners import FactorSettings
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
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
    and factors learned on their logits may be, too: so the factors are also learned without folds. Likewise, choices
    may or may not speak of tastes. The validation users choose. After a warm start the factors are always learned
    without folds too, because the predictors of the folds may know less than the one that started warm.
    """
    pretrain(run, model.predictor)
    kept = open_logits(run)
    fitted = cross_fit(run, kept)  # the training users' logits, from predictors that never saw them
    model.use_predictor(better_of(run, model.predictor, fitted))
    model.fusion.requires_grad_(False)  # a posterior mean needs no weight

    best = _Best(run, model)
    own = np.array(kept)  # a copy: the file holds no logits of this model's own predictor
    best.try_("", own, choices_speak_of_tastes=False)
    if PlusLearner.of(model.learner).log_choices is not None:
        best.try_(" shared with choices", own, choices_speak_of_tastes=True)
    if fitted and (len(run.split.train) < FEW_USERS or run.start):
        unfolded = np.full_like(kept, np.nan)
        best.try_(" without folds", unfolded, choices_speak_of_tastes=best.choices_speak_of_tastes)
    model.load_state_dict(best.state)


class _Best:
    """Learns factors and scales in several ways; keeps the one with the lowest Logloss of the validation users."""

    def __init__(self, run: Run, model: Personalizer) -> None:
        self.run, self.model = run, model
        self.start = self.state = _copy(model)
        self.logloss, self.choices_speak_of_tastes = math.inf, False

    def try_(self, stage: str, logits: Floats, *, choices_speak_of_tastes: bool) -> None:
        run, model = self.run, self.model
        fill_logits(run, logits, model.predictor)
        model.load_state_dict(self.start)
        FactorEncoder.of(model.encoder).let_choices_speak_of_tastes(choices_speak_of_tastes)
        _learn(run, model, logits, stage)
        sizes = run.validation.middle_sizes(run.config.evaluation.stages.values())
        logloss = run.validation.logloss_of_model(model, logits, sizes)
        if self.state is self.start or logloss < self.logloss:
            self.logloss, self.choices_speak_of_tastes, self.state = logloss, choices_speak_of_tastes, _copy(model)


def _learn(run: Run, model: Personalizer, logits: Floats, stage: str) -> None:
    """Factors and scales on these logits of the training and validation users."""
    torch.manual_seed(run.config.seed)
    sizes = run.validation.middle_sizes(run.config.evaluation.stages.values())

    def validate() -> float:
        """At one support size per stage, which is enough to compare epochs of the factors."""
        return run.validation.auc_of_model(model, logits, sizes)

    epochs, patience = FactorSettings.of(run.config.encoder).epochs, run.config.training.patience
    schedule = run.schedule(f"factors{stage}", epochs=epochs, patience=patience, validate=validate, continues=True)
    is_new = run.start.growth(run.log.features).is_new if run.start else None
    learn_factors(model, logits, run.log, run.split.train, schedule, seed=run.config.seed, is_new=is_new)
    learn_scales(run, model, logits, validate, f"scales{stage}")


def _copy(model: Personalizer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}
