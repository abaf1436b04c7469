"""The whole model against the paper's equations, one user and one query at a time in float64."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from planted_models import TINY
from torch import Tensor
from torch.nn import functional

from resus.arrays import Floats
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.episodes import batch as episode_batch
from resus.episodes import prefixes
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.model.build import build_personalizer
from resus.model.learners import LEARNERS
from resus.model.learners.nearest import LearnedSimilarity
from resus.model.learners.ridge import RidgeLearner
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import NoPredictor

SMALL: dict[str, Any] = {"encoder.hidden_units": (12, 6), "encoder.embedding_dim": 3, "evaluation.max_size": 6}
MODELS: dict[str, dict[str, Any]] = {
    "ridge": {"learner.kind": "ridge", "learner.bias": False, "fusion.bias": False, "fusion.per_size": False},
    "ridge with biases": {"learner.kind": "ridge", "learner.bias": True, "fusion.bias": True, "fusion.per_size": True},
    "nearest": {"learner.kind": "nearest", "fusion.scale": 3.0, "fusion.per_size": False},
    "nearest by cosine": {"learner.kind": "nearest", "learner.similarity": "cosine"},
}


SIZES = tuple(range(31))


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=30, items=15, events_per_user=6))


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, log: InteractionLog) -> Personalizer:
    torch.manual_seed(1)
    built = build_personalizer(config_of(request.param), log.features)
    with torch.no_grad():
        for parameter in built.fusion.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.3)
    return built


def config_of(name: str) -> Config:
    return resolve(SMALL | MODELS[name])


def batch_of(log: InteractionLog) -> EpisodeBatch:
    sampler = EpisodeSampler(log, np.arange(log.n_users), max_size=6, batch_size=10**6, sizes="uniform", seed=1)
    (batch,) = sampler.epoch(0)
    empty = batch.support_sizes.copy()
    empty[3] = 0
    return replace(batch, support_sizes=empty)


def basis_of(batch: EpisodeBatch) -> Tensor:
    return torch.randn(len(batch.rows), generator=torch.Generator().manual_seed(2))


def by_the_equations(
    model: Personalizer, log: InteractionLog, batch: EpisodeBatch, basis: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Equations 5 to 15."""
    with torch.no_grad():
        encoded = deepcopy(model.encoder).double()(features_of(log, batch.rows)).numpy()
    residuals = log.labels[batch.rows] - 1 / (1 + np.exp(-basis))
    scales = model.fusion.scale.detach().double().numpy()
    biases = np.zeros_like(scales) if model.fusion.bias is None else model.fusion.bias.detach().double().numpy()
    logits = []
    start = 0
    for length, size in zip(batch.lengths, batch.support_sizes, strict=True):
        known, asked = slice(start, start + size), range(start + size, start + length)
        entry = min(size, len(scales)) - 1
        for query in asked:
            answer = answer_of(model, encoded[known], residuals[known], encoded[query]) if size else 0.0
            logits.append(basis[query] + (scales[entry] * answer + biases[entry] if size else 0.0))
        start += length
    return np.array(logits)


def answer_of(
    model: Personalizer,
    support: npt.NDArray[np.float64],
    residuals: npt.NDArray[np.float64],
    query: npt.NDArray[np.float64],
) -> float:
    learner = model.learner
    if isinstance(learner, RidgeLearner):
        if learner.constant:
            support, query = np.column_stack([support, np.ones(len(support))]), np.append(query, 1)
        system = support.T @ support + learner.ridge.item() * np.eye(len(query))
        return float(query @ np.linalg.solve(system, support.T @ residuals))
    if isinstance(learner.similarity, LearnedSimilarity):
        scores = np.abs(query - support) @ learner.similarity.weight.detach().double().numpy()
    else:
        scores = support @ query / np.linalg.norm(support, axis=1) / np.linalg.norm(query)
    return float(np.exp(scores) @ residuals / np.exp(scores).sum())


@pytest.mark.parametrize("groups", [1, 4])
def test_a_batch_is_scored_as_the_equations_say(
    model: Personalizer, log: InteractionLog, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(log)
    if groups > 1:
        monkeypatch.setattr(episode_batch, "WASTE", 0.0)
        monkeypatch.setattr(episode_batch, "SMALL_SUPPORT", 1)
    assert len(batch.by_support_size()) == groups
    assert (np.sum(batch.by_support_size(), axis=0) == 1).all()
    basis = basis_of(batch)
    logits = model(batch, features_of(log, batch.rows), basis, labels_of(log, batch.rows)).detach().numpy()
    assert np.abs(logits - by_the_equations(model, log, batch, basis.double().numpy())).max() < 1e-5


def test_without_a_predictor_it_is_mus(model: Personalizer, log: InteractionLog) -> None:
    batch = batch_of(log)
    features, labels = features_of(log, batch.rows), labels_of(log, batch.rows)
    logits = model(batch, features, NoPredictor().logits(features), labels).detach().numpy()
    assert np.abs(logits - by_the_equations(model, log, batch, np.zeros(len(batch.rows)))).max() < 1e-5


def test_labels_of_queries_do_not_leak_and_those_of_supports_count(model: Personalizer, log: InteractionLog) -> None:
    batch = batch_of(log)
    features, basis, labels = features_of(log, batch.rows), basis_of(batch), labels_of(log, batch.rows)
    logits = model(batch, features, basis, labels)
    flipped = labels.clone()
    flipped[batch.query] = 1 - flipped[batch.query]
    assert torch.equal(model(batch, features, basis, flipped), logits)
    other = model(batch, features, basis, 1 - labels)
    informed = batch.sizes[batch.query_user] > 0
    assert bool((other != logits)[informed].all())
    assert torch.equal(other[~informed], logits[~informed])
    assert torch.equal(logits[~informed], basis[batch.query][~informed])


def test_users_do_not_see_one_another(model: Personalizer, log: InteractionLog) -> None:
    batch = batch_of(log)
    basis = basis_of(batch)
    together = model(batch, features_of(log, batch.rows), basis, labels_of(log, batch.rows))
    starts = np.cumsum(batch.lengths) - batch.lengths
    for user in range(0, batch.n_users, 5):
        own = slice(starts[user], starts[user] + batch.lengths[user])
        alone = EpisodeBatch(batch.rows[own], batch.lengths[user : user + 1], batch.support_sizes[user : user + 1])
        logits = model(alone, features_of(log, alone.rows), basis[own], labels_of(log, alone.rows))
        assert torch.allclose(logits, together[batch.query_user == user], rtol=0, atol=1e-5)


def test_the_loss_over_all_queries_weighs_a_user_by_its_queries(model: Personalizer, log: InteractionLog) -> None:
    """Equation 18 from the loss of each task (equation 17)."""
    batch = batch_of(log)
    labels = labels_of(log, batch.rows)
    logits = model(batch, features_of(log, batch.rows), basis_of(batch), labels).double()
    asked = labels[batch.query].double()
    found = functional.binary_cross_entropy_with_logits(logits, asked).item()
    weighted = queries = 0.0
    for user in range(batch.n_users):
        own = batch.query_user == user
        chance = logits[own].sigmoid()
        task = -(asked[own] * chance.log() + (1 - asked[own]) * (1 - chance).log()).mean().item()
        weighted += int(own.sum()) * task
        queries += int(own.sum())
    assert found == pytest.approx(weighted / queries, rel=1e-9)


def test_every_part_learns_from_the_queries(model: Personalizer, log: InteractionLog) -> None:
    batch = batch_of(log)
    basis = basis_of(batch).requires_grad_()
    labels = labels_of(log, batch.rows)
    logits = model(batch, features_of(log, batch.rows), basis, labels)
    functional.binary_cross_entropy_with_logits(logits, labels[batch.query]).backward()  # type: ignore[no-untyped-call]
    for name, parameter in [*model.named_parameters(), ("basis", basis)]:
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
        assert bool((parameter.grad != 0).any()), name


@pytest.fixture(scope="module")
def longer_log() -> InteractionLog:
    return planted_log(PlantedWorld(users=40, items=20, events_per_user=20, seed=3))


@pytest.fixture(params=LEARNERS)
def any_learner(request: pytest.FixtureRequest, longer_log: InteractionLog) -> Personalizer:
    """With the released settings, whose fusion has a bias and a β for each size, if the learner has β."""
    torch.manual_seed(2)
    changes = {"protocol": "authors-release", "learner.kind": request.param, "evaluation.max_size": max(SIZES)}
    built = build_personalizer(resolve(TINY | changes), longer_log.features)
    with torch.no_grad():
        for parameter in built.fusion.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.3)
    return built


def basis_in_order(ordered: OrderedUsers) -> Floats:
    return np.random.default_rng(4).normal(size=len(ordered.rows)).astype(np.float32)


@pytest.mark.parametrize("time_known", [True, False])
@pytest.mark.parametrize("tile_rows", [1, 300, 8192])
def test_every_size_is_what_a_run_of_its_own_gives(
    monkeypatch: pytest.MonkeyPatch,
    any_learner: Personalizer,
    longer_log: InteractionLog,
    time_known: bool,
    tile_rows: int,
) -> None:
    monkeypatch.setattr(prefixes, "TILE_ROWS", tile_rows)
    log = replace(longer_log, ordered=time_known)
    ordered = OrderedUsers.of(log, np.arange(5, 40), seed=6)
    basis = basis_in_order(ordered)
    found = any_learner.score_prefixes(log, ordered, SIZES, basis=basis)
    assert ordered.lengths.min() < max(SIZES) < ordered.lengths.max()
    for k in SIZES:
        asked = ordered.positions >= k
        enough = ordered.lengths > k
        kept = np.repeat(enough, ordered.lengths)
        batch = EpisodeBatch(ordered.rows[kept], ordered.lengths[enough], np.full(enough.sum(), k))
        own_basis = torch.from_numpy(basis[kept])
        with torch.no_grad():
            alone = any_learner(batch, features_of(log, batch.rows), own_basis, labels_of(log, batch.rows))
        assert np.abs(found[asked, k] - alone.numpy()).max() < 2e-5


def test_without_support_the_logits_are_exactly_those_of_the_predictor(
    any_learner: Personalizer, longer_log: InteractionLog
) -> None:
    ordered = OrderedUsers.of(longer_log, np.arange(longer_log.n_users), seed=6)
    basis = basis_in_order(ordered)
    assert np.array_equal(any_learner.score_prefixes(longer_log, ordered, (0,), basis=basis)[:, 0], basis)
    assert np.array_equal(any_learner.score_prefixes(longer_log, ordered, SIZES, basis=basis)[:, 0], basis)


def test_labels_after_the_support_do_not_count(any_learner: Personalizer, longer_log: InteractionLog) -> None:
    ordered = OrderedUsers.of(longer_log, np.arange(longer_log.n_users), seed=6)
    basis = basis_in_order(ordered)
    labels = longer_log.labels.copy()
    late = ordered.rows[ordered.positions >= 7]
    labels[late] = 1 - labels[late]
    before, after = (
        any_learner.score_prefixes(each, ordered, SIZES, basis=basis)
        for each in (longer_log, replace(longer_log, labels=labels))
    )
    assert np.array_equal(before[:, :8], after[:, :8])
    assert (before[ordered.positions >= 8, 8] != after[ordered.positions >= 8, 8]).any()
