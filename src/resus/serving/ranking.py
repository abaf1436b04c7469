"""Which items of a catalogue may be recommended, and which of them are best."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from resus.arrays import Array, Booleans, Floats, Integers
from resus.data.fields.feature_map import Block, FeatureMap
from resus.data.fields.values import number_of
from resus.errors import DataError, RowError
from resus.serving.catalogue import Catalogue


def matching(catalogue: Catalogue, features: FeatureMap, wanted: Mapping[str, Any]) -> Booleans:
    """`[n_items]`: which items have the wanted values in all of these fields."""
    found = np.ones(len(catalogue.items), dtype=np.bool_)
    found[list(catalogue.removed)] = False
    for name, values in wanted.items():
        if name not in catalogue.fields:
            known = ", ".join(catalogue.fields)
            raise DataError(f"filter: {name!r} is not a field of the items: use {known}")
        block = features.block(name)
        try:
            found &= _in_range(catalogue, block, values) if block.field.is_number else _has(catalogue, block, values)
        except RowError as bad:
            raise DataError(f"filter.{name}: {bad.what}; {bad.fix}") from None
    return found


def best_of(scores: Floats, allowed: Booleans, top: int) -> Integers:
    """The positions of the highest scores that are allowed, the highest first; of equal ones the first."""
    places: Integers = np.flatnonzero(allowed)
    left = scores[places]
    if top < len(places):
        least = np.partition(left, len(left) - top)[len(left) - top]
        places = places[left >= least]
        left = scores[places]
    best: Integers = places[np.argsort(-left, kind="stable")[:top]]
    return best


def containing(catalogue: Catalogue, text: str, allowed: Booleans) -> Booleans:
    """Those of the allowed items whose id or title contains the text."""
    found = np.zeros_like(allowed)
    found[catalogue.containing(text)] = True
    return found & allowed


def ranks_of(places: Integers, scores: Floats, allowed: Booleans) -> list[int]:
    """The ranks, from 1, that `best_of` gives to these allowed positions among all that are allowed."""
    ordered = np.sort(scores[allowed])
    own = scores[places]
    lower, upper = (np.searchsorted(ordered, own, side=side) for side in ("left", "right"))
    ties = [
        int((allowed[:place] & (scores[:place] == scores[place])).sum()) if equal > 1 else 0
        for place, equal in zip(places.tolist(), upper - lower, strict=True)
    ]
    return [1 + len(ordered) - int(end) + tie for end, tie in zip(upper, ties, strict=True)]


def descriptions(
    catalogue: Catalogue, features: FeatureMap, best: Integers, scores: Floats, basis: Floats, allowed: Booleans
) -> list[dict[str, Any]]:
    """What is told of each of the best items if a request asks for it."""
    ranks, without = (ranks_of(best, values, allowed) for values in (scores, basis))
    return [
        {"rank": rank, "rank_without_events": alone, "fields": catalogue.describe(features, place)}
        for place, rank, alone in zip(best.tolist(), ranks, without, strict=True)
    ]


def _has(catalogue: Catalogue, block: Block, values: Any) -> Booleans:
    """The items that have one of the values."""
    if isinstance(values, dict):
        name = block.field.name
        raise RowError(0, name, "a range fits only a numeric field", "give a value, or a list of values")
    several = values if isinstance(values, list) else [values]
    known = block.field.encode_values([[value] if block.field.takes_lists else value for value in several])[0]
    ids, weights = block.of(catalogue.ids, catalogue.weights)
    equal: Array = np.isin(ids, known[known > 0])
    found: Booleans = np.any(equal if weights is None else equal & (weights != 0), axis=1)
    return found


def _in_range(catalogue: Catalogue, block: Block, values: Any) -> Booleans:
    """The items whose number lies in the range, or is one of the numbers."""
    ids, weights = block.of(catalogue.ids, catalogue.weights)
    assert weights is not None
    numbers = block.field.numbers(ids, weights)
    if isinstance(values, dict):
        low, high = (number_of(values.get(end), 0, block.field.name) for end in ("at_least", "at_most"))
        above = np.ones(len(numbers), dtype=np.bool_) if low is None else numbers >= low - _near(low)
        below = np.ones(len(numbers), dtype=np.bool_) if high is None else numbers <= high + _near(high)
        in_range: Booleans = above & below & ~np.isnan(numbers)
        return in_range
    several = [number_of(value, 0, block.field.name) for value in (values if isinstance(values, list) else [values])]
    close = [np.abs(numbers - number) <= _near(number) for number in several if number is not None]
    return np.any(close, axis=0) if close else np.zeros(len(numbers), dtype=np.bool_)


def _near(number: float) -> float:
    """A catalogue holds numbers in 32 bits."""
    return 1e-6 * max(1.0, abs(number))
