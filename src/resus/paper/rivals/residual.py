"""RESUS with any learner, and MUS, as methods of a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.baselines.shelf import shared_logits, shared_predictor
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import History
from resus.model.encoders import ENCODERS
from resus.model.learners import LEARNERS
from resus.model.personalizer import Personalizer
from resus.model.predictors import PREDICTORS
from resus.training.run import TrainedPredictor
from resus.training.train import train


class Residual:
    """Φ has the architecture of Ψ if Ψ is a network, else DeepFM's, unless the learner brings its own.

    `changes` are the settings in which a variant differs.
    """

    def __init__(
        self,
        *,
        learner: str,
        predictor: str = "deepfm",
        pretrain: bool = True,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = {
            "predictor.kind": predictor,
            **({"predictor.pretrain": pretrain} if PREDICTORS.is_architecture(predictor) else {}),
            "encoder.kind": predictor if predictor in ENCODERS else "deepfm",
            **LEARNERS[learner].presets("paper"),
            "learner.kind": learner,
            **(changes or {}),
        }
        self.model: Personalizer

    def fit(self, task: Task) -> History:
        config = task.config.changed(self.settings)
        given = None
        logits, folds = shared_logits(task, config)
        if not (config.predictor.joint or config.predictor.absent):
            given = TrainedPredictor(*shared_predictor(task, config.predictor.kind), logits)
        trained = train(config, task.log, folder=task.folder, resume=True, given=given, progress=task.progress)
        self.model = trained.model
        return [*folds, *trained.history]

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        return self.model.score_batch(log, batch)

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        return self.model.score_prefixes(log, ordered, sizes)
