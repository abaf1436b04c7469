"""`RowwiseAdam` against plain Adam, which moves every row at every step."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.episodes.batch import Features, features_of
from resus.model.encoders import ENCODERS, EncoderSettings
from resus.model.encoders.base import FieldEmbedding
from resus.training import rowwise_adam
from resus.training.rowwise_adam import RowwiseAdam, adam_of

ROWS, RATE = 200, 0.01
TARGET = torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def _every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowwise_adam, "LARGE", 1)


def embedding() -> FieldEmbedding:
    torch.manual_seed(0)
    return FieldEmbedding(ROWS, [1, 1, 1], 4, std=0.1)


def row_by_row(module: nn.Module) -> RowwiseAdam:
    return adam_of(module, [{"params": list(module.parameters()), "lr": RATE}], table_rate=RATE)


def plain(module: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), lr=RATE)


def long_tailed(steps: int, rows: int = ROWS, seed: int = 2) -> list[Tensor]:
    """Ids of which a few are frequent and most are rare."""
    random = np.random.default_rng(seed)
    drawn = np.minimum(random.zipf(1.3, size=(steps, 8, 3)) - 1, rows - 1)
    return list(torch.from_numpy(drawn.astype(np.int32)))


def train(module: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Tensor], scale: float = 1.0) -> None:
    for ids in batches:
        optimizer.zero_grad()
        loss = ((module(Features(ids, None)) - TARGET) ** 2).sum() * scale
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("scale", [1e3, 1.0, 1e-5])
def test_rare_rows_end_where_plain_adam_has_them(scale: float) -> None:
    batches = long_tailed(1000)
    one, other = embedding(), embedding()
    train(one, plain(one), batches, scale)
    optimizer = row_by_row(other)
    train(other, optimizer, batches, scale)
    optimizer.release()
    moved = (one.table - embedding().table).abs().max()
    assert moved > 0.5
    assert (one.table - other.table).abs().max() < 5e-5


def test_rows_used_at_every_step_are_plain_adams() -> None:
    everything = torch.arange(24, dtype=torch.int32).view(8, 3)
    one, other = embedding(), embedding()
    train(one, plain(one), [everything] * 50)
    train(other, row_by_row(other), [everything] * 50)
    assert (one.table - other.table).abs().max() < 1e-6


def test_a_row_that_no_batch_uses_is_not_touched() -> None:
    module = embedding()
    optimizer = row_by_row(module)
    before = module.table.detach().clone()
    train(module, optimizer, [torch.full((8, 3), 7, dtype=torch.int32), torch.full((8, 3), 9, dtype=torch.int32)])
    changed = (module.table != before).any(dim=1).nonzero().flatten().tolist()
    assert changed == [7, 9]
    seventh = module.table[7].detach().clone()
    optimizer.settle()
    assert not torch.equal(module.table[7], seventh), "momentum moves a row on"
    assert torch.equal(module.table[0], before[0])


@pytest.mark.parametrize("kind", ["deepfm", "xdeepfm", "wide-deep", "fm"])
def test_a_network_learns_the_same(kind: str) -> None:
    log = planted_log(PlantedWorld(users=30, items=50, events_per_user=10))
    small: EncoderSettings = ENCODERS.chosen({"kind": kind, "hidden_units": (8,), "embedding_dim": 3, "cin_maps": (4,)})

    def learn(optimizer_of: Callable[[nn.Module], torch.optim.Optimizer]) -> nn.Module:
        torch.manual_seed(3)
        network = small.build_encoder(log.features)
        optimizer = optimizer_of(network)
        random = np.random.default_rng(4)
        for _ in range(60):
            rows = random.integers(log.n_rows, size=6)
            optimizer.zero_grad()
            (network(features_of(log, rows)).sum(dim=1) - torch.from_numpy(log.labels[rows])).square().mean().backward()
            optimizer.step()
        if isinstance(optimizer, RowwiseAdam):
            optimizer.release()
        return network

    one, other = learn(plain).state_dict(), learn(row_by_row).state_dict()
    assert one.keys() == other.keys()
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 1e-4


def test_its_state_is_all_it_needs_to_resume() -> None:
    batches = long_tailed(300)
    whole = embedding()
    optimizer = row_by_row(whole)
    train(whole, optimizer, batches)
    first = embedding()
    before = row_by_row(first)
    train(first, before, batches[:170])
    second = embedding()
    second.load_state_dict(first.state_dict())
    after = row_by_row(second)
    after.load_table_state({name: tensor.clone() for name, tensor in before.table_state().items()})
    train(second, after, batches[170:])
    for each in (optimizer, after):
        each.release()
    assert torch.equal(whole.table, second.table)


def test_small_tables_are_left_to_plain_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowwise_adam, "LARGE", ROWS + 1)
    module = embedding()
    optimizer = row_by_row(module)
    assert not optimizer.tables
    assert module.lookup is None
    train(module, optimizer, long_tailed(3))
    assert module.table.grad is not None
