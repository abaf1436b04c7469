"""What fusion adds to Ψ's logits, by hand."""

import pytest
import torch

from resus.fusion import Fusion

RESIDUAL = torch.tensor([0.5, -0.25, 0.125, 1.0])
SIZES = torch.tensor([0, 1, 2, 3])


def test_one_scale_serves_every_size_but_zero() -> None:
    fusion = Fusion(max_size=3, scale=2.0, per_size=False, bias=False)
    assert fusion(RESIDUAL, SIZES).tolist() == [0.0, -0.5, 0.25, 2.0]
    assert [parameter.shape for parameter in fusion.parameters()] == [(1,)]


def test_each_size_has_its_scale_and_bias() -> None:
    fusion = Fusion(max_size=3, scale=1.0, per_size=True, bias=True)
    assert fusion.bias is not None
    with torch.no_grad():
        fusion.scale.copy_(torch.tensor([1.0, 2.0, 3.0]))
        fusion.bias.copy_(torch.tensor([10.0, 20.0, 30.0]))
    assert fusion(RESIDUAL, SIZES).tolist() == [0.0, 9.75, 20.25, 33.0]


@pytest.mark.parametrize("per_size", [False, True])
def test_an_empty_support_adds_exactly_nothing_even_with_a_bias(per_size: bool) -> None:
    fusion = Fusion(max_size=3, scale=1.0, per_size=per_size, bias=True)
    assert fusion.bias is not None
    torch.nn.init.constant_(fusion.bias, 5.0)
    assert torch.equal(fusion(RESIDUAL, torch.zeros(4, dtype=torch.int64)), torch.zeros(4))


def test_a_support_larger_than_any_in_training_is_answered_as_the_largest() -> None:
    fusion = Fusion(max_size=3, scale=1.0, per_size=True, bias=True)
    assert fusion.bias is not None
    with torch.no_grad():
        fusion.scale.copy_(torch.tensor([1.0, 2.0, 3.0]))
        fusion.bias.copy_(torch.tensor([0.0, 0.0, 7.0]))
    assert fusion(torch.ones(3), torch.tensor([3, 4, 1000])).tolist() == [10.0, 10.0, 10.0]


def test_sizes_broadcast_over_rows() -> None:
    fusion = Fusion(max_size=3, scale=1.0, per_size=True, bias=False)
    with torch.no_grad():
        fusion.scale.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert fusion(torch.ones(2, 5, 4), SIZES)[1, 4].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_only_the_sizes_that_were_asked_for_learn() -> None:
    fusion = Fusion(max_size=3, scale=1.0, per_size=True, bias=True)
    assert fusion.bias is not None
    fusion(RESIDUAL, torch.tensor([0, 2, 2, 0])).sum().backward()
    assert fusion.scale.grad is not None
    assert fusion.bias.grad is not None
    assert fusion.scale.grad.tolist() == [0.0, -0.125, 0.0]
    assert fusion.bias.grad.tolist() == [0.0, 2.0, 0.0]
