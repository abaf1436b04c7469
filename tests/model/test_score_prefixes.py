"""All support sizes in one pass against one run per size."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.episodes import prefixes
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.tensors import features_of, labels_of
from resus.model.build import build_personalizer
from resus.model.personalizer import Personalizer

SIZES = tuple(range(31))
MODELS = {
    "ridge": {"learner.kind": "ridge"},
    "ridge of the authors' release": {"protocol": "authors-release", "learner.kind": "ridge"},
    "nearest": {"learner.kind": "nearest"},
    "nearest by cosine": {"learner.kind": "nearest", "learner.similarity": "cosine"},
}


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=40, items=20, events_per_user=20, seed=3))


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, log: InteractionLog) -> Personalizer:
    torch.manual_seed(2)
    small = {"encoder.hidden_units": (16, 8), "encoder.embedding_dim": 4}
    built = build_personalizer(resolve(small | MODELS[request.param]), log.features)
    with torch.no_grad():
        for parameter in built.fusion.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.3)
    return built


def basis_of(ordered: OrderedUsers) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.random.default_rng(4).normal(size=len(ordered.rows)).astype(np.float32)


@pytest.mark.parametrize("time_known", [True, False])
@pytest.mark.parametrize("tile_rows", [1, 300, 8192])
def test_every_size_is_what_a_run_of_its_own_gives(
    monkeypatch: pytest.MonkeyPatch, model: Personalizer, log: InteractionLog, time_known: bool, tile_rows: int
) -> None:
    monkeypatch.setattr(prefixes, "TILE_ROWS", tile_rows)
    log = replace(log, ordered=time_known)
    ordered = OrderedUsers.of(log, np.arange(5, 40), seed=6)
    basis = basis_of(ordered)
    found = model.score_prefixes(log, ordered, SIZES, basis=basis)
    assert ordered.lengths.min() < max(SIZES) < ordered.lengths.max()
    for k in SIZES:
        asked = ordered.positions >= k
        enough = ordered.lengths > k
        kept = np.repeat(enough, ordered.lengths)
        batch = EpisodeBatch(ordered.rows[kept], ordered.lengths[enough], np.full(enough.sum(), k))
        own_basis = torch.from_numpy(basis[kept])
        with torch.no_grad():
            alone = model(batch, features_of(log, batch.rows), own_basis, labels_of(log, batch.rows))
        assert np.abs(found[asked, k] - alone.numpy()).max() < 1e-5


def test_without_support_the_logits_are_exactly_those_of_the_predictor(
    model: Personalizer, log: InteractionLog
) -> None:
    ordered = OrderedUsers.of(log, np.arange(log.n_users), seed=6)
    basis = basis_of(ordered)
    assert np.array_equal(model.score_prefixes(log, ordered, (0,), basis=basis)[:, 0], basis)
    assert np.array_equal(model.score_prefixes(log, ordered, SIZES, basis=basis)[:, 0], basis)


def test_labels_after_the_support_do_not_count(model: Personalizer, log: InteractionLog) -> None:
    ordered = OrderedUsers.of(log, np.arange(log.n_users), seed=6)
    basis = basis_of(ordered)
    labels = log.labels.copy()
    late = ordered.rows[ordered.positions >= 7]
    labels[late] = 1 - labels[late]
    before, after = (
        model.score_prefixes(each, ordered, SIZES, basis=basis) for each in (log, replace(log, labels=labels))
    )
    assert np.array_equal(before[:, :8], after[:, :8])
    assert (before[ordered.positions >= 8, 8] != after[ordered.positions >= 8, 8]).any()
