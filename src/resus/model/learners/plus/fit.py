"""The logistic fit of each user, as a series of weighted ridge regressions, and how well the prior predicts the user.

A parabola bounds the logistic likelihood from below and touches it at the present logit ℓ (Jaakkola and Jordan). Its
curvature is w = tanh(ℓ/2) / 2ℓ. A step is the weighted ridge (K + 1/w) α = (y − ½)/w − Ψ and never moves away from the
mode. After `PARABOLAS` such steps come Newton steps, which are weighted ridges too and fast near the mode. A user for
whom a Newton step would go down takes the parabola's step instead. Parabolas also bound the evidence of the prior.
"""

import torch
from torch import Tensor
from torch.nn import functional

from resus.model.learners.plus.prior import Known, Prior, groups_of, sums_by_group

PARABOLAS = 1  # steps that are safe far from the mode
ARRIVED = 1e-3  # a Newton step that moves no logit by more than this leaves less than its square to go
ROUNDING = 1e-9  # relative: a smaller loss of likelihood counts as rounding
FLAT = 1e-6  # the smallest curvature of a Newton step
TOUCHES = 3  # rounds to find where the parabolas of the evidence touch


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


def solver(prior: Prior, known: Known, gram: Tensor | None = None) -> "_Dense | _Grouped":
    """The cheaper of two ways to the same numbers."""
    if known.items.shape[1] > 2 * (known.codes.shape[2] + 1):
        return _Grouped(prior, known)
    return _Dense(prior.gram(known) if gram is None else gram, known.mask)


def _under_parabola(known: Known, solve: "_Dense | _Grouped", added: Tensor) -> tuple[Tensor, Tensor]:
    """α and Δ of the events at the top of the parabolas that touch at the present Δ."""
    weights, targets = _parabolas(known, known.basis + added)
    dual = solve(weights, targets.unsqueeze(2)).squeeze(2)
    return dual, solve.covariance_times(dual)


def _uphill(
    known: Known, solve: "_Dense | _Grouped", added: Tensor, height: Tensor
) -> tuple[Tensor, Tensor, Tensor, bool]:
    """α, Δ and height after a Newton step, or after the parabola's for users whom Newton's would take down.

    The last value says whether all users took Newton's.
    """
    chance = (known.basis + added).sigmoid()
    weights = (chance * (1 - chance)).clamp(min=FLAT)
    targets = (added + (known.labels - chance) / weights) * known.mask
    stepped = solve(weights, targets.unsqueeze(2)).squeeze(2)
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
    heights = functional.logsigmoid(signed) * known.mask - 0.5 * dual * added
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


class _Grouped:
    """The same without an S × S matrix: K = ZZᵀ + repeat·[same item], and (repeat·[same item] + 1/w)⁻¹ is known."""

    def __init__(self, prior: Prior, known: Known) -> None:
        ones = known.mask.unsqueeze(2).double()
        self._rows = torch.cat([prior.bias.sqrt() * ones, prior.taste.sqrt() * known.codes], dim=2)  # Z
        self._groups = groups_of(known.items)
        self._repeat = prior.repeat
        self._mask = known.mask

    def __call__(self, weights: Tensor, targets: Tensor) -> Tensor:
        weights = weights * self._mask
        shrunk = self._repeat / (1 + self._repeat * self._sums(weights.unsqueeze(2)))
        spread = self._without_taste(weights, shrunk, self._rows)  # (repeat·[same] + 1/w)⁻¹ Z
        alone = self._without_taste(weights, shrunk, targets)
        system = self._rows.transpose(1, 2) @ spread
        factor, _ = torch.linalg.cholesky_ex(system + torch.eye(system.shape[1], dtype=system.dtype))
        taste = torch.cholesky_solve(self._rows.transpose(1, 2) @ alone, factor)
        return alone - spread @ taste

    def covariance_times(self, dual: Tensor) -> Tensor:
        values = dual.unsqueeze(2)
        taste = self._rows @ (self._rows.transpose(1, 2) @ values)
        return (taste + self._repeat * self._sums(values)).squeeze(2)

    def _without_taste(self, weights: Tensor, shrunk: Tensor, values: Tensor) -> Tensor:
        weighted = weights.unsqueeze(2) * values
        return weighted - weights.unsqueeze(2) * shrunk * self._sums(weighted)

    def _sums(self, values: Tensor) -> Tensor:
        return sums_by_group(self._groups, values)


def evidence(prior: Prior, known: Known) -> Tensor:
    """A lower bound of the log-likelihood of each user's labels under the prior, beyond that of Ψ alone, `[U]`.

    The parabolas touch where they are tightest given Δ's mean and variance; the gradient treats them as constant.
    """
    mask = known.mask
    gram = torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), prior.gram(known), 0.0)
    with torch.no_grad():
        touch = _tightest(known, gram)
        weights, targets = _parabolas(known, touch)
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
        weights, targets = _parabolas(known, touch)
        factor, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(1 / weights))
        mean = (gram @ torch.cholesky_solve(targets.unsqueeze(2), factor)).squeeze(2)
        explained = torch.linalg.solve_triangular(factor, gram, upper=False).square().sum(dim=1)
        variance = (gram.diagonal(dim1=1, dim2=2) - explained).clamp(min=0)
        touch = ((known.basis + mean).square() + variance).sqrt()
    return touch
