"""Ridge regression on a user's residuals (equations 11 to 14), in the Woodbury form: an S × S system per user."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.model.learners.base import Learner, residuals_of
from resus.model.learners.ridge.live import LiveRidge


class RidgeLearner(Learner):
    """w_u = Φᵀ(ΦΦᵀ + λI)⁻¹Δy and Δŷ = Φ(x)·w_u; λ is learned and stays positive through a softplus.

    `bias` adds a constant-1 feature, which is the constant 1 added to every inner product.
    """

    def __init__(self, *, ridge: float, learn_ridge: bool, bias: bool) -> None:
        super().__init__()
        raw = torch.tensor(ridge + math.log(-math.expm1(-ridge)))
        self.raw_ridge = nn.Parameter(raw, requires_grad=learn_ridge)
        self.constant = 1.0 if bias else 0.0

    @property
    def ridge(self) -> Tensor:
        return functional.softplus(self.raw_ridge)

    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        return residuals_of(labels, basis)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        support = support * mask.unsqueeze(-1)
        if support.shape[1] > support.shape[2] + 1:
            return self._primal(support, mask, outcomes, query, query_user)
        targets = (outcomes * mask).unsqueeze(-1).double()
        dual = torch.cholesky_solve(targets, self._factor(support, mask)).to(support.dtype)  # [U, S, 1]
        primal = (support * dual).sum(dim=1)  # w_u, [U, K]
        answer = (query * primal.index_select(0, query_user)).sum(dim=-1)
        if self.constant:
            answer = answer + self.constant * dual.sum(dim=(1, 2)).index_select(0, query_user)
        return answer

    def _primal(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        """The same as w_u = (ΦᵀΦ + λI)⁻¹ΦᵀΔy, a K × K system however long the support is."""
        if self.constant:
            support = torch.cat([support, mask.unsqueeze(-1).to(support.dtype)], dim=2)
            query = torch.cat([query, torch.ones_like(query[:, :1])], dim=1)
        gram = (support.transpose(1, 2) @ support).double()
        system = gram + self.ridge.double() * torch.eye(gram.shape[1], dtype=torch.float64)
        factor, failed = torch.linalg.cholesky_ex(system)
        targets = (support.transpose(1, 2) @ (outcomes * mask).unsqueeze(-1)).double()
        weights = torch.cholesky_solve(targets, factor.masked_fill((failed > 0).view(-1, 1, 1), torch.nan))
        return (query * weights.squeeze(2).to(query.dtype).index_select(0, query_user)).sum(dim=-1)

    def prefixes(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """With LLᵀ = ΦΦᵀ + λI, c = L⁻¹Δy and Z = L⁻¹Φ(x_S)Φ(x_q): the answer for size k is Σ_{i≤k} Z_i c_i."""
        support = support * mask.unsqueeze(-1)
        factor = self._factor(support, mask)
        inner = support @ query.transpose(1, 2) + self.constant * mask.unsqueeze(-1)  # [U, S, P]
        whitened = torch.linalg.solve_triangular(factor, inner.double(), upper=False)
        targets = (outcomes * mask).unsqueeze(-1).double()
        coefficients = torch.linalg.solve_triangular(factor, targets, upper=False)
        answers: Tensor = (
            (whitened * coefficients).cumsum(dim=1).index_select(1, torch.tensor(sizes, dtype=torch.int64) - 1)
        )
        return answers.transpose(1, 2).to(query.dtype)

    def _factor(self, support: Tensor, mask: Tensor) -> Tensor:
        """The Cholesky factor, in float64, nan where there is none; an empty slot is a row alone, diagonal 1."""
        both = mask.unsqueeze(1) & mask.unsqueeze(2)
        gram = (support @ support.transpose(1, 2)).double() + self.constant * both
        diagonal = torch.where(mask, self.ridge.double(), torch.ones((), dtype=torch.float64))
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(gram + torch.diag_embed(diagonal))
        return factor.masked_fill((failed > 0).view(-1, 1, 1), torch.nan)

    def live_state(self, width: int) -> LiveRidge:
        return LiveRidge(constant=self.constant, ridge=float(self.ridge.detach()), width=width)
