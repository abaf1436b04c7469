"""How well the prior predicts the labels of whole users: the evidence, bounded from below by parabolas."""

import torch
from torch import Tensor
from torch.nn import functional

from resus.model.learners.plus.fit import curvature
from resus.model.learners.plus.prior import Known, Prior

TOUCHES = 3  # rounds to find where the parabolas touch


def evidence(prior: Prior, known: Known) -> Tensor:
    """A lower bound of the log-likelihood of each user's labels under the prior, beyond that of Ψ alone, `[U]`.

    The parabolas touch where they are tightest given Δ's mean and variance; the gradient treats them as constant.
    """
    mask = known.mask
    gram = torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), prior.gram(known), 0.0)
    with torch.no_grad():
        touch = _tightest(known, gram)
        weights = curvature(touch)
        targets = ((known.labels - 0.5) / weights - known.basis) * mask
        at_zero = (known.labels - 0.5) * known.basis + 0.5 * weights * (touch.square() - known.basis.square())
        at_zero = at_zero + functional.logsigmoid(touch) - touch / 2  # the parabola's height where Δ = 0
        alone = functional.logsigmoid(known.basis * (2 * known.labels - 1))
        constant = ((at_zero - alone) * mask).sum(dim=1) + 0.5 * (weights * targets.square()).sum(dim=1)
    factor, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(1 / weights))
    whitened = torch.linalg.solve_triangular(factor, targets.unsqueeze(2), upper=False)
    volume = factor.diagonal(dim1=1, dim2=2).log().sum(dim=1) + 0.5 * weights.log().sum(dim=1)
    bound: Tensor = constant - 0.5 * whitened.square().sum(dim=(1, 2)) - volume
    return bound


def _tightest(known: Known, gram: Tensor) -> Tensor:
    """Where the parabolas touch: at √E[ℓ²] of each event's logit, given all events."""
    touch = known.basis.abs()
    for _ in range(TOUCHES):
        weights = curvature(touch)
        targets = ((known.labels - 0.5) / weights - known.basis) * known.mask
        factor, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(1 / weights))
        mean = (gram @ torch.cholesky_solve(targets.unsqueeze(2), factor)).squeeze(2)
        explained = torch.linalg.solve_triangular(factor, gram, upper=False).square().sum(dim=1)
        variance = (gram.diagonal(dim1=1, dim2=2) - explained).clamp(min=0)
        touch = ((known.basis + mean).square() + variance).sqrt()
    return touch
