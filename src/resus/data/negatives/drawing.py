"""Items that a user has not had: candidates are drawn in rounds, and those that the user has had are drawn again."""

from collections.abc import Callable

import numpy as np

from resus.arrays import Booleans, Doubles, Integers

ROUNDS = 100  # then the few places where nearly all items were had draw from what is left of them
POPULARITY = 0.75  # the power of an item's number of events

Candidates = Callable[[int, Integers], Integers]  # round, and which draws: items
Uniforms = Callable[[Integers], Doubles]  # which draws: numbers in [0, 1)


def chances_of(counts: Integers, by: str) -> Doubles:
    """The chance of each item, `[M]`, from the number of its events."""
    weights = np.power(counts, POPULARITY) if by == "popularity" else np.ones(len(counts))
    chances: Doubles = weights / weights.sum()
    return chances


def items_at(bounds: Doubles, uniforms: Doubles) -> Integers:
    """The items in whose share of [0, 1) the numbers lie; `bounds` are the running sums of the chances."""
    return np.minimum(np.searchsorted(bounds, uniforms, side="right"), len(bounds) - 1)


def draw_items(
    places: Integers,
    had: Integers,
    chances: Doubles,
    candidates: Candidates,
    uniforms: Uniforms,
    *,
    since: Integers | None = None,
    now: Integers | None = None,
) -> Integers:
    """One item for each place, such as a user: the first candidate that was not had there.

    `had` holds `place * len(chances) + item`, sorted and distinct. No place has had every item. `since` says when each
    of them was had first, and `now` when each draw is made: an item that is had only later may be drawn.
    """

    def blocked(pending: Integers) -> Integers:
        """Which of the draws are of an item that was had."""
        found = _among(bases[pending] + drawn[pending], had, since, None if now is None else now[pending])
        return pending[found]

    bases = places * len(chances)
    pending = np.arange(len(places))
    drawn = candidates(0, pending)
    for number in range(1, ROUNDS):
        pending = blocked(pending)
        if not len(pending):
            return drawn
        drawn[pending] = candidates(number, pending)
    pending = blocked(pending)
    for place in np.unique(places[pending]):
        own = pending[places[pending] == place]
        first, last = np.searchsorted(had, [place * len(chances), (place + 1) * len(chances)])
        left = chances.copy()
        left[had[first:last] - place * len(chances)] = 0
        free = np.flatnonzero(left)
        drawn[own] = free[items_at(np.cumsum(left[free] / left.sum()), uniforms(own))]
    return drawn


def exhausted(had: Integers, n_places: int, n_items: int) -> Booleans:
    """Where every item was had, so that there is nothing to draw, `[n_places]`."""
    full: Booleans = np.bincount(had // n_items, minlength=n_places) >= n_items
    return full


def _among(codes: Integers, had: Integers, since: Integers | None, now: Integers | None) -> Booleans:
    if not len(had):
        return np.zeros(len(codes), dtype=np.bool_)
    places = np.minimum(np.searchsorted(had, codes), len(had) - 1)
    found: Booleans = had[places] == codes
    return found if since is None or now is None else found & (since[places] <= now)
