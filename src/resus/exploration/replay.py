"""What each rule would do at each logged decision, given the decisions before it and what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Doubles, Integers
from resus.episodes.batch import Features
from resus.exploration.decisions import Decisions
from resus.exploration.estimators import LoggedDecisions, RuleOnLog
from resus.exploration.followed import Followed, Rule, plus_learner_of
from resus.model.inference.parts import Rows
from resus.model.personalizer import Personalizer
from resus.progress import Progress, silent
from resus.serving.catalogue import Catalogue

CANDIDATES = 1 << 16  # rows of a tile of users at one step


@dataclass(frozen=True, eq=False)
class Replayed:
    """The decisions, and what each rule would do at each."""

    logged: LoggedDecisions
    rules: dict[str, RuleOnLog]


@torch.no_grad()
def replay(
    model: Personalizer,
    name: str,
    decisions: Decisions,
    catalogue: Catalogue,
    rules: Sequence[Rule],
    *,
    width: float,
    draws: int,
    seed: int,
    progress: Progress = silent,
) -> Replayed:
    """`draws` are those of the probabilities of Thompson sampling. All rules learn from the logged choices."""
    learner = plus_learner_of(model, name)
    lengths, total = decisions.lengths, len(decisions.rewards)
    chance = {rule: np.zeros(total) for rule in rules}
    value = {rule: np.zeros(total) for rule in rules}
    guess = np.zeros(total)
    by_length = np.argsort(-lengths, kind="stable")
    at_once = max(1, CANDIDATES // decisions.candidates.shape[1])
    done = 0
    for start in range(0, len(lengths), at_once):
        users = by_length[start : start + at_once]
        followed = Followed(learner, len(users), model.encoder.width)
        for step in range(int(lengths[users].max(initial=0))):
            users = users[lengths[users] > step]
            followed.keep_first(len(users))
            rows = decisions.offsets[users] + step
            offered = decisions.candidates_of(rows)
            shared, crowd, codes = _encoded(model, _candidates(decisions.rows.take(rows), catalogue, offered))
            mean = followed.mean(codes, crowd)
            expected = mean.sigmoid().double()
            picked, possible = decisions.chosen[rows], torch.from_numpy(offered >= 0)
            seeds = (seed * len(lengths) + users) * int(lengths.max()) + step
            for rule in rules:
                chances = _chances(rule, followed, codes, shared, mean, possible, seeds, width, draws)
                value[rule][rows] = (chances * expected).sum(dim=1).numpy()
                chance[rule][rows] = _at(chances, picked)
            _, own_crowd, own_codes = _encoded(model, _whole(decisions.rows.take(rows)))
            labels = torch.from_numpy(decisions.rewards[rows])
            guess[rows] = followed.mean(own_codes, own_crowd).sigmoid().squeeze(1).double().numpy()
            followed.add(own_codes.squeeze(1), labels, own_crowd.squeeze(1))
            done += len(rows)
            progress("logged decisions", done, total, "decisions")
    owners = np.repeat(np.arange(len(lengths)), lengths)
    logged = LoggedDecisions(owners, decisions.propensities, decisions.rewards.astype(np.float64), guess)
    return Replayed(logged, {rule: RuleOnLog(chance[rule], value[rule]) for rule in rules})


def _chances(
    rule: Rule,
    followed: Followed,
    codes: Tensor,
    shared: Tensor,
    mean: Tensor,
    possible: Tensor,
    seeds: Integers,
    width: float,
    draws: int,
) -> Tensor:
    """The probability with which a rule picks each candidate, `[U, P]`."""
    if rule == "thompson":
        scores = mean.unsqueeze(2) + width * followed.drawn(codes, seeds, draws)
    else:
        scores = shared if rule == "shared model" else mean
        scores = (scores + width * followed.deviation(codes) if rule == "ucb" else scores).unsqueeze(2)
    best = torch.where(possible.unsqueeze(2), scores, -torch.inf).argmax(dim=1)
    hits = torch.zeros_like(mean, dtype=torch.float64)
    return hits.scatter_add(1, best, torch.ones_like(best, dtype=torch.float64)) / best.shape[1]


def _at(chances: Tensor, picked: Integers) -> Doubles:
    """Of the picked candidate, 0 if it is none."""
    found = chances.gather(1, torch.from_numpy(picked).clamp(min=0).unsqueeze(1)).squeeze(1).numpy()
    return np.where(picked >= 0, found, 0.0)


def _candidates(rows: Rows, catalogue: Catalogue, offered: Integers) -> tuple[Rows, tuple[int, int]]:
    """Every candidate in the situation of its decision."""
    of_item, places = catalogue.field_of >= 0, np.maximum(offered, 0)
    ids = np.where(of_item, catalogue.ids[places], rows.ids[:, None])
    weights = None
    if rows.weights is not None and catalogue.weights is not None:
        weights = np.where(of_item, catalogue.weights[places], rows.weights[:, None]).reshape(-1, ids.shape[2])
    users, slots = offered.shape
    return Rows(ids.reshape(-1, ids.shape[2]), weights), (users, slots)


def _whole(rows: Rows) -> tuple[Rows, tuple[int, int]]:
    return rows, (rows.length, 1)


def _encoded(model: Personalizer, asked: tuple[Rows, tuple[int, int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of the shared model and of the crowd `[U, P]`, and codes `[U, P, K]`."""
    rows, shape = asked
    part = Features.of(*rows)
    codes, shared = model.encode(part), model.predictor.logits(part)
    return shared.view(shape), model.learner.crowd(shared, codes).view(shape), codes.view(*shape, -1)
