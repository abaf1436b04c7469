"""The naive way and ours give the same scores, so their times compare like with like."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.naive import NaiveResus, QueryDataset, events_of, score_sizes, train_epoch
from resus import InteractionLog, PlantedWorld, planted_log
from resus.config.resolve import resolve
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc
from resus.model.build import build_personalizer
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import NeuralPredictor

SLOTS = 8


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=40, items=50, events_per_user=20, seed=3))


def _models(log: InteractionLog, learner: str) -> tuple[NeuralPredictor, Personalizer]:
    """Embeddings large enough that Ψ and the residuals both matter, small enough that float32 keeps five digits."""
    config = resolve({"learner.kind": learner, "fusion.scale": 2.0}, data_set="planted")
    torch.manual_seed(5)
    predictor = config.predictor.build_predictor(log.features)
    model = build_personalizer(config, log.features, predictor)
    assert isinstance(predictor, NeuralPredictor)
    for embedding in (predictor.encoder.embedding, model.encoder.embedding):
        torch.nn.init.normal_(embedding.table, std=0.3)  # type: ignore[union-attr,arg-type]
    return predictor, model


@pytest.mark.parametrize("learner", ["ridge", "nearest"])
def test_every_support_size_has_our_scores_and_our_auc(log: InteractionLog, learner: str) -> None:
    predictor, model = _models(log, learner)
    users, sizes = np.arange(log.n_users), range(1, SLOTS + 1)
    ordered = OrderedUsers.of(log, users, seed=1)
    ours = model.score_prefixes(log, ordered, sizes, basis=predictor.logits_of_rows(log, ordered.rows))
    found = score_sizes(NaiveResus(predictor, model), events_of(log, users), sizes, slots=SLOTS)
    for column, (scores, naive_auc) in enumerate(found):
        queries = ordered.positions >= sizes[column]
        assert np.ptp(scores) > 0.5
        np.testing.assert_allclose(ours[queries, column], scores, atol=1e-5)
        assert auc(log.labels[ordered.rows][queries], scores) == pytest.approx(naive_auc, abs=1e-6)


@pytest.mark.parametrize("learner", ["ridge", "nearest"])
def test_an_episode_has_our_logits_and_our_gradients(log: InteractionLog, learner: str) -> None:
    predictor, model = _models(log, learner)
    users = np.array([2, 7, 30])
    support_sizes = np.minimum([1, 4, SLOTS], log.lengths[users] - 1)
    batch = EpisodeBatch(log.rows_of(users), log.lengths[users], support_sizes)
    basis = torch.from_numpy(predictor.logits_of_rows(log, batch.rows))
    ours = model(batch, features_of(log, batch.rows), basis, labels_of(log, batch.rows))
    dataset = QueryDataset(events_of(log, users), pd.Series(support_sizes, index=users), SLOTS)
    query, support, sizes = torch.utils.data.default_collate([dataset[index] for index in range(len(dataset))])
    naive = NaiveResus(predictor, model)(query, support, sizes)
    torch.testing.assert_close(naive, ours, atol=1e-5, rtol=0)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for mine, theirs in zip(*(torch.autograd.grad(logits.sum(), learned) for logits in (ours, naive)), strict=True):
        torch.testing.assert_close(theirs, mine, atol=1e-4, rtol=1e-3)


def test_an_epoch_moves_the_model_and_leaves_the_predictor(log: InteractionLog) -> None:
    predictor, model = _models(log, "ridge")
    frozen = [parameter.clone() for parameter in predictor.parameters()]
    before = [parameter.clone() for parameter in model.parameters()]
    users = np.arange(10)
    sizes = pd.Series(3, index=users)
    train_epoch(NaiveResus(predictor, model), events_of(log, users), sizes, slots=SLOTS, learning_rate=1e-3)
    assert all(torch.equal(old, new) for old, new in zip(frozen, predictor.parameters(), strict=True))
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.integration
def test_the_quick_benchmark_measures_every_figure(tmp_path: Path) -> None:
    lines = tmp_path / "speed.json"
    command = [sys.executable, "-m", "benchmarks.speed", "--quick", "--out", str(lines)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len({figure["figure"] for figure in figures}) == len(figures) > 20
    assert all(figure["measured"] > 0 for figure in figures)
