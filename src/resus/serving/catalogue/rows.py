"""Rows of a request as ids and weights, by plain look-ups: each row becomes what `FeatureMap.encode` makes of it.

Two rules differ, because a request must neither fail on a new value nor poison a score: text that is no number is out
of vocabulary in a numeric field, and a number that a float32 model cannot multiply is refused.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch

from resus.data.fields.feature_map import EncodedField, FeatureMap, Ids, Weights
from resus.episodes.tensors import Features
from resus.errors import DataError

LONGEST_TEXT = 1000
LARGEST_WEIGHT = 1e9  # its fourth power is still finite in float32
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")  # one way to read any text
_INT64 = 2.0**63
_LARGEST_INTEGER = 10**300


class RowReader:
    """Reads rows given as field → value; a missing field and an unknown value are out of vocabulary."""

    def __init__(self, features: FeatureMap) -> None:
        self._features = features
        self._known: list[dict[str | None, int]] = [
            {value: first + place for place, value in enumerate(field.vocabulary, 1)}
            for field, first in zip(features.fields, features.first_ids, strict=True)
        ]

    def read(self, rows: Sequence[Mapping[str, Any]]) -> Features:
        """`[N, C]` ids and weights; what no field can hold is refused, with its row (the first is 1) and field."""
        features = self._features
        ids: Ids = np.empty((len(rows), features.n_columns), dtype=np.int32)
        weights: Weights | None = np.ones(ids.shape, dtype=np.float32) if features.weighted else None
        column = 0
        for field, first, known in zip(features.fields, features.first_ids, self._known, strict=True):
            values = [row.get(field.name) for row in rows]
            block = slice(column, column + field.columns)
            if field.kind == "categorical":
                texts = (as_text(value, field.name, row) for row, value in enumerate(values, 1))
                ids[:, column] = [known.get(text, first) for text in texts]
            elif field.kind == "numeric":
                assert weights is not None
                scaled = [_scaled(value, field, row) for row, value in enumerate(values, 1)]
                ids[:, column] = [first if weight is None else first + 1 for weight in scaled]
                weights[:, column] = [1.0 if weight is None else weight for weight in scaled]
            elif rows:
                assert weights is not None
                several = [_several(value, field, row) for row, value in enumerate(values, 1)]
                padding = [[first] * (field.columns - used) for used in range(field.columns + 1)]
                ids[:, block] = [[known.get(t, first) for t in texts] + padding[len(texts)] for texts in several]
                shares = np.array([_shares(used, field.columns) for used in range(field.columns + 1)])
                weights[:, block] = shares[[len(texts) for texts in several]]
            column += field.columns
        return Features(torch.from_numpy(ids), None if weights is None else torch.from_numpy(weights))


def as_text(value: Any, name: str, row: int) -> str | None:
    """As a table's values are written: 3, 3.0 and '3' are one."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise _refused(name, row, f"the text is longer than {LONGEST_TEXT} characters", "shorten it")
        return value
    if value is None:
        return None
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise _refused(name, row, "the number is too large", "send a smaller one")
        return str(value)
    number = _finite(value, name, row)
    return str(int(number)) if number.is_integer() and -_INT64 <= number < _INT64 else _float_text(number)


def _text_in_list(value: Any, name: str, row: int) -> str | None:
    """As polars writes a list's values: there, 3.0 and true stay what they are."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _float_text(_finite(value, name, row))
    return as_text(value, name, row)


def _several(value: Any, field: EncodedField, row: int) -> list[str | None]:
    """The first values of a list, or of a text with separators."""
    if isinstance(value, list | tuple):
        return [_text_in_list(one, field.name, row) for one in value][: field.columns]
    text = as_text(value, field.name, row)
    if text is None:
        return []
    texts: list[str | None] = [*(text.split(field.separator) if field.separator else text)]
    return texts[: field.columns]


def _shares(used: int, columns: int) -> list[float]:
    """Weights of a field with this many values: together 1, also where there is none."""
    share = max(used, 1)
    return [1.0 / share] * share + [0.0] * (columns - share)


def _scaled(value: Any, field: EncodedField, row: int) -> float | None:
    """A number's weight; None where there is no number."""
    if value is None:
        return None
    if isinstance(value, str):
        text = as_text(value, field.name, row)
        if not text or not _NUMBER.fullmatch(text):
            return None
        number = float(text)
        if math.isinf(number):
            return None
    else:
        number = _finite(value, field.name, row)
    weight = (number - field.center) / field.scale
    if abs(weight) > LARGEST_WEIGHT:
        raise _refused(field.name, row, "the number is too far from all that were seen in training", "send another one")
    return weight


def _finite(value: Any, name: str, row: int) -> float:
    if not isinstance(value, int | float):
        what = "there is a list where one value belongs" if isinstance(value, list | tuple) else "the value is nested"
        raise _refused(name, row, what, "send a text, a number, true, false or null")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _refused(name, row, "the number is not finite", "send a finite one, or null")
    return number


def _float_text(number: float) -> str:
    text = repr(number)
    return text if "e" not in text else str(pl.Series([number]).cast(pl.String)[0])  # exponents are written otherwise


def _refused(name: str, row: int, what: str, fix: str) -> DataError:
    return DataError(f"row {row}, field '{name}': {what}; {fix}")
