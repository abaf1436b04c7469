"""The recipe of the paper, for the ridge and the nearest-neighbour learner."""

from resus.arrays import Floats
from resus.model.personalizer import Personalizer
from resus.training.run import Run
from resus.training.stages.episodes import metatrain
from resus.training.stages.predictor import fill_logits, open_logits, pretrain


def train_paper(run: Run, model: Personalizer) -> None:
    """Learn the shared predictor; then encoder, learner and fusion on episodes of the training users.

    Without pretraining ("w/o pretrain"), all four learn together on the episodes.
    """
    logits: Floats | None = None
    if run.config.predictor.pretrain:
        pretrain(run, model.predictor)
        logits = open_logits(run)
        fill_logits(run, logits, model.predictor)

    chosen = run.config.training
    schedule = run.schedule(
        "residuals",
        epochs=chosen.epochs,
        patience=chosen.patience,
        validate=lambda: run.validation.auc_of_model(model, logits, run.config.evaluation.sizes[1:]),
    )
    metatrain(
        model,
        logits,
        run.log,
        run.episodes,
        schedule,
        learning_rate=chosen.learning_rate,
        scalar_learning_rate=chosen.scalar_learning_rate,
    )
