"""RESUS+: what a user does differently is a Gaussian process, conditioned on the user's labels by a logistic fit."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from resus.model.learners.base import Answer, Learner, LiveEvents, Posterior
from resus.model.learners.plus.fit import evidence, fit, solver
from resus.model.learners.plus.prior import Known, Prior, distinct_unknowns, groups_of, sums_by_group

SURE = 1e-9  # the smallest variance of a label: one so certain says nothing


class PlusLearner(Learner):
    """A label is a coin of logit Ψ(x) + Δ(x); Δŷ is the most likely Δ under a prior with three learned scales.

    A row's code is its item's id, negative if the item is unknown, and φ(x). For a user with more than about twice as
    many events as φ has entries, the same α come from a system of φ's size: repeats make a block-diagonal matrix, whose
    inverse is known.
    """

    has_posterior: ClassVar[bool] = True

    def __init__(self, *, steps: int, bias: bool, taste: bool, repeats: bool) -> None:
        super().__init__()
        self.steps = steps
        self.log_bias = nn.Parameter(torch.tensor(0.0)) if bias else None
        self.log_taste = nn.Parameter(torch.tensor(0.0)) if taste else None
        self.log_repeat = nn.Parameter(torch.tensor(0.0)) if repeats else None

    @classmethod
    def of(cls, learner: Learner) -> "PlusLearner":
        """The same learner, for code that only ever trains RESUS+."""
        assert isinstance(learner, cls)
        return learner

    @torch.no_grad()
    def start_from(self, *, bias: float, taste: float, repeat: float) -> None:
        """Set the prior's scales."""
        for parameter, variance in ((self.log_bias, bias), (self.log_taste, taste), (self.log_repeat, repeat)):
            if parameter is not None:
                parameter.fill_(math.log(variance))

    @property
    def prior(self) -> Prior:
        return Prior(*(_variance(part) for part in (self.log_bias, self.log_taste, self.log_repeat)))

    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        """The label and Ψ's logit, `[..., 2]`."""
        return torch.stack([labels, basis], dim=-1)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        if support.shape[1] == 0:
            return query.new_zeros(query.shape[0])
        prior, known = self.prior, Known.of(support, mask, outcomes)
        dual = fit(prior, known, steps=self.steps)
        codes = query[:, 1:].double()
        weights = (known.codes * dual.unsqueeze(2)).sum(dim=1)
        answer = prior.taste * (codes * weights.index_select(0, query_user)).sum(dim=1)
        answer = answer + prior.bias * dual.sum(dim=1).index_select(0, query_user)
        groups = groups_of(known.items, query[:, 0], query_user)
        events = dual.numel()
        of_item = dual.new_zeros(int(groups.max()) + 1).index_add(0, groups[:events], dual.flatten())
        answer = answer + prior.repeat * of_item.index_select(0, groups[events:])
        return answer.to(query.dtype)

    def prefixes(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """The fit to more events starts from the fit to fewer."""
        prior, known = self.prior, Known.of(support, mask, outcomes)
        gram = prior.gram(known)
        dual = gram.new_zeros(*mask.shape, len(sizes))
        fewer = None
        for column in sorted(range(len(sizes)), key=sizes.__getitem__):
            size = sizes[column]
            fewer = fit(prior, known.first(size), steps=self.steps, gram=gram[:, :size, :size], start=fewer)
            dual[:, :size, column] = fewer
        weights = prior.taste * known.codes.transpose(1, 2) @ dual
        answer = query[..., 1:] @ weights.to(query.dtype)
        answer = answer + (prior.bias * dual.sum(dim=1, keepdim=True)).to(query.dtype)
        same = query[..., 0].unsqueeze(2) == known.items.unsqueeze(1)
        if bool(same.any()):
            answer = answer + same.to(query.dtype) @ (prior.repeat * dual).to(query.dtype)
        return answer

    def live_state(self, width: int) -> LiveEvents:
        return LivePlus(self, width)

    def posteriors(self, support: Tensor, mask: Tensor, outcomes: Tensor, sizes: Sequence[int]) -> Iterator[Posterior]:
        prior, known = self.prior, Known.of(support, mask, outcomes)
        gram = prior.gram(known)
        for size in sizes:
            first = known.first(size)
            yield PlusPosterior(prior, first, fit(prior, first, steps=self.steps, gram=gram[:, :size, :size]))

    def evidence(self, support: Tensor, mask: Tensor, outcomes: Tensor) -> Tensor:
        """How well the prior predicts each user's labels, `[U]`."""
        return evidence(self.prior, Known.of(support, mask, outcomes))


class PlusPosterior(Posterior):
    """Laplace's approximation: the prior after the events, with the labels' own curvature at the fit `dual`."""

    def __init__(self, prior: Prior, known: Known, dual: Tensor) -> None:
        self._prior, self._known, self._dual = prior, known, dual

    def variance(self, query: Tensor) -> Tensor:
        return self._left(self._prior.variance(query[..., 1:].double()), self._across(query))

    def variance_of_sum(self, query: Tensor, weights: Tensor) -> Tensor:
        """As `variance`, without a P × P matrix."""
        prior, known, weights = self._prior, self._known, weights.double()
        total = weights.sum(dim=1, keepdim=True)
        summed = weights.unsqueeze(1) @ query[..., 1:].double()  # [U, 1, K]
        events = known.items.shape[1]
        groups = groups_of(torch.cat([known.items, distinct_unknowns(query[..., 0], events)], dim=1))
        of_item = sums_by_group(groups, torch.cat([torch.zeros_like(known.basis), weights], dim=1).unsqueeze(2))
        of_item = of_item.squeeze(2)
        own = prior.bias * total.square() + prior.taste * summed.square().sum(dim=2)
        own = own + prior.repeat * (weights * of_item[:, events:]).sum(dim=1, keepdim=True)
        across = prior.bias * total + prior.taste * (known.codes * summed).sum(dim=2)
        across = across + prior.repeat * of_item[:, :events]
        return self._left(own, across.unsqueeze(2)).squeeze(1)

    def parts(self, query: Tensor) -> Tensor:
        """How much each event moves each answer, `[U, P, S]`."""
        return (self._across(query) * self._dual.unsqueeze(2)).transpose(1, 2)

    def _across(self, query: Tensor) -> Tensor:
        """The prior covariance of every event with every query, `[U, S, P]`."""
        known = self._known
        return self._prior.covariance(known.codes, known.items, query[..., 1:].double(), query[..., 0])

    def _left(self, before: Tensor, across: Tensor) -> Tensor:
        """What the events leave of the variances `[U, C]` before them; `across` `[U, S, C]` covaries with them."""
        solve = solver(self._prior, self._known)
        chance = (self._known.basis + solve.covariance_times(self._dual)).sigmoid()
        weights = (chance * (1 - chance)).clamp(min=SURE)
        across = across * self._known.mask.unsqueeze(2)
        return (before - (across * solve(weights, across)).sum(dim=1)).clamp(min=0)


class LivePlus(LiveEvents):
    """Each new label moves the fit of all others, so only the events are kept.

    A fit is O(k³) for few events and O(kK²) for many; all candidates share it until the next event.
    """

    def __init__(self, learner: PlusLearner, width: int) -> None:
        super().__init__(learner, width)
        self._plus = learner
        self._fitted: PlusPosterior | None = None

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        super().fill(encoded, outcomes)
        self._fitted = None

    def answer(self, encoded: Tensor) -> Answer:
        if self._fitted is None:
            prior, known = self._plus.prior, Known.of(*self.as_support)
            self._fitted = PlusPosterior(prior, known, fit(prior, known, steps=self._plus.steps))
        candidates = encoded.unsqueeze(0)
        parts = self._fitted.parts(candidates).squeeze(0)
        deviation = self._fitted.variance(candidates).squeeze(0).sqrt()
        return Answer(parts.sum(dim=1).float(), parts.float(), deviation.float())


def _variance(logarithm: Tensor | None) -> Tensor:
    return torch.zeros((), dtype=torch.float64) if logarithm is None else logarithm.double().exp()
