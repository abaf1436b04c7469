"""The recipe of the paper's methods."""

from resus.model.personalizer import Personalizer
from resus.training.episodes import metatrain
from resus.training.predictor import fill_logits, open_logits, pretrain
from resus.training.run import Run


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
