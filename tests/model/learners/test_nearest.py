"""The softmax of nearest neighbours where similarities are far apart; its answers are in the contract suite."""

import pytest
import torch
from torch import Tensor, nn

from resus.model.learners.nearest import NearestLearner


class GivenScores(nn.Module):
    """The query vector is the list of its similarities to the slots."""

    def forward(self, query: Tensor, support: Tensor, mask: Tensor, query_user: Tensor) -> Tensor:
        return query[:, : support.shape[1]]


@pytest.mark.parametrize(("center", "spread"), [(0.0, 1.0), (0.0, 10.0), (200.0, 1.0), (-200.0, 1.0), (0.0, 200.0)])
@pytest.mark.parametrize("slots", [1, 2, 30])
def test_prefixes_are_stable(center: float, spread: float, slots: int) -> None:
    random = torch.Generator().manual_seed(7)
    scores = center + spread * torch.randn(3, 8, slots, generator=random)
    residuals = 2 * torch.rand(3, slots, generator=random) - 1
    mask = torch.ones(3, slots, dtype=torch.bool)
    learner = NearestLearner(GivenScores())
    found = learner.prefixes(torch.zeros(3, slots, slots), mask, residuals, scores, range(1, slots + 1))
    for k in range(1, slots + 1):
        weights = torch.softmax(scores[..., :k].double(), dim=-1)
        expected = (weights * residuals[:, None, :k].double()).sum(dim=-1)
        assert (found[..., k - 1] - expected).abs().max().item() < 1e-5
        owner = torch.arange(3).repeat_interleave(8)
        alone = learner(torch.zeros(3, k, slots), mask[:, :k], residuals[:, :k], scores.flatten(0, 1), owner)
        assert (alone.view(3, 8) - expected).abs().max().item() < 1e-5


def test_the_only_neighbour_decides_alone() -> None:
    residuals = torch.tensor([[0.25], [-0.75]])
    mask = torch.ones(2, 1, dtype=torch.bool)
    answers = NearestLearner(GivenScores())(
        torch.zeros(2, 1, 1), mask, residuals, torch.tensor([[-200.0], [200.0], [0.0]]), torch.tensor([0, 1, 1])
    )
    assert answers.tolist() == [0.25, -0.75, -0.75]


def test_a_twin_outweighs_distant_neighbours() -> None:
    residuals = torch.tensor([[0.5, -0.5, -0.5]])
    scores = torch.tensor([[200.0, -200.0, -200.0]])
    answer = NearestLearner(GivenScores())(
        torch.zeros(1, 3, 3), torch.ones(1, 3, dtype=torch.bool), residuals, scores, torch.tensor([0])
    )
    assert answer.item() == 0.5
