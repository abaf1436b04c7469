"""What every field kind offers. A new kind is one file with a subclass of `Field`, and one line in the registry."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, TypeAdapter

from resus.arrays import Array, Booleans, Doubles, Floats, Ids, Integers
from resus.data.fields.values import is_missing
from resus.data.fields.vocabulary import Vocabulary

Encoded = tuple[Ids, Floats | None]
Recoder = Callable[[Ids, Floats | None], Encoded]


class FieldOptions(BaseModel):
    """Options of a field in a schema, besides its kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BadRows(NamedTuple):
    """Rows of a column that a field cannot use; `what` may depend on the number of the first one."""

    mask: pl.Series
    what: str | Callable[[int], str]
    fix: str


@dataclass(frozen=True)
class Field(ABC):
    """One input field with what it learned from a table.

    It reads a value as `columns` ids and their weights. Its ids begin with 0, which stands for a value that is missing
    or was never seen. If the weights are None, each of them is 1.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)  # for `from_json`

    kind: ClassVar[str]
    options: ClassVar[type[FieldOptions]] = FieldOptions
    weighted: ClassVar[bool] = False  # weights may differ from 1
    is_number: ClassVar[bool] = False  # the value is in the weight, see `numbers`
    takes_lists: ClassVar[bool] = False  # a cell may hold several values
    can_name_items: ClassVar[bool] = False  # each value has exactly one id

    name: str
    values: tuple[str, ...] = ()  # of the ids from 1 on, the most frequent first

    @classmethod
    @abstractmethod
    def learn(
        cls, name: str, column: pl.Series, options: Any, *, min_count: int = 1, counts: Integers | None = None
    ) -> Self:
        """Learn from a column. Values in fewer than `min_count` rows count as never seen.

        If there are `counts`, each value stands for that many rows.
        """

    @property
    def ids(self) -> int:
        """How many ids the field has, 0 included."""
        return 1 + len(self.values)

    @property
    def columns(self) -> int:
        """How many ids a row has."""
        return 1

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.values)

    @abstractmethod
    def encode(self, column: pl.Series) -> Encoded:
        """`[N, columns]` ids and weights of a table's column; RowError for a value that it cannot read."""

    @abstractmethod
    def encode_values(self, values: Sequence[Any]) -> Encoded:
        """The same for values of a request, by look-ups in Python: it is fast for few rows.

        Text that a table must not hold counts as never seen. Numbers that would spoil a score are a RowError.
        """

    def never_seen(self, column: pl.Series, ids: Ids, weights: Floats | None) -> Booleans:
        """`[N]`: the rows of a table's column that hold a value which the field does not know.

        `ids` and `weights` are what `encode` makes of the column. A missing value is not an unknown one.
        """
        unknown = self.is_unknown(ids)
        if unknown.any():
            unknown = unknown & ~is_missing(column).to_numpy()
        return unknown

    @abstractmethod
    def decode(self, ids: Ids, weights: Floats | None) -> Any:
        """A value that has these `[columns]` ids and weights; None if it is missing or was never seen."""

    def example(self) -> Any:
        """A value that the field knows; None if it knows none."""
        return self.values[0] if self.values else None

    def grown(self, newer: Self) -> Self:
        """With what only a newer field of the same name and kind knows at the end: known values keep their ids."""
        known = set(self.values)
        return replace(self, values=(*self.values, *(value for value in newer.values if value not in known)))

    def recoder(self, newer: Self) -> Recoder:
        """From the `[N, columns]` ids and weights that a newer field gives values to those that this one gives them."""
        own = self._ids_of(newer)
        return lambda ids, weights: (own[ids], weights)

    def _ids_of(self, newer: "Field") -> Ids:
        """This field's id of each id of another one."""
        found = self.vocabulary.look_up(pl.Series(newer.values, dtype=pl.String))
        return np.concatenate([np.zeros(1, dtype=np.int32), found])

    @property
    def tree_columns(self) -> tuple[bool, ...]:
        """One entry for each column that a tree sees: whether it is a category."""
        return (True,)

    def tree_matrix(self, ids: Ids, weights: Floats | None) -> Array:
        """`[N, tree columns]`: what a tree sees of `[N, columns]` ids and weights."""
        return ids[:, :1]

    def numbers(self, ids: Ids, weights: Floats) -> Doubles:
        """`[N]` numbers of the `[N, columns]` ids and weights, NaN where one is missing.

        Only for fields with `is_number`.
        """
        raise NotImplementedError(f"a {self.kind} field holds no numbers")

    @property
    def tells_missing(self) -> bool:
        """Whether ids and weights of a missing value differ from those of all others."""
        return True

    @property
    def refuses_missing(self) -> bool:
        """Whether a row without a value is a mistake. `encode` refuses it; `encode_values` leaves it to the caller."""
        return False

    def is_unknown(self, ids: Ids) -> Booleans:
        """`[N]`: where the (first) value of `[N, columns]` ids is missing or was never seen."""
        unknown: Booleans = ids[:, 0] == 0
        return unknown

    def frequent_values(self, ids: Ids, weights: Floats | None, limit: int) -> tuple[str, ...]:
        """The most frequent values among `[N, columns]` ids and weights of the log that it learned from."""
        return self.values[:limit]

    @classmethod
    def bad_rows(cls, column: pl.Series, options: Any) -> list[BadRows]:
        """What is wrong with the values of a column to learn from."""
        return []

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **{part.name: getattr(self, part.name) for part in fields(self)}}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """What `to_json` gave, without the kind; ValueError if it is anything else."""
        field: Self = _reader(cls).validate_python(value)
        return field


@cache
def _reader(kind: type[Field]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
