"""Many users at a time, all with the same number of events, and the logits by which a rule ranks their candidates."""

from typing import Literal, get_args

import torch
from torch import Tensor

from resus.arrays import Integers
from resus.errors import ConfigError
from resus.model.learners.plus.drawing import deviations_drawn
from resus.model.learners.plus.fit import fit
from resus.model.learners.plus.learner import PlusLearner, PlusPosterior
from resus.model.personalizer import Personalizer

Rule = Literal["shared model", "greedy", "thompson", "ucb"]
RULES: tuple[Rule, ...] = get_args(Rule)


def plus_learner_of(model: Personalizer, name: str) -> PlusLearner:
    if not isinstance(model.learner, PlusLearner):
        raise ConfigError(
            f"resus explore needs the posterior of a RESUS+ model, and {name} has none: train with --learner plus"
        )
    return model.learner


class Followed:
    """The users' events, with their codes, labels and the crowd's logits. A draw of Thompson sampling per seed."""

    def __init__(self, learner: PlusLearner, users: int, width: int) -> None:
        self._learner = learner
        self._support, self._outcomes = torch.zeros(users, 0, width), torch.zeros(users, 0, 2)
        self._start: Tensor | None = None
        self._posterior: PlusPosterior | None = None

    @torch.no_grad()
    def add(self, encoded: Tensor, labels: Tensor, crowd: Tensor) -> None:
        """One more event of each user: `[U, K]`, `[U]` and `[U]`."""
        outcomes = self._learner.outcomes(labels, crowd)
        self._support = torch.cat([self._support, encoded.unsqueeze(1)], dim=1)
        self._outcomes = torch.cat([self._outcomes, outcomes.unsqueeze(1)], dim=1)
        self._posterior = None

    def keep_first(self, users: int) -> None:
        """Go on with these users only."""
        if users < len(self._support):
            self._support, self._outcomes, self._posterior = self._support[:users], self._outcomes[:users], None
            self._start = None if self._start is None else self._start[:users]

    @torch.no_grad()
    def mean(self, query: Tensor, crowd: Tensor) -> Tensor:
        """The logits of candidates `[U, P, K]`, `[U, P]`."""
        users, places, _ = query.shape
        if not self._support.shape[1]:
            return crowd
        posterior = self._fitted()
        codes = self._learner.layout.unpack(query.flatten(0, 1))
        owner = torch.arange(users).repeat_interleave(places)
        dual, included = posterior.dual.float().unsqueeze(2), posterior.known.mask.unsqueeze(2)
        terms = self._learner.terms(posterior.known, dual, included, codes, owner)
        return crowd + torch.stack(list(terms)).sum(dim=0).view(users, places)

    @torch.no_grad()
    def deviation(self, query: Tensor) -> Tensor:
        """The standard deviations of these logits, `[U, P]`."""
        return self._fitted().variance(query).sqrt().float()

    @torch.no_grad()
    def drawn(self, query: Tensor, seeds: Integers, draws: int = 1) -> Tensor:
        """Draws of the users' whole functions, minus the mean, `[U, P, draws]`."""
        return deviations_drawn(self._fitted(), query, seeds, draws).float()

    def _fitted(self) -> PlusPosterior:
        if self._posterior is None:
            learner, mask = self._learner, torch.ones(self._support.shape[:2], dtype=torch.bool)
            known = learner.known(self._support, mask, self._outcomes)
            self._start = fit(learner.prior, known, steps=learner.steps, start=self._start)
            self._posterior = PlusPosterior(learner.layout, learner.prior, known, self._start)
        return self._posterior


@torch.no_grad()
def scores_of(
    rule: Rule, users: Followed, query: Tensor, crowd: Tensor, shared: Tensor, seeds: Integers, width: float
) -> Tensor:
    """The logits by which a rule ranks candidates `[U, P, K]` with logits of the crowd and of the shared model."""
    if rule == "shared model":
        return shared
    mean = users.mean(query, crowd)
    if rule == "thompson":
        return mean + width * users.drawn(query, seeds).squeeze(2)
    return mean + width * users.deviation(query) if rule == "ucb" else mean
