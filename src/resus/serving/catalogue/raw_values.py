"""From ids and weights back to the values that a request would hold."""

from typing import Any

import numpy as np

from resus.data.fields.feature_map import EncodedField, FeatureMap, Ids, Weights


def raw_values(features: FeatureMap, ids: Ids, weights: Weights | None) -> dict[str, Any]:
    """Field → value of one encoded row `[C]`; None is out of vocabulary."""
    values: dict[str, Any] = {}
    column = 0
    for field, first in zip(features.fields, features.first_ids, strict=True):
        places = [int(place) - first for place in ids[column : column + field.columns]]
        if field.kind == "categorical":
            values[field.name] = _word(field, places[0])
        else:
            assert weights is not None
            shares = weights[column : column + field.columns]
            if field.kind == "numeric":
                values[field.name] = number_of(field, float(shares[0])) if places[0] else None
            else:
                values[field.name] = [
                    _word(field, place) for place, share in zip(places, shares, strict=True) if share > 0
                ]
        column += field.columns
    return values


def number_of(field: EncodedField, weight: float) -> int | float:
    """The shortest number that has this weight in float32."""
    exact = weight * field.scale + field.center
    number = next(
        (
            short
            for digits in range(1, 17)
            if np.float32(((short := float(f"{exact:.{digits}g}")) - field.center) / field.scale) == np.float32(weight)
        ),
        exact,
    )
    return int(number) if number.is_integer() else number


def _word(field: EncodedField, place: int) -> str | None:
    return field.vocabulary[place - 1] if place else None
