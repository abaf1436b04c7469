"""RESUS with any learner, and MUS, as methods of a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch

from resus.arrays import Floats
from resus.baselines.base import History, Task
from resus.baselines.shelf import shared_logits, shared_predictor
from resus.config.settings import LEARNERS, Architecture
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.tensors import features_of, labels_of
from resus.evaluation.scoring import score_prefixes
from resus.model.build import AnyPredictor
from resus.model.personalizer import ResidualModel
from resus.model.predictors.neural import logits_of_rows
from resus.training.run import train


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
            "predictor.column": "",
            "predictor.pretrain": pretrain,
            "encoder.kind": predictor if predictor in get_args(Architecture) else "deepfm",
            **LEARNERS.get(learner, {}),
            "learner.kind": learner,
            **(changes or {}),
        }
        self.predictor: AnyPredictor
        self.model: ResidualModel

    def fit(self, task: Task) -> History:
        config = task.config.changed(self.settings)
        pretrained: AnyPredictor | None = None
        known: History = []
        if config.predictor.pretrain and config.predictor.kind != "none":
            pretrained, known = shared_predictor(task, config.predictor.kind)
        logits, folds = shared_logits(task, config)
        trained = train(
            config,
            task.log,
            folder=task.folder,
            resume=True,
            pretrained=pretrained,
            known=known,
            basis_from=logits,
            progress=task.progress,
        )
        self.predictor, self.model = trained.predictor, trained.model
        return [*folds, *trained.history]

    @torch.no_grad()
    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        features = features_of(log, batch.rows)
        basis = self.predictor.logits(features)
        answers: Floats = self.model(batch, features, basis, labels_of(log, batch.rows)).numpy()
        return answers

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        basis = logits_of_rows(self.predictor, log, ordered.rows)
        return score_prefixes(self.model, log, ordered, basis, sizes)
