"""The logistic fit of each user, as a series of weighted ridge regressions.

A parabola bounds the logistic likelihood from below and touches it at the present logit ℓ (Jaakkola and Jordan). Its
curvature is w = tanh(ℓ/2) / 2ℓ. A step is the weighted ridge (K + 1/w) α = (y − ½)/w − Ψ and never moves away from the
mode. After `PARABOLAS` such steps come Newton steps, which are weighted ridges too and fast near the mode. A user for
whom a Newton step would go down takes the parabola's step instead. A label that counts as t labels has t times the
curvature.
"""

import torch
from torch import Tensor
from torch.nn import functional

from resus.model.learners.plus.numbers import ARRIVED, CLOSE, FLAT, LONG, PARABOLAS, ROUNDING
from resus.model.learners.plus.prior import Known, Prior


def fit(prior: Prior, known: Known, *, steps: int, gram: Tensor | None = None, start: Tensor | None = None) -> Tensor:
    """α `[U, S]`, 0 in empty slots, so that Δ(x) = Σ_i k(x, x_i) α_i.

    `gram` is the prior covariance of the events, if it is known already. `start` is the fit to fewer of the events: a
    fit of several steps begins there.
    """
    solve = solver(prior, known, gram)
    dual = torch.zeros_like(known.basis)
    if start is not None and steps > PARABOLAS:
        dual[:, : start.shape[1]] = start
    added = solve.covariance_times(dual)
    for _ in range(min(PARABOLAS, steps)):
        dual, added = _under_parabola(known, solve, added)
    height = _height(known, dual, added)
    for _ in range(PARABOLAS, steps):
        before = added
        dual, added, height, all_newton = _uphill(known, solve, before, height)
        if all_newton and bool(((added - before).abs() < ARRIVED).all()):
            break
    return dual


def _parabolas(known: Known, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The curvatures w = tanh(ℓ/2) / 2ℓ of parabolas that touch at these logits, and the targets of their ridges."""
    size = logits.abs().clamp(min=1e-4)
    weights = torch.tanh(size / 2) / (2 * size)  # ¼ at 0
    return weights, ((known.labels - 0.5) / weights - known.basis) * known.mask


def solver(prior: Prior, known: Known, gram: Tensor | None = None) -> "_Dense | _Iterative":
    """The cheaper of two ways to the same numbers."""
    if gram is None and known.mask.shape[1] > LONG:
        return _Iterative(prior, known)
    return _Dense(prior.covariance(known.codes, known.codes) if gram is None else gram, known.mask)


def _under_parabola(known: Known, solve: "_Dense | _Iterative", added: Tensor) -> tuple[Tensor, Tensor]:
    """α and Δ of the events at the top of the parabolas that touch at the present Δ."""
    weights, targets = _parabolas(known, known.basis + added)
    dual = solve(weights * known.trust, targets.unsqueeze(2)).squeeze(2)
    return dual, solve.covariance_times(dual)


def _uphill(
    known: Known, solve: "_Dense | _Iterative", added: Tensor, height: Tensor
) -> tuple[Tensor, Tensor, Tensor, bool]:
    """α, Δ and height after a Newton step, or after the parabola's for users whom Newton's would take down.

    The last value says whether all users took Newton's.
    """
    chance = (known.basis + added).sigmoid()
    weights = (chance * (1 - chance)).clamp(min=FLAT)
    targets = (added + (known.labels - chance) / weights) * known.mask
    stepped = solve(weights * known.trust, targets.unsqueeze(2)).squeeze(2)
    moved = solve.covariance_times(stepped)
    reached = _height(known, stepped, moved)
    down = reached < height - ROUNDING
    if not bool(down.any()):
        return stepped, moved, reached, True
    safe, level = _under_parabola(known, solve, added)
    stepped, moved = torch.where(down, safe, stepped), torch.where(down, level, moved)
    return stepped, moved, _height(known, stepped, moved), False


def _height(known: Known, dual: Tensor, added: Tensor) -> Tensor:
    """Log-likelihood plus log-prior of each user, `[U, 1]`, up to a constant; Δᵀ K⁻¹ Δ = αᵀΔ."""
    signed = (2 * known.labels - 1) * (known.basis + added)
    heights = functional.logsigmoid(signed) * known.trust * known.mask - 0.5 * dual * added
    return heights.sum(dim=1, keepdim=True)


class _Dense:
    """Solves (K + 1/w) X = targets `[U, S, C]` by the Cholesky factor of an S × S matrix."""

    def __init__(self, gram: Tensor, mask: Tensor) -> None:
        self._gram = torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), gram, 0.0)

    def __call__(self, weights: Tensor, targets: Tensor) -> Tensor:
        factor, _ = torch.linalg.cholesky_ex(self._gram + torch.diag_embed(1 / weights))
        solved: Tensor = torch.cholesky_solve(targets, factor)
        return solved

    def covariance_times(self, dual: Tensor) -> Tensor:
        return (self._gram @ dual.unsqueeze(2)).squeeze(2)


class _Iterative:
    """The same by conjugate gradients, for users with so many events that a matrix of all pairs would be too large."""

    def __init__(self, prior: Prior, known: Known) -> None:
        self._prior, self._known = prior, known

    def __call__(self, weights: Tensor, targets: Tensor) -> Tensor:
        mask = self._known.mask.unsqueeze(2)
        weights, rest = weights.unsqueeze(2), targets * mask
        solved, goal = torch.zeros_like(rest), CLOSE * rest.square().sum(dim=1, keepdim=True).sqrt()
        eased = rest * weights
        step, size = eased, (rest * eased).sum(dim=1, keepdim=True)
        for _ in range(2 * rest.shape[1]):
            if bool((rest.square().sum(dim=1, keepdim=True).sqrt() <= goal).all()):
                break
            moved = (self._prior.times(self._known.codes, step) + step / weights) * mask
            length = size / (step * moved).sum(dim=1, keepdim=True).clamp(min=1e-300)
            solved, rest = solved + length * step, rest - length * moved
            eased = rest * weights
            before, size = size, (rest * eased).sum(dim=1, keepdim=True)
            step = eased + size / before.clamp(min=1e-300) * step
        return solved

    def covariance_times(self, dual: Tensor) -> Tensor:
        return (self._prior.times(self._known.codes, dual.unsqueeze(2)) * self._known.mask.unsqueeze(2)).squeeze(2)
