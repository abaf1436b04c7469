"""The five supports of figure 4, against a loop over queries."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from planted_models import TINY

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, features_of
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc, gauc, logloss
from resus.history import History
from resus.model.predictors.base import NeuralPredictor
from resus.paper.cells.noise import LEVELS, noise_levels

SUPPORT = 11  # two for each fifth, and one left over


class MeanLabel:
    """Answers with the mean label of the support: easy to say by hand."""

    def fit(self, task: Task) -> History:
        raise NotImplementedError

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        labels = log.labels[batch.rows][batch.support.numpy()]
        means = (labels * batch.mask.numpy()).sum(axis=1) / batch.support_sizes
        items = log.ids[batch.rows[batch.query.numpy()], 0]
        answers: Floats = (means[batch.query_user.numpy()] + items / 1000).astype(np.float32)
        return answers

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        raise NotImplementedError


def predictor_of(log: InteractionLog) -> NeuralPredictor:
    torch.manual_seed(1)
    predictor = resolve(TINY | {"predictor.embedding_std": 1.0}).predictor.build_predictor(log.features)
    assert isinstance(predictor, NeuralPredictor)
    return predictor


@torch.no_grad()
def test_levels_equal_a_loop_over_queries(log: InteractionLog) -> None:
    ordered = OrderedUsers.of(log, np.arange(20), seed=1)
    predictor = predictor_of(log)
    found = noise_levels(MeanLabel(), log, ordered, predictor.encoder, SUPPORT)
    logits: list[list[float]] = [[] for _ in range(LEVELS)]
    distances: list[list[float]] = [[] for _ in range(LEVELS)]
    labels, users, start = [], [], 0
    for user, length in zip(ordered.users, ordered.lengths, strict=True):
        rows = ordered.rows[start : start + length]
        start += length
        for query in rows[SUPPORT:]:
            labels.append(log.labels[query])
            users.append(user)
            own = predictor.encoder(features_of(log, np.array([query])))
            far = (predictor.encoder(features_of(log, rows[:SUPPORT])) - own).norm(dim=1).numpy()
            order = np.argsort(far, kind="stable")
            for level in range(LEVELS):
                members = order[2 * level : 2 * level + 2]
                logits[level].append(log.labels[rows[members]].mean() + log.ids[query, 0] / 1000)
                distances[level].append(far[members].mean())
    assert len(labels) > 20
    for level in range(LEVELS):
        own_logits = np.array(logits[level], dtype=np.float32)
        assert found[level].auc == pytest.approx(auc(np.array(labels), own_logits))
        assert found[level].gauc == pytest.approx(gauc(np.array(labels), own_logits, np.array(users)))
        assert found[level].logloss == pytest.approx(logloss(np.array(labels), own_logits))
        assert found[level].distance == pytest.approx(np.mean(distances[level]), rel=1e-4)
    assert [level.distance for level in found] == sorted(level.distance for level in found)


def test_without_a_long_user_there_is_no_level(log: InteractionLog) -> None:
    ordered = OrderedUsers.of(log, np.arange(5), seed=1)
    assert noise_levels(MeanLabel(), log, ordered, predictor_of(log).encoder, int(log.lengths.max())) == []
