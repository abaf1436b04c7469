"""Weights changed by factors are the weights that gradient descent makes, user by user."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.episodes.batch import EpisodeBatch
from resus.paper.rivals.fast_weights import TILE_ROWS, Change, Decide, FastWeights, adapt, answer, take

RATE = 0.7
SIZES = [3, 1, 5, 0, 5]
LENGTHS = [7, 2, TILE_ROWS + 10, 4, 5 + TILE_ROWS]
WIDTHS = [6, 1]


def batch() -> EpisodeBatch:
    return EpisodeBatch(np.arange(sum(LENGTHS)), np.array(LENGTHS), np.array(SIZES))


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, WIDTHS[0]), nn.Tanh(), nn.Linear(WIDTHS[0], WIDTHS[1])).double()


def rows() -> tuple[Tensor, Tensor]:
    """Inputs and labels of all rows."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(sum(LENGTHS), 4, dtype=torch.float64, generator=generator)
    return inputs.requires_grad_(), (torch.rand(len(inputs), generator=generator) < 0.5).double()


def decision(layers: nn.Sequential, inputs: Tensor) -> Decide:
    def decide(places: Tensor, fast: FastWeights) -> Tensor:
        given = take(inputs, places)
        hidden = fast(layers[0](given), given).tanh()
        return fast(layers[2](hidden), hidden).squeeze(-1)

    return decide


def naive_answers(layers: nn.Sequential, inputs: Tensor, labels: Tensor, steps: int) -> Tensor:
    """One user after the other, each with a full set of weights."""
    answers, start = [], 0
    for length, size in zip(LENGTHS, SIZES, strict=True):
        support, query = slice(start, start + size), slice(start + size, start + length)
        own: dict[str, Tensor] = dict(layers.named_parameters())
        for _ in range(steps if size else 0):
            logits = torch.func.functional_call(layers, own, (inputs[support],)).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(logits, labels[support])
            slopes = torch.autograd.grad(loss, list(own.values()), create_graph=True)
            own = {name: weight - RATE * slope for (name, weight), slope in zip(own.items(), slopes, strict=True)}
        answers.append(torch.func.functional_call(layers, own, (inputs[query],)).squeeze(1))
        start += length
    return torch.cat(answers)


@pytest.mark.parametrize("steps", [1, 3])
def test_answers_and_gradients_are_those_of_whole_weights_for_each_user(steps: int) -> None:
    layers, (inputs, labels) = network(), rows()
    decide = decision(layers, inputs)
    fast = answer(decide, batch(), adapt(decide, batch(), labels, widths=WIDTHS, rate=RATE, steps=steps))
    naive = naive_answers(layers, inputs, labels, steps)
    torch.testing.assert_close(fast, naive)
    learned = [*layers.parameters(), inputs]
    gradients = [torch.autograd.grad(answers.square().sum(), learned) for answers in (fast, naive)]
    torch.testing.assert_close(*gradients)


def test_without_a_support_nothing_changes() -> None:
    layers, (inputs, labels) = network(), rows()
    empty = EpisodeBatch(batch().rows, batch().lengths, np.zeros(len(LENGTHS), dtype=np.int64))
    decide = decision(layers, inputs)
    changes = adapt(decide, empty, labels, widths=WIDTHS, rate=RATE, steps=2)
    assert changes == []
    torch.testing.assert_close(answer(decide, empty, changes), layers(inputs).squeeze(1))


def test_a_layer_without_bias_changes_by_its_weights_alone() -> None:
    change = Change(torch.randn(2, 3, 4), torch.randn(2, 3, 5))
    weight, inputs = torch.randn(5, 4), torch.randn(2, 7, 4)
    own = weight - change.errors.mT @ change.inputs
    answers = FastWeights([change])(functional.linear(inputs, weight), inputs, bias=False)
    torch.testing.assert_close(answers, inputs @ own.mT)
