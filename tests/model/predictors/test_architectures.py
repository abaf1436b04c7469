"""What every architecture must keep, and the interactions of FM and CIN against plain loops."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.multi import MultiField
from resus.data.fields.numeric import NumericField
from resus.episodes.batch import Features, features_of
from resus.model.encoders import ENCODERS, EncoderSettings
from resus.model.encoders.base import Encoder, FieldEmbedding
from resus.model.encoders.xdeepfm import CompressedInteractions
from resus.model.predictors import base
from resus.model.predictors.base import NeuralPredictor

every_architecture = pytest.mark.parametrize("kind", ["lr", "fm", "wide-deep", "deepfm", "xdeepfm"])

FIELDS = FeatureMap(
    (
        CategoricalField("item", tuple("abcde")),  # ids 0 to 5
        NumericField("price"),  # ids 6 and 7
        MultiField("tags", tuple("xyz"), slots=3),  # ids 8 to 11
        CategoricalField("daypart", tuple("mn")),  # ids 12 to 14
    ),
    item="item",
)
ROWS = Features(
    ids=torch.tensor(
        [
            [1, 7, 9, 10, 11, 13],
            [3, 7, 10, 8, 8, 14],
            [0, 6, 8, 8, 8, 12],
            [5, 7, 11, 9, 8, 13],
        ],
        dtype=torch.int32,
    ),
    weights=torch.tensor(
        [
            [1, 0.3, 1 / 3, 1 / 3, 1 / 3, 1],
            [1, -2.0, 1, 0, 0, 1],
            [1, 1, 1, 0, 0, 1],
            [1, 0.0, 0.5, 0.5, 0, 1],
        ]
    ),
)


def some(*rows: int) -> Features:
    assert ROWS.weights is not None
    chosen = torch.tensor(rows, dtype=torch.int64)
    return Features(ROWS.ids[chosen], ROWS.weights[chosen])


def network(kind: str) -> Encoder:
    torch.manual_seed(1)
    shape = {"embedding_dim": 4, "embedding_std": 0.5, "hidden_units": (9, 6), "cin_maps": (5, 3)}
    encoder: EncoderSettings = ENCODERS.chosen({"kind": kind, **shape})
    return encoder.build_encoder(FIELDS)


def predictor(kind: str) -> NeuralPredictor:
    return NeuralPredictor(network(kind))


@every_architecture
def test_rows_become_vectors_of_the_promised_width_and_one_logit(kind: str) -> None:
    psi = predictor(kind)
    assert psi.encoder(ROWS).shape == (4, psi.encoder.width)
    assert psi(ROWS).shape == (4,)
    assert psi(some(2)).shape == (1,)
    assert psi(some()).shape == (0,)
    assert not psi.logits(ROWS).requires_grad
    assert torch.equal(psi.logits(ROWS), psi(ROWS))


@every_architecture
def test_the_logit_is_linear_in_the_vector(kind: str) -> None:
    psi = predictor(kind)
    expected = psi.encoder(ROWS) @ psi.output.weight[0] + psi.output.bias
    assert torch.allclose(psi(ROWS), expected, rtol=0, atol=1e-6)


@every_architecture
def test_a_row_does_not_see_its_batch(kind: str) -> None:
    encoder = network(kind)
    together = encoder(ROWS)
    for row in range(4):
        assert torch.allclose(encoder(some(row))[0], together[row], rtol=0, atol=1e-6)
    assert torch.allclose(encoder(some(2, 0, 3, 1)), together[[2, 0, 3, 1]], rtol=0, atol=1e-6)


@every_architecture
def test_gradients_reach_the_values_that_were_seen_and_no_other(kind: str) -> None:
    psi = predictor(kind)
    table = psi.encoder.embedding.table  # type: ignore[union-attr]
    assert isinstance(table, nn.Parameter)
    nn.init.normal_(table, generator=torch.Generator().manual_seed(5))
    psi(ROWS).square().sum().backward()
    assert table.grad is not None
    touched = torch.zeros(FIELDS.n_ids, dtype=torch.bool)
    assert ROWS.weights is not None
    touched[ROWS.ids[ROWS.weights != 0].long()] = True
    assert torch.equal((table.grad != 0).any(dim=1), touched)


@every_architecture
def test_what_is_padded_has_no_effect(kind: str) -> None:
    encoder = network(kind)
    assert ROWS.weights is not None
    other = torch.where(ROWS.weights == 0, 11, ROWS.ids)
    assert torch.equal(encoder(Features(other, ROWS.weights)), encoder(ROWS))


@every_architecture
def test_weights_of_one_and_no_weights_are_the_same(kind: str) -> None:
    encoder = network(kind)
    ones = Features(ROWS.ids, torch.ones(ROWS.ids.shape))
    assert torch.equal(encoder(ones), encoder(Features(ROWS.ids, None)))


def test_logistic_regression_adds_up_over_fields() -> None:
    """Exchanging one field's value moves the logit by the same amount whatever the other fields hold."""
    psi = predictor("lr")
    ids = torch.tensor([[item, 7, 9, 10, 8, part] for item in (1, 2, 4) for part in (12, 13, 14)], dtype=torch.int32)
    grid = psi.logits(Features(ids, None)).view(3, 3)
    interaction = grid - grid.mean(dim=0, keepdim=True) - grid.mean(dim=1, keepdim=True) + grid.mean()
    assert interaction.abs().max().item() < 1e-6
    assert grid.std(dim=0).min().item() > 1e-3


def test_a_field_is_the_weighted_sum_of_its_columns() -> None:
    embedding = FieldEmbedding(FIELDS.n_ids, FIELDS.column_counts, 4, std=1.0)
    found = embedding(ROWS)
    table = embedding.table
    assert found.shape == (4, 4, 4)
    assert torch.allclose(found[0, 2], table[[9, 10, 11]].mean(dim=0), atol=1e-6)
    assert torch.equal(found[1, 2], table[10])
    assert torch.allclose(found[3, 2], (table[11] + table[9]) / 2, atol=1e-6)
    assert torch.equal(found[:, 0], table[ROWS.ids[:, 0].long()])
    assert torch.allclose(found[:, 1], torch.stack([0.3 * table[7], -2 * table[7], table[6], 0 * table[7]]))


def test_fm_is_its_first_order_beside_its_pairs() -> None:
    encoder = network("fm")
    first, vectors = encoder.first_order(ROWS), encoder.embedding(ROWS)  # type: ignore[operator]
    pairs = sum((vectors[:, i] * vectors[:, j] for i, j in combinations(range(4), 2)), torch.zeros(4, 4))
    assert torch.allclose(encoder(ROWS), torch.cat([first[..., 0], pairs], dim=1), rtol=0, atol=1e-6)


def naive_cin(cin: CompressedInteractions, vectors: Tensor) -> Tensor:
    """Their equation 6, product by product."""
    rows, fields, width = vectors.shape
    previous, pooled = vectors, []
    for mix in cin.mixes:
        assert isinstance(mix, nn.Linear)
        maps = torch.zeros(rows, mix.out_features, width)
        for h in range(mix.out_features):
            for i in range(previous.shape[1]):
                for j in range(fields):
                    maps[:, h] += mix.weight[h, i * fields + j] * previous[:, i] * vectors[:, j]
            maps[:, h] += mix.bias[h]
        previous = maps.clamp(min=0)
        pooled.append(previous.sum(dim=2))
    return torch.cat(pooled, dim=1)


def test_cin_is_the_sum_over_all_products() -> None:
    torch.manual_seed(3)
    cin = CompressedInteractions(4, (5, 2, 3))
    vectors = torch.randn(6, 4, 3)
    with torch.no_grad():
        found, expected = cin(vectors), naive_cin(cin, vectors)
    assert found.shape == (6, cin.width)
    assert torch.allclose(found, expected, rtol=0, atol=1e-5)
    assert bool((found > 0).any())


def test_rows_of_a_log_are_scored_in_tiles_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log = planted_log(PlantedWorld(users=20, items=10, events_per_user=6))
    psi = resolve({"predictor.hidden_units": (8,)}).predictor.build_predictor(log.features)
    expected = psi.logits(features_of(log, np.arange(log.n_rows))).numpy()
    monkeypatch.setattr(base, "SCORING_ROWS", 7)
    assert np.allclose(psi.logits_of_rows(log), expected, rtol=0, atol=1e-6)
    some = np.array([5, 0, 3, 3])
    assert np.allclose(psi.logits_of_rows(log, some), expected[some], rtol=0, atol=1e-6)
