"""What fusion adds to Ψ's logits, by hand."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from resus.model.fusion import Fusion

RESIDUAL = torch.tensor([0.5, -0.25, 0.125, 1.0])
SIZES = torch.tensor([0, 1, 2, 3])


def fusion_of(scales: Sequence[float], biases: Sequence[float] | None = None) -> Fusion:
    """One β and bias for each size."""
    fusion = Fusion(max_size=len(scales), scale=1.0, per_size=True, bias=biases is not None)
    with torch.no_grad():
        fusion.scale.copy_(torch.tensor(scales))
        if fusion.bias is not None:
            fusion.bias.copy_(torch.tensor(biases))
    return fusion


def test_one_scale_serves_every_size_but_zero() -> None:
    fusion = Fusion(max_size=3, scale=2.0, per_size=False, bias=False)
    assert fusion(RESIDUAL, SIZES).tolist() == [0.0, -0.5, 0.25, 2.0]
    assert fusion(torch.ones(2), torch.tensor([3, 500])).tolist() == [2.0, 2.0]
    assert [parameter.shape for parameter in fusion.parameters()] == [(1,)]


def test_each_size_has_its_scale_and_bias() -> None:
    fusion = fusion_of([1.0, 2.0, 3.0], [10.0, 20.0, 30.0])
    assert fusion(RESIDUAL, SIZES).tolist() == [0.0, 9.75, 20.25, 33.0]
    assert torch.equal(fusion(RESIDUAL, torch.zeros(4, dtype=torch.int64)), torch.zeros(4))
    assert fusion(torch.ones(2, 5, 4), SIZES)[1, 4].tolist() == [0.0, 11.0, 22.0, 33.0]


def test_beyond_training_beta_keeps_to_the_curve_it_was_on() -> None:
    trained, beyond = torch.arange(1, 31), torch.tensor([30, 31, 300, 10**6])
    fusion = fusion_of((4.0 * trained / (trained + 7)).tolist(), [0.0] * 29 + [5.0])
    expected = 4.0 * beyond / (beyond + 7) + 5.0
    torch.testing.assert_close(fusion(torch.ones(4), beyond), expected, rtol=1e-6, atol=0)


def test_answers_within_training_are_the_same_beside_one_beyond_it() -> None:
    fusion = fusion_of([0.3, 0.7, 1.1])
    alone, beside = fusion(torch.ones(4), SIZES), fusion(torch.ones(5), torch.tensor([0, 1, 2, 3, 90]))
    assert torch.equal(alone, beside[:4])
    assert 1.1 < beside[4].item() <= 2 * 1.1


@pytest.mark.parametrize("scales", [[2.0, 2.0, 2.0, 2.0], [4.0, 3.0, 2.5, 2.0], [-1.0, -1.0, -1.0, -1.0]])
def test_a_beta_that_does_not_rise_stays_beyond_training(scales: list[float]) -> None:
    assert fusion_of(scales)(torch.ones(2), torch.tensor([5, 1000])).tolist() == [scales[-1]] * 2


@pytest.mark.parametrize("scales", [[0.01, 0.1, 1.0, 9.0], [-1.0, 0.0, 1.0, 2.0]])
def test_beta_never_more_than_doubles_beyond_training(scales: list[float]) -> None:
    found = fusion_of(scales)(torch.ones(4), torch.tensor([4, 8, 100, 10**6])).tolist()
    assert found == sorted(found)
    assert found[0] == scales[-1]
    assert found[-1] <= 2 * scales[-1]


@given(raw=st.lists(st.floats(-20, 5, width=32), min_size=2, max_size=30))
def test_a_monotone_beta_never_falls_also_beyond_training(raw: list[float]) -> None:
    fusion = Fusion(max_size=len(raw), scale=1.0, per_size=True, bias=False, monotone=True)
    (learned,) = fusion.parameters()
    with torch.no_grad():
        learned.copy_(torch.tensor(raw))
        found = fusion(torch.ones(3 * len(raw)), torch.arange(3 * len(raw)))
    assert found[0] == 0
    assert (found[1:] > 0).all()
    assert (found.diff() >= -1e-6 * found[1:]).all()


def test_a_monotone_beta_starts_as_a_shrunk_mean_and_every_step_learns() -> None:
    fusion = Fusion(max_size=4, scale=3.0, per_size=True, bias=False, monotone=True)
    expected = torch.tensor([3.0 * k / (k + 1) for k in (1, 2, 3, 4)])
    torch.testing.assert_close(fusion.scale.detach(), expected)
    fusion(torch.ones(4), torch.arange(1, 5)).sum().backward()
    (learned,) = fusion.parameters()
    assert learned.grad is not None
    assert (learned.grad > 0).all()


def test_a_monotone_beta_comes_as_near_to_a_jumping_one_as_it_can() -> None:
    fusion = Fusion(max_size=4, scale=1.0, per_size=True, bias=False, monotone=True)
    wanted = torch.tensor([1.0, 2.0, 1.0, 3.0])
    optimizer = torch.optim.Adam(fusion.parameters(), lr=0.05)
    for _ in range(800):
        optimizer.zero_grad()
        loss: torch.Tensor = (fusion.scale - wanted).square().sum()
        torch.autograd.backward(loss)
        optimizer.step()
    torch.testing.assert_close(fusion.scale.detach(), torch.tensor([1.0, 1.5, 1.5, 3.0]), rtol=0, atol=0.02)


def test_only_the_sizes_that_were_asked_for_learn() -> None:
    fusion = fusion_of([1.0] * 3, [0.0] * 3)
    fusion(RESIDUAL, torch.tensor([0, 2, 2, 0])).sum().backward()
    gradients = [parameter.grad.tolist() for parameter in fusion.parameters() if parameter.grad is not None]
    assert gradients == [[0.0, -0.125, 0.0], [0.0, 2.0, 0.0]]
