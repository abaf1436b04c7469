"""Where the parts of a code are in an encoded row, and the codes of rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from resus.arrays import Array, Floats, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.model.learners.plus.numbers import SIGNATURE_BITS


@dataclass(frozen=True)
class CodeColumns:
    """Where the parts of a code are in an encoded row, as in `Layout` of the learner in torch."""

    names: tuple[str, ...]
    counts: tuple[int, ...]  # values of each field
    item: str
    taste: int
    choice: int

    @classmethod
    def of(cls, features: FeatureMap, *, taste: int, choice: int) -> "CodeColumns":
        counts = tuple(2 if field.kind == "numeric" else field.columns for field in features.fields)
        return cls(tuple(field.name for field in features.fields), counts, features.item, taste, choice)

    @cached_property
    def _slices(self) -> list[slice]:
        values = sum(self.counts)
        ends = np.cumsum([1, 2, values, values, self.taste, self.choice, self.choice, 1]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def width(self) -> int:
        return int(self._slices[-1].stop)

    @cached_property
    def field_of_value(self) -> Integers:
        """`[V]`: the number of the field of each value."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def fields(self) -> list[slice]:
        """The values of each field."""
        ends = np.cumsum(self.counts).tolist()
        return [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]

    @cached_property
    def taste_and_offered(self) -> slice:
        """φ and χ, side by side."""
        return slice(self._slices[4].start, self._slices[5].stop)

    def unpack(self, encoded: Floats) -> "Codes":
        items, halves, values, shares, taste, offered, chosen, common = (encoded[:, part] for part in self._slices)
        return Codes(items[:, 0], halves, values, shares, taste, offered, chosen, common[:, 0])

    def pack(self, items: Array, contexts: Array, values: Array, shares: Array, vectors: Array) -> Floats:
        parts = [items[:, None], contexts, values, shares, vectors]
        return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")


@dataclass(frozen=True, eq=False)
class Codes:
    """The codes of N rows, as `Codes` of the learner in torch."""

    items: Floats  # [N]
    halves: Floats  # [N, 2], of the signature of the context
    values: Floats  # [N, V]
    shares: Floats  # [N, V]
    taste: Floats  # [N, E]
    offered: Floats  # [N, D]
    chosen: Floats  # [N, D]
    common: Floats  # [N]

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def contexts(self) -> Integers:
        """`[N]`: the signature of each context; 0 if there is none."""
        low, high = self.halves.astype(np.int64).T
        signatures: Integers = low + (high << SIGNATURE_BITS)
        return signatures
