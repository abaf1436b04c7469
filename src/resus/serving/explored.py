"""Rankings that explore: by a draw of the user's function, or by its upper bound, instead of by its mean.

    thompson    mean + width · (a draw of the user's whole function − mean), the same draw for all candidates
    ucb         mean + width · standard deviation

The propensity of an answer is the probability that the rule puts this very item at this very place. A deterministic
rule has 1. That of thompson is estimated by further draws of the same seed: (1 + hits) / (1 + draws), where a hit has
the same item at the same place. It is never 0, and 1 / propensity, by which rewards are weighted, has the mean
(1 − (1 − p)^(draws + 1)) / p, which is 1 / p but for items that are rarer than 1 in `draws`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from resus.arrays import Array, Booleans, Doubles, Floats, Integers
from resus.errors import DataError
from resus.model.inference.parts import Spread
from resus.serving.exploring import Exploring
from resus.serving.ranking import best_of
from resus.serving.shelf import Context, Shelf

SCORES = 1 << 25  # candidates times draws of one answer: more candidates get fewer draws
TILE = 1 << 21  # of these at a time

Codes = Callable[[Integers], Floats]  # positions of candidates → their codes `[N, K]`


@dataclass(frozen=True, eq=False)
class Explored:
    """The best candidates by a rule, the best first."""

    exploring: Exploring
    draws: int  # behind the propensities; 0 if these need none
    order: Integers  # positions among the candidates
    ranked_by: Floats  # the logits by which they are ranked
    propensity: Doubles
    greedy: Integers  # what the order would have been without exploring

    def facts(self) -> dict[str, Any]:
        """What an answer says of the whole ranking."""
        used = self.exploring
        return {"rule": used.rule, "seed": used.seed, "width": used.width, "draws": self.draws}

    def by_answer(self) -> list[dict[str, float]]:
        """What an answer says of each candidate, in the order of the ranking."""
        both = zip(self.ranked_by.tolist(), self.propensity.tolist(), strict=True)
        return [{"ranked_by": logit, "propensity": chance} for logit, chance in both]

    def without_first(self, places: int) -> "Explored":
        """The ranking from a later place on."""
        return replace(
            self,
            order=self.order[places:],
            ranked_by=self.ranked_by[places:],
            propensity=self.propensity[places:],
            greedy=self.greedy[places:],
        )


def need_spread(spread: Spread | None, name: str) -> Spread:
    if spread is None:
        raise DataError(
            f"explore needs a model that can draw from its posterior, and {name} cannot: leave explore out, or serve a "
            "RESUS+ model (--learner plus)"
        )
    return spread


def rank_all(
    exploring: Exploring, spread: Spread, mean: Floats, allowed: Booleans, shelf: Shelf, context: Context, top: int
) -> Explored:
    """Rank the allowed items of a catalogue; positions are those of the catalogue."""
    places = np.flatnonzero(allowed)
    found = rank(exploring, spread, mean[places], lambda tile: shelf.encode(places[tile], context)[1], top)
    return replace(found, order=places[found.order], greedy=places[found.greedy])


def rank(exploring: Exploring, spread: Spread, mean: Floats, codes: Codes, top: int) -> Explored:
    """Rank candidates with these logits. `codes` gives their codes, a tile of candidates at a time."""
    everything = np.ones(len(mean), dtype=np.bool_)
    greedy = best_of(mean, everything, top)
    if exploring.rule == "ucb":
        bounds = np.concatenate([_bounds(exploring, spread, mean, codes, tile) for tile in _tiles(len(mean), 1024)])
        order = best_of(bounds, everything, top)
        return Explored(exploring, 0, order, bounds[order], np.ones(len(order)), greedy)
    draws = max(1, min(exploring.draws, SCORES // max(len(mean), 1) - 1))
    best = [_Best(top) for _ in range(1 + draws)]
    sample = spread.sample(exploring.seed, 1 + draws)
    for tile in _tiles(len(mean), 1 + draws):
        scores = (mean[tile, None] + np.float32(exploring.width) * sample(codes(tile))).T
        for one, own in zip(best, np.ascontiguousarray(scores), strict=True):
            one.add(tile, own)
    drawn, *others = best
    hits = sum((other.places == drawn.places for other in others), start=np.ones(len(drawn.places)))
    return Explored(exploring, draws, drawn.places, drawn.scores, hits / (1 + draws), greedy)


def _bounds(exploring: Exploring, spread: Spread, mean: Floats, codes: Codes, tile: Integers) -> Floats:
    bounds: Floats = mean[tile] + np.float32(exploring.width) * spread.deviation(codes(tile))
    return bounds


class _Best:
    """The best candidates of one draw so far, while tiles come in."""

    def __init__(self, top: int) -> None:
        self._top = top
        self.places: Array = np.empty(0, dtype=np.int32)
        self.scores: Array = np.empty(0, dtype=np.float32)

    def add(self, tile: Integers, scores: Floats) -> None:
        places, both = np.concatenate([self.places, tile]), np.concatenate([self.scores, scores])
        best = best_of(both, np.ones(len(both), dtype=np.bool_), self._top)
        self.places, self.scores = places[best], both[best]


def _tiles(candidates: int, columns: int) -> Iterator[Integers]:
    """At least one, so that an empty catalogue has an answer, too."""
    rows = max(1, TILE // columns)
    for start in range(0, max(candidates, 1), rows):
        yield np.arange(start, min(start + rows, candidates), dtype=np.int32)
