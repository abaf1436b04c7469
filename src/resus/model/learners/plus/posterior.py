"""What a user does differently as a Gaussian process, given the user's labels (RESUS+): logistic, not least squares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

PARABOLAS = 1  # steps that are safe from afar; Newton's, which follow, are quick near the mode
ARRIVED = 1e-3  # a step of Newton's that moves no logit so far leaves less than its square to go
TOUCHES = 3  # rounds to where the evidence's parabolas touch
ROUNDING = 1e-9  # of a height: a step that loses less leads nowhere down
FLAT = 1e-6  # the least curvature that Newton's step goes by
SURE = 1e-9  # of a label's variance: one so certain says nothing


class PosteriorLearner(nn.Module):
    """A label is a coin of logit Ψ(x) + Δ(x); Δŷ is the most likely Δ under a prior covariance of three parts,

        k(x, x') = bias + taste·⟨φ(x), φ(x')⟩ + repeat·[x and x' are of one item],

    each scale learned. The logistic likelihood is bounded from below by a parabola that touches it at the present logit
    ℓ (Jaakkola and Jordan), of curvature w = tanh(ℓ/2) / 2ℓ: a step is the weighted ridge (K + 1/w) α = (y − ½)/w − Ψ,
    and never leads away from the mode. After `PARABOLAS` such steps the others, up to `steps`, are
    Newton's, weighted ridges too, but for users whom they would lead away. Δŷ(x) = Σ_i k(x, x_i) α_i.

    A row's code is its item's id, negative where nobody knows the item, and φ(x). With more than about twice as many
    events as φ has entries, the same α come from a system of φ's size: repeats make a block-diagonal matrix, whose
    inverse is known.
    """

    def __init__(self, *, steps: int, bias: bool, taste: bool, repeats: bool) -> None:
        super().__init__()
        self.steps = steps
        self.log_bias = nn.Parameter(torch.tensor(0.0)) if bias else None
        self.log_taste = nn.Parameter(torch.tensor(0.0)) if taste else None
        self.log_repeat = nn.Parameter(torch.tensor(0.0)) if repeats else None

    @torch.no_grad()
    def start_from(self, *, bias: float, taste: float, repeat: float) -> None:
        """Prior variances to begin with."""
        for parameter, variance in ((self.log_bias, bias), (self.log_taste, taste), (self.log_repeat, repeat)):
            if parameter is not None:
                parameter.fill_(math.log(variance))

    @property
    def prior(self) -> "Prior":
        return Prior(*(_variance(part) for part in (self.log_bias, self.log_taste, self.log_repeat)))

    @staticmethod
    def outcomes(labels: Tensor, basis: Tensor) -> Tensor:
        """The label and Ψ's logit, `[..., 2]`."""
        return torch.stack([labels, basis], dim=-1)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        if support.shape[1] == 0:
            return query.new_zeros(query.shape[0])
        prior, known = self.prior, Known.of(support, mask, outcomes)
        dual = self.fit(prior, known)
        codes = query[:, 1:].double()
        weights = (known.codes * dual.unsqueeze(2)).sum(dim=1)
        answer = prior.taste * (codes * weights.index_select(0, query_user)).sum(dim=1)
        answer = answer + prior.bias * dual.sum(dim=1).index_select(0, query_user)
        groups = _groups(known.items, query[:, 0], query_user)
        events = dual.numel()
        of_item = dual.new_zeros(int(groups.max()) + 1).index_add(0, groups[:events], dual.flatten())
        answer = answer + prior.repeat * of_item.index_select(0, groups[events:])
        return answer.to(query.dtype)

    def prefixes(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """The fit to fewer events is where that to more begins."""
        prior, known = self.prior, Known.of(support, mask, outcomes)
        gram = prior.covariance(known.codes, known.items, known.codes, known.items)
        dual = gram.new_zeros(*mask.shape, len(sizes))
        fit = None
        for column in sorted(range(len(sizes)), key=sizes.__getitem__):
            size = sizes[column]
            fit = self.fit(prior, known.first(size), gram[:, :size, :size], start=fit)
            dual[:, :size, column] = fit
        weights = prior.taste * known.codes.transpose(1, 2) @ dual
        answer = query[..., 1:] @ weights.to(query.dtype)
        answer = answer + (prior.bias * dual.sum(dim=1, keepdim=True)).to(query.dtype)
        same = query[..., 0].unsqueeze(2) == known.items.unsqueeze(1)
        if bool(same.any()):
            answer = answer + same.to(query.dtype) @ (prior.repeat * dual).to(query.dtype)
        return answer

    def fit(self, prior: "Prior", known: "Known", gram: Tensor | None = None, *, start: Tensor | None = None) -> Tensor:
        """α `[U, S]`, 0 in empty slots.

        `gram` is the prior covariance of the events where it is at hand; `start` is the fit to the first of the events,
        from where a fit of several steps begins.
        """
        solve = _solver(prior, known, gram)
        dual = torch.zeros_like(known.basis)
        if start is not None and self.steps > PARABOLAS:
            dual[:, : start.shape[1]] = start
        added = solve.covariance_times(dual)
        for _ in range(min(PARABOLAS, self.steps)):
            dual, added = _under_parabola(known, solve, added)
        height = _height(known, dual, added)
        for _ in range(PARABOLAS, self.steps):
            before = added
            dual, added, height, surely = _uphill(known, solve, before, height)
            if surely and bool(((added - before).abs() < ARRIVED).all()):
                break
        return dual

    def evidence(self, support: Tensor, mask: Tensor, outcomes: Tensor) -> Tensor:
        """A lower bound of the log-likelihood of each user's labels under the prior, beyond Ψ's own, `[U]`.

        The parabolas touch where they are tightest given Δ's mean and variance; the gradient takes them as given.
        """
        prior, known = self.prior, Known.of(support, mask, outcomes)
        gram = prior.covariance(known.codes, known.items, known.codes, known.items)
        gram = torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), gram, 0.0)
        with torch.no_grad():
            touch = self._tightest(known, gram)
            weights = _curvature(touch)
            targets = ((known.labels - 0.5) / weights - known.basis) * mask
            at_zero = (known.labels - 0.5) * known.basis + 0.5 * weights * (touch.square() - known.basis.square())
            at_zero = at_zero + functional.logsigmoid(touch) - touch / 2  # the parabola's height where Δ = 0
            alone = functional.logsigmoid(known.basis * (2 * known.labels - 1))
            constant = ((at_zero - alone) * mask).sum(dim=1) + 0.5 * (weights * targets.square()).sum(dim=1)
        factor, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(1 / weights))
        whitened = torch.linalg.solve_triangular(factor, targets.unsqueeze(2), upper=False)
        volume = factor.diagonal(dim1=1, dim2=2).log().sum(dim=1) + 0.5 * weights.log().sum(dim=1)
        evidence: Tensor = constant - 0.5 * whitened.square().sum(dim=(1, 2)) - volume
        return evidence

    def _tightest(self, known: "Known", gram: Tensor) -> Tensor:
        """Where the parabolas touch: at √E[ℓ²] of each event's logit, given all of them."""
        touch = known.basis.abs()
        for _ in range(TOUCHES):
            weights = _curvature(touch)
            targets = ((known.labels - 0.5) / weights - known.basis) * known.mask
            factor, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(1 / weights))
            mean = (gram @ torch.cholesky_solve(targets.unsqueeze(2), factor)).squeeze(2)
            explained = torch.linalg.solve_triangular(factor, gram, upper=False).square().sum(dim=1)
            variance = (gram.diagonal(dim1=1, dim2=2) - explained).clamp(min=0)
            touch = ((known.basis + mean).square() + variance).sqrt()
        return touch

    def variance(self, prior: "Prior", known: "Known", dual: Tensor, query: Tensor) -> Tensor:
        """Of Δ at each query `[U, P, 1 + K]`, given the fit: Laplace's, with the labels' own curvature at the mode."""
        codes, items = query[..., 1:].double(), query[..., 0]
        across = prior.covariance(known.codes, known.items, codes, items)  # [U, S, P]
        return self._left(prior, known, dual, prior.variance(codes), across)

    def variance_of_sum(self, prior: "Prior", known: "Known", dual: Tensor, query: Tensor, weights: Tensor) -> Tensor:
        """Of Σ_q g_q·Δ(q) over each user's queries, weighted by g `[U, P]`; as `variance`, without a P × P matrix."""
        weights = weights.double()
        total = weights.sum(dim=1, keepdim=True)
        summed = weights.unsqueeze(1) @ query[..., 1:].double()  # [U, 1, K]
        groups = _groups(torch.cat([known.items, _named_apart(query[..., 0], known.items.shape[1])], dim=1))
        of_item = _sums_by_group(groups, torch.cat([torch.zeros_like(known.basis), weights], dim=1).unsqueeze(2))
        of_item = of_item.squeeze(2)
        events = known.items.shape[1]
        own = prior.bias * total.square() + prior.taste * summed.square().sum(dim=2)
        own = own + prior.repeat * (weights * of_item[:, events:]).sum(dim=1, keepdim=True)
        across = prior.bias * total + prior.taste * (known.codes * summed).sum(dim=2)
        across = across + prior.repeat * of_item[:, :events]
        return self._left(prior, known, dual, own, across.unsqueeze(2)).squeeze(1)

    def _left(self, prior: "Prior", known: "Known", dual: Tensor, before: Tensor, across: Tensor) -> Tensor:
        """Of variances `[U, C]` before any event, what is left after them; `across` `[U, S, C]` covaries with them."""
        solve = _solver(prior, known)
        chance = (known.basis + solve.covariance_times(dual)).sigmoid()
        weights = (chance * (1 - chance)).clamp(min=SURE)
        across = across * known.mask.unsqueeze(2)
        return (before - (across * solve(weights, across)).sum(dim=1)).clamp(min=0)


@dataclass(frozen=True, eq=False)
class Prior:
    """The three variances; 0 where a part is left out."""

    bias: Tensor
    taste: Tensor
    repeat: Tensor

    def covariance(self, codes: Tensor, items: Tensor, other_codes: Tensor, other_items: Tensor) -> Tensor:
        """k of every row `[..., P]` with every other row `[..., S]`."""
        same = items.unsqueeze(-1) == other_items.unsqueeze(-2)
        inner = codes @ other_codes.transpose(-1, -2)
        covariance: Tensor = self.bias + self.taste * inner + self.repeat * same
        return covariance

    def variance(self, codes: Tensor) -> Tensor:
        """k of every row with itself."""
        variance: Tensor = self.bias + self.taste * codes.square().sum(dim=-1) + self.repeat
        return variance


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of some users, in float64; empty slots hold zeros.

    An event of an item that nobody knows, and an empty slot, has an item of its own, which no other row has.
    """

    mask: Tensor  # [U, S]
    items: Tensor  # [U, S], float32 as rows have them
    codes: Tensor  # [U, S, K]
    labels: Tensor  # [U, S]
    basis: Tensor  # [U, S]

    @classmethod
    def of(cls, support: Tensor, mask: Tensor, outcomes: Tensor) -> "Known":
        labels, basis = (torch.where(mask, value, 0.0).double() for value in outcomes.unbind(dim=-1))
        codes = torch.where(mask.unsqueeze(-1), support[..., 1:], 0.0).double()
        items = _named_apart(torch.where(mask, support[..., 0], -1.0), 0)  # -1 is left to a query of an unknown item
        return cls(mask, items, codes, labels, basis)

    def first(self, size: int) -> "Known":
        """Only the first events of each user."""
        return Known(*(part[:, :size] for part in (self.mask, self.items, self.codes, self.labels, self.basis)))


def _solver(prior: Prior, known: Known, gram: Tensor | None = None) -> "_Dense | _Grouped":
    """The cheaper of two ways to the same numbers."""
    if known.items.shape[1] > 2 * (known.codes.shape[2] + 1):
        return _Grouped(prior, known)
    if gram is None:
        gram = prior.covariance(known.codes, known.items, known.codes, known.items)
    return _Dense(gram, known.mask)


def _under_parabola(known: Known, solve: "_Dense | _Grouped", added: Tensor) -> tuple[Tensor, Tensor]:
    """α and Δ of the events at the top of the parabolas that touch at the present Δ."""
    weights = _curvature(known.basis + added)
    targets = ((known.labels - 0.5) / weights - known.basis) * known.mask
    dual = solve(weights, targets.unsqueeze(2)).squeeze(2)
    return dual, solve.covariance_times(dual)


def _uphill(
    known: Known, solve: "_Dense | _Grouped", added: Tensor, height: Tensor
) -> tuple[Tensor, Tensor, Tensor, bool]:
    """α, Δ and height after Newton's step, or after that of the parabolas for each user whom it would lead down.

    Last, whether all took Newton's.
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
    """log-likelihood and log-prior of each user, `[U, 1]`, but for a constant; Δᵀ K⁻¹ Δ = αᵀΔ."""
    signed = (2 * known.labels - 1) * (known.basis + added)
    heights = functional.logsigmoid(signed) * known.mask - 0.5 * dual * added
    return heights.sum(dim=1, keepdim=True)


class _Dense:
    """(K + 1/w) X = targets `[U, S, C]` by the Cholesky factor of an S × S matrix."""

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
        self._groups = _groups(known.items)
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
        return _sums_by_group(self._groups, values)


def _groups(items: Tensor, query_items: Tensor | None = None, query_user: Tensor | None = None) -> Tensor:
    """Rows of one user and item have one number: those of `[U, P]` items first, then those of queries `[Q]`."""
    users = torch.arange(len(items)).unsqueeze(1).expand_as(items).flatten()
    named = items.flatten().long()
    if query_items is not None and query_user is not None:
        users, named = torch.cat([users, query_user]), torch.cat([named, query_items.long()])
    first = int(named.min())
    keys = users * (int(named.max()) - first + 1) + named - first
    groups: Tensor = torch.unique(keys, return_inverse=True)[1]
    return groups


def _named_apart(items: Tensor, start: int) -> Tensor:
    """Items `[U, P]` of which no two unknown ones are the same: they are -2 - start, -3 - start, …"""
    own = -2.0 - start - torch.arange(items.shape[1], dtype=items.dtype)
    return torch.where(items >= 0, items, own)


def _sums_by_group(groups: Tensor, values: Tensor) -> Tensor:
    """Of each row, the sum over the rows of its group; `[U, P, C]` → `[U, P, C]`."""
    flat = values.flatten(0, 1)
    sums = flat.new_zeros(int(groups.max()) + 1, flat.shape[1]).index_add(0, groups, flat)
    return sums.index_select(0, groups).view_as(values)


def _variance(logarithm: Tensor | None) -> Tensor:
    return torch.zeros((), dtype=torch.float64) if logarithm is None else logarithm.double().exp()


def _curvature(logits: Tensor) -> Tensor:
    """tanh(ℓ/2) / 2ℓ, which is ¼ at 0 and even."""
    size = logits.abs().clamp(min=1e-4)
    return torch.tanh(size / 2) / (2 * size)
