"""A planted world, step by step: each rule shows each user one item at a time and learns from the answer.

All rules meet the same users in the same contexts, and an item that a user likes is liked whichever rule shows it. No
item is shown twice to a user. Users are arrays; only the events of a user are a loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from resus.arrays import Booleans, Doubles, Integers
from resus.exploration.followed import Followed, Rule, plus_learner_of, scores_of
from resus.exploration.simulated_users import EncodedWorld, SimulatedUsers
from resus.model.personalizer import Personalizer
from resus.progress import Progress, silent

ORACLE = "oracle"
CANDIDATES = 1 << 17  # of all users of a tile together


@dataclass(frozen=True, eq=False)
class Course:
    """What happened under each rule, event by event, `[U, events]` each."""

    likes: dict[str, Booleans]  # whether the user liked the item that was shown
    regret: dict[str, Doubles]  # the probability of the oracle's item minus that of the item that was shown
    likeable: Doubles  # [U]: how many items of the catalogue the user can be expected to like


def simulate(
    model: Personalizer,
    name: str,
    users: SimulatedUsers,
    encoded: EncodedWorld,
    rules: Sequence[Rule],
    *,
    width: float,
    seed: int,
    progress: Progress = silent,
) -> Course:
    learner = plus_learner_of(model, name)
    events, items = users.contexts.shape[1], encoded.codes.shape[1]
    names = [ORACLE, *rules]
    likes = {rule: np.zeros((len(users), events), dtype=np.bool_) for rule in names}
    chosen = {rule: np.zeros((len(users), events)) for rule in names}
    likeable = np.zeros(len(users))
    at_once = max(1, CANDIDATES // items)
    for start in range(0, len(users), at_once):
        tile = slice(start, min(start + at_once, len(users)))
        own = np.arange(tile.start, tile.stop)
        likeable[tile] = users.chances(tile, None).sum(axis=1)
        seen = {rule: np.zeros((len(own), items), dtype=np.bool_) for rule in names}
        followed = {rule: Followed(learner, len(own), encoded.codes.shape[2]) for rule in rules}
        shown: dict[str, tuple[Integers, Integers]] = {}
        for event in range(events):
            context = users.contexts[tile, event]
            chances = users.chances(tile, context)
            liked = users.coins[tile] < chances
            query = encoded.codes[torch.from_numpy(context)]
            crowd, shared = (logits[users.groups[tile], context] for logits in (encoded.crowd, encoded.shared))
            seeds = (seed * events + event) * len(users) + own
            ranked = {ORACLE: chances}
            for rule, known in followed.items():
                scores = scores_of(rule, known, query, crowd, shared, seeds, width)
                ranked[rule] = scores.double().numpy()
            for name, scored in ranked.items():
                places = np.arange(len(own)), _best_unseen(scored, seen[name])
                seen[name][places] = True
                likes[name][tile, event], chosen[name][tile, event] = liked[places], chances[places]
                shown[name] = places
            for rule, known in followed.items():
                places = shown[rule]
                known.add(query[places], torch.from_numpy(liked[places]).float(), crowd[places])
            progress("simulated users", (start + len(own) * (event + 1) // events), len(users), "users")
    regret = {rule: chosen[ORACLE] - chosen[rule] for rule in names}
    return Course(likes, regret, likeable)


def _best_unseen(scores: Doubles, seen: Booleans) -> Integers:
    best: Integers = np.where(seen, -np.inf, scores).argmax(axis=1)
    return best
