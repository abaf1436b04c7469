"""RESUS+: what a user does differently is a Gaussian process, conditioned on the user's labels by a logistic fit."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from resus.model.learners.base import Answer, Explanation, Learner, LiveEvents, Posterior
from resus.model.learners.plus.codes import Codes, Layout, matched, summed_by_key
from resus.model.learners.plus.fit import fit, solver
from resus.model.learners.plus.numbers import FEW_CHOICES, SURE
from resus.model.learners.plus.prior import Known, Prior

START_OF_MATCH, START_OF_ITEM, START_OF_TASTE, START_OF_COMMON, START_OF_CHOICES = 0.1, 1.0, 1.0, 0.5, 0.5


class PlusLearner(Learner):
    """A label is a coin of logit m(x) + Δ(x): m is what the crowd and the user's choices say, Δ a Gaussian process.

    The crowd says a·Ψ(x) + c·common(x). The user's earlier events add, whatever their labels, z·⟨Σψ(x_j), χ(x)⟩ /
    √(k + κ), and, if they are of the same context, a number per like and one per dislike. Events of the candidate's
    own item are left out of both sums: what the user thinks of this very item only Δ says, so that a like never lowers
    and a dislike never raises its score. Δ is the most likely one under the prior, which has one learned scale per
    part (`Prior`).
    """

    has_posterior: ClassVar[bool] = True

    def __init__(
        self,
        layout: Layout,
        *,
        steps: int,
        bias: bool = True,
        matches: bool = True,
        taste: bool = True,
        choices: bool = True,
        context: bool = True,
        common: bool = True,
        scale: bool = True,
        trust: bool = True,
        sizes: bool = True,
    ) -> None:
        super().__init__()
        self.layout, self.steps = layout, steps
        self.log_bias = _parameter(bias, 1.0)
        self.log_matches = nn.Parameter(torch.zeros(len(layout.names))) if matches else None
        self.log_taste = _parameter(taste, START_OF_TASTE)
        self.log_choices = _parameter(choices, START_OF_CHOICES)
        self.log_common = _parameter(common, START_OF_COMMON)
        self.log_scale = _parameter(scale, 1.0)
        self.log_trust = nn.Parameter(torch.zeros(2)) if trust else None  # of a like and of a dislike
        self.same_context = nn.Parameter(torch.zeros(2)) if context else None  # of a like and of a dislike
        self.by_size = nn.Parameter(torch.zeros(2)) if sizes else None  # of k / (k + κ) and of log(1 + k / κ)
        self._fields: Tensor
        self.register_buffer("_fields", layout.field_of_value, persistent=False)  # it moves along
        self.start_from(bias=1.0)

    @classmethod
    def of(cls, learner: Learner) -> "PlusLearner":
        """The same learner, for code that only ever trains RESUS+."""
        assert isinstance(learner, cls)
        return learner

    @torch.no_grad()
    def start_from(self, *, bias: float) -> None:
        """Set the variance of the bias, and the other scales to where learning starts."""
        if self.log_bias is not None:
            self.log_bias.fill_(math.log(bias))
        if self.log_matches is not None:
            self.log_matches.fill_(math.log(START_OF_MATCH))
            self.log_matches[self.layout.names.index(self.layout.item)] = math.log(START_OF_ITEM)

    @property
    def prior(self) -> Prior:
        values = self._fields
        matches = torch.zeros(len(values), dtype=torch.float64, device=values.device)
        if self.log_matches is not None:
            matches = self.log_matches.double().exp()[values]
        return Prior(_exp(self.log_bias), matches, _exp(self.log_taste), values)

    @property
    def trust(self) -> tuple[Tensor, Tensor]:
        """As how many labels a like and a dislike count."""
        like, dislike = torch.ones(2, device=self._fields.device) if self.log_trust is None else self.log_trust.exp()
        return like, dislike

    def known(self, support: Tensor, mask: Tensor, outcomes: Tensor) -> Known:
        return Known.of(self.layout, support, mask, outcomes, self.trust)

    def scales(self) -> Iterable[nn.Parameter]:
        return self.parameters()

    def crowd(self, basis: Tensor, encoded: Tensor) -> Tensor:
        scaled = basis if self.log_scale is None else basis * self.log_scale.exp()
        if self.log_common is None:
            return scaled
        return scaled + self.log_common.exp() * self.layout.unpack(encoded).common

    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        """The label and the crowd's logit, `[..., 2]`."""
        return torch.stack([labels, basis], dim=-1)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        if support.shape[1] == 0:
            return query.new_zeros(query.shape[0])
        known = self.known(support, mask, outcomes)
        dual = fit(self.prior, known, steps=self.steps).unsqueeze(2)
        terms = self.terms(known, dual, mask.unsqueeze(2), self.layout.unpack(query), query_user)
        return torch.stack(list(terms)).sum(dim=0).squeeze(1).to(query.dtype)

    def prefixes(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """The fit to more events starts from the fit to fewer."""
        prior, known = self.prior, self.known(support, mask, outcomes)
        gram = prior.covariance(known.codes, known.codes)
        dual = gram.new_zeros(*mask.shape, len(sizes))
        fewer = None
        for column in sorted(range(len(sizes)), key=sizes.__getitem__):
            size = sizes[column]
            fewer = fit(prior, known.first(size), steps=self.steps, gram=gram[:, :size, :size], start=fewer)
            dual[:, :size, column] = fewer
        slots = torch.arange(mask.shape[1], device=mask.device).view(1, -1, 1)
        included = mask.unsqueeze(2) & (slots < torch.tensor(list(sizes), device=mask.device))
        flat = self.layout.unpack(query.flatten(0, 1))
        owner = torch.arange(len(query), device=query.device).repeat_interleave(query.shape[1])
        terms = self.terms(known, dual.to(query.dtype), included, flat, owner)
        return torch.stack(list(terms)).sum(dim=0).view(*query.shape[:2], len(sizes))

    def live_state(self, width: int) -> LiveEvents:
        return LivePlus(self, width)

    def posteriors(self, support: Tensor, mask: Tensor, outcomes: Tensor, sizes: Sequence[int]) -> Iterator[Posterior]:
        prior, known = self.prior, self.known(support, mask, outcomes)
        gram = prior.covariance(known.codes, known.codes)
        for size in sizes:
            first = known.first(size)
            dual = fit(prior, first, steps=self.steps, gram=gram[:, :size, :size])
            yield PlusPosterior(self.layout, prior, first, dual)

    def causes(self, known: Known, dual: Tensor, query: Codes, users: Tensor) -> dict[str, Tensor]:
        """What each part of the model adds to the answers of the queries, `[Q]` each; a part turned off is no cause."""
        included = known.mask.unsqueeze(2)
        found = {}
        if self.log_bias is not None:
            found["generosity"] = self._bias(dual, users)
        if self.log_matches is not None:
            scales = self.prior.matches
            for number, name in enumerate(self.layout.names):
                said = matched(known.codes, dual, scales * (self._fields == number), query, users)
                found["this very item" if name == self.layout.item else f"same {name}"] = said
        if self.log_taste is not None:
            found["taste"] = self._taste(known, dual, query, users)
        own = _OwnItem(known, query, users)
        if self.log_choices is not None:
            found["choice of items"] = self._choices(known, included.to(dual.dtype), query, users, own)
        if self.same_context is not None:
            found["same context"] = self._contexts(known, included.to(dual.dtype), query, users, own)
        if self.by_size is not None:
            found["number of events"] = self._sizes(included.to(dual.dtype), users, own)
        return {cause: values.squeeze(1) for cause, values in found.items()}

    def terms(self, known: Known, dual: Tensor, included: Tensor, query: Codes, users: Tensor) -> Iterator[Tensor]:
        """What the parts of the model add to the answers `[Q, J]`; column j is of the events `included[:, :, j]`."""
        yield self._bias(dual, users)
        if self.log_matches is not None:
            yield matched(known.codes, dual, self.prior.matches, query, users)
        if self.log_taste is not None:
            yield self._taste(known, dual, query, users)
        own = _OwnItem(known, query, users)
        if self.log_choices is not None:
            yield self._choices(known, included.to(dual.dtype), query, users, own)
        if self.same_context is not None:
            yield self._contexts(known, included.to(dual.dtype), query, users, own)
        if self.by_size is not None:
            yield self._sizes(included.to(dual.dtype), users, own)

    def _bias(self, dual: Tensor, users: Tensor) -> Tensor:
        return (_exp(self.log_bias).to(dual.dtype) * dual.sum(dim=1)).index_select(0, users)

    def _taste(self, known: Known, dual: Tensor, query: Codes, users: Tensor) -> Tensor:
        weights = known.codes.taste.to(dual.dtype).transpose(1, 2) @ dual
        return _products(query.taste.to(dual.dtype), _exp(self.log_taste).to(dual.dtype) * weights, users)

    def _choices(self, known: Known, included: Tensor, query: Codes, users: Tensor, own: "_OwnItem") -> Tensor:
        chosen, offered = known.codes.chosen.to(included.dtype), query.offered.to(included.dtype)
        total = _products(offered, chosen.transpose(1, 2) @ included, users)
        inner = (chosen[own.users] * offered[own.rows].unsqueeze(1)).sum(dim=2)
        others = total - own.spread(inner, included)
        count = own.others(included, users)
        said: Tensor = _exp(self.log_choices).to(included.dtype) * others / (count + FEW_CHOICES).sqrt()
        return said

    def _sizes(self, included: Tensor, users: Tensor, own: "_OwnItem") -> Tensor:
        assert self.by_size is not None
        soon, late = self.by_size.to(included.dtype)
        count = own.others(included, users)
        drift: Tensor = soon * count / (count + FEW_CHOICES) + late * (count / FEW_CHOICES).log1p()
        return drift

    def _contexts(self, known: Known, included: Tensor, query: Codes, users: Tensor, own: "_OwnItem") -> Tensor:
        assert self.same_context is not None
        like, dislike = self.same_context.to(included.dtype)
        labels = known.labels.to(included.dtype)
        exists = ((known.codes.contexts != 0) & known.mask).to(included.dtype)
        weights = (labels * like + (1 - labels) * dislike) * exists  # [U, S]
        amounts = weights.unsqueeze(2) * included
        if not bool(exists.any()):
            return included.new_zeros(len(users), included.shape[2])
        keys, other_keys = _numbered(known.codes.contexts, query.contexts)
        asked = torch.ones_like(query.items, dtype=included.dtype).unsqueeze(1)
        total = summed_by_key(keys.unsqueeze(2), exists.unsqueeze(2), amounts, other_keys.unsqueeze(1), asked, users)
        same = (known.codes.contexts[own.users] == query.contexts[own.rows].unsqueeze(1)).to(included.dtype)
        return total - own.spread(same * weights[own.users], included)


class _OwnItem:
    """Which queries are of an item that their user has had, and which events those are.

    An event of an unknown item may be of the same item as a query of an unknown item, so it counts as such.
    """

    def __init__(self, known: Known, query: Codes, users: Tensor) -> None:
        items, mask = known.codes.items, known.mask
        self._length = len(users)
        ones = mask.to(items.dtype).unsqueeze(2)
        asked = torch.ones_like(query.items).unsqueeze(1)
        keys, other_keys = _numbered(items.unsqueeze(2), query.items.unsqueeze(1))
        self.rows = summed_by_key(keys, ones, ones, other_keys, asked, users).squeeze(1).nonzero().squeeze(1)
        self.users = users[self.rows]
        self._same = (items[self.users] == query.items[self.rows].unsqueeze(1)) & mask[self.users]

    def others(self, included: Tensor, users: Tensor) -> Tensor:
        """The number of events of other items than the query's, `[Q, J]`."""
        own = self.spread(self._same.to(included.dtype), included)
        return included.sum(dim=1).index_select(0, users) - own

    def spread(self, values: Tensor, included: Tensor) -> Tensor:
        """Sums of values `[H, S]` over the events of the own item, for all queries `[Q, J]`."""
        sums = ((values * self._same).unsqueeze(1) @ included[self.users]).squeeze(1)
        return sums.new_zeros(self._length, included.shape[2]).index_add(0, self.rows, sums)


class PlusPosterior(Posterior):
    """Laplace's approximation: the prior after the events, with the labels' own curvature at the fit `dual`."""

    def __init__(self, layout: Layout, prior: Prior, known: Known, dual: Tensor) -> None:
        self.layout, self.prior, self.known, self.dual = layout, prior, known, dual
        self._solve = solver(prior, known)

    def variance(self, query: Tensor) -> Tensor:
        codes = self.layout.unpack(query)
        return self._left(self.prior.variance(codes), self.across(codes))

    def variance_of_sum(self, query: Tensor, weights: Tensor) -> Tensor:
        """As `variance`, without a P × P matrix."""
        prior, codes, amounts = self.prior, self.layout.unpack(query), weights.double().unsqueeze(2)
        own = (amounts * prior.times(codes, amounts)).sum(dim=(1, 2)).unsqueeze(1)
        users, slots = self.known.mask.shape
        events = Codes(*(part.flatten(0, 1) for part in self.known.codes))
        owner = torch.arange(users, device=query.device).repeat_interleave(slots)
        across = matched(codes, amounts, prior.matches, events, owner).view(users, slots)
        summed = codes.taste.double().transpose(1, 2) @ amounts  # [U, E, 1]
        across = across + prior.taste * (self.known.codes.taste.double() @ summed).squeeze(2)
        across = across + prior.bias * amounts.sum(dim=1)
        return self._left(own, across.unsqueeze(2)).squeeze(1)

    def parts(self, query: Tensor) -> Tensor:
        """How much each event's label moves each answer, `[U, P, S]`."""
        return (self.across(self.layout.unpack(query)) * self.dual.unsqueeze(2)).transpose(1, 2)

    def across(self, codes: Codes) -> Tensor:
        """The prior covariance of every event with every query, `[U, S, P]`."""
        return self.prior.covariance(self.known.codes, codes)

    @property
    def curvature(self) -> Tensor:
        """Of the labels at the fit, `[U, S]`."""
        chance = (self.known.basis + self._solve.covariance_times(self.dual)).sigmoid()
        return (chance * (1 - chance) * self.known.trust).clamp(min=SURE)

    def solved(self, targets: Tensor) -> Tensor:
        """(K + 1/w)⁻¹ targets `[U, S, C]`, with the curvatures w."""
        return self._solve(self.curvature, targets)

    def _left(self, before: Tensor, across: Tensor) -> Tensor:
        """What the events leave of the variances `[U, C]` before them; `across` `[U, S, C]` covaries with them."""
        across = across * self.known.mask.unsqueeze(2)
        return (before - (across * self.solved(across)).sum(dim=1)).clamp(min=0)


class LivePlus(LiveEvents):
    """Each new label moves the fit of all others, so only the events are kept.

    A fit is O(k³); all candidates share it until the next event.
    """

    def __init__(self, learner: PlusLearner, width: int) -> None:
        super().__init__(learner, width)
        self._plus = learner
        self._fitted: PlusPosterior | None = None

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        super().fill(encoded, outcomes)
        self._fitted = None

    def answer(self, encoded: Tensor, *, explain: bool = False) -> Answer:
        plus = self._plus
        if self._fitted is None:
            prior, known = plus.prior, plus.known(*self.as_support)
            self._fitted = PlusPosterior(plus.layout, prior, known, fit(prior, known, steps=plus.steps))
        known, dual = self._fitted.known, self._fitted.dual.unsqueeze(2)
        codes, users = plus.layout.unpack(encoded), torch.zeros(len(encoded), dtype=torch.long)
        residual = torch.stack(list(plus.terms(known, dual, known.mask.unsqueeze(2), codes, users))).sum(dim=0)
        deviation = self._fitted.variance(encoded.unsqueeze(0)).squeeze(0).sqrt().float()
        explanation = None
        if explain:
            causes = {cause: part.float() for cause, part in plus.causes(known, dual, codes, users).items()}
            explanation = Explanation(self._fitted.parts(encoded.unsqueeze(0)).squeeze(0).float(), causes)
        return Answer(residual.squeeze(1).float(), deviation, explanation)


def _products(vectors: Tensor, weights: Tensor, users: Tensor) -> Tensor:
    """⟨vector, weight⟩ of vectors `[Q, E]` of users `[Q]` and weights `[U, E, J]` → `[Q, J]`."""
    if len(weights) and len(users) % len(weights) == 0:
        rows = len(users) // len(weights)
        if bool((users == torch.arange(len(weights), device=users.device).repeat_interleave(rows)).all()):
            return (vectors.view(len(weights), rows, vectors.shape[1]) @ weights).flatten(0, 1)
    return (vectors.unsqueeze(1) @ weights.index_select(0, users)).squeeze(1)


def _numbered(signatures: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Small numbers in place of large signatures, equal where these are equal."""
    numbers = torch.unique(torch.cat([signatures.flatten(), others.flatten()]), return_inverse=True)[1]
    return numbers[: signatures.numel()].view_as(signatures), numbers[signatures.numel() :].view_as(others)


def _parameter(used: bool, start: float) -> nn.Parameter | None:
    return nn.Parameter(torch.tensor(math.log(start))) if used else None


def _exp(logarithm: Tensor | None) -> Tensor:
    return torch.zeros((), dtype=torch.float64) if logarithm is None else logarithm.double().exp()
