"""λ and the bias of ridge regression; its answers are in the contract suite."""

import pytest
import torch

from resus.model.learners.ridge import RidgeLearner


def support_of_two_users() -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(1)
    support = torch.randn(2, 4, 3, generator=random)
    residuals = torch.randn(2, 4, generator=random)
    return support, torch.ones(2, 4, dtype=torch.bool), residuals


@pytest.mark.parametrize("ridge", [1e-3, 0.5, 1.0, 40.0])
def test_lambda_starts_where_it_is_put(ridge: float) -> None:
    learner = RidgeLearner(ridge=ridge, learn_ridge=True, bias=False)
    assert learner.ridge.item() == pytest.approx(ridge, rel=1e-4)


@pytest.mark.parametrize("raw", [-50.0, -3.0, 0.0, 3.0])
def test_lambda_stays_positive_wherever_training_takes_it(raw: float) -> None:
    learner = RidgeLearner(ridge=1.0, learn_ridge=True, bias=False)
    torch.nn.init.constant_(learner.raw_ridge, raw)
    assert learner.ridge.item() > 0


@pytest.mark.parametrize("bias", [False, True])
def test_the_gradient_of_lambda_is_its_finite_difference(bias: bool) -> None:
    support, mask, residuals = support_of_two_users()
    query, user = torch.randn(5, 3, generator=torch.Generator().manual_seed(2)), torch.tensor([0, 1, 1, 0, 1])

    def total(raw: float) -> torch.Tensor:
        learner = RidgeLearner(ridge=1.0, learn_ridge=True, bias=bias).double()
        torch.nn.init.constant_(learner.raw_ridge, raw)
        answers = learner(support.double(), mask, residuals.double(), query.double(), user).square().sum()
        (slope,) = torch.autograd.grad(answers, learner.raw_ridge)
        return torch.stack([answers.detach(), slope])

    step = 1e-5
    difference = (total(0.3 + step)[0] - total(0.3 - step)[0]) / (2 * step)
    assert total(0.3)[1].item() == pytest.approx(difference.item(), rel=1e-6)


def test_a_fixed_lambda_is_no_variable() -> None:
    learner = RidgeLearner(ridge=1.0, learn_ridge=False, bias=True)
    support, mask, residuals = support_of_two_users()
    support.requires_grad_()
    learner(support, mask, residuals, torch.randn(2, 3), torch.tensor([0, 1])).sum().backward()
    assert learner.raw_ridge.grad is None
    assert support.grad is not None


def test_a_large_lambda_trusts_no_support() -> None:
    support, mask, residuals = support_of_two_users()
    learner = RidgeLearner(ridge=1e6, learn_ridge=False, bias=True)
    assert learner(support, mask, residuals, torch.randn(2, 3), torch.tensor([0, 1])).abs().max().item() < 1e-4
