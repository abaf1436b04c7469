"""The feature map: from raw values to the integer ids and weights that every model reads.

One embedding table serves all fields. A field owns a block of ids whose first is "out of vocabulary":
a categorical value is one id of weight 1; a numeric value is its field's second id weighted by the scaled value
(a missing one is the out-of-vocabulary id of weight 1); several values share the weight 1, padded with weight 0.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.data.schema import FieldSchema, Kind, TableSchema
from resus.errors import DataError

Ids = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float32]


@dataclass(frozen=True)
class EncodedField:
    """A field with what was learned about it: its vocabulary, or its scaling."""

    name: str
    kind: Kind
    columns: int
    vocabulary: tuple[str, ...] = ()
    center: float = 0.0
    scale: float = 1.0
    separator: str = "|"

    @property
    def ids(self) -> int:
        """How many embedding rows the field owns, the out-of-vocabulary one included."""
        return 2 if self.kind == "numeric" else 1 + len(self.vocabulary)

    @cached_property
    def _sorted(self) -> tuple[pl.Series, Ids]:
        """The vocabulary in order of its bytes, to search in, and each value's place in it plus one."""
        values = pl.Series(self.vocabulary, dtype=pl.String)
        order = values.arg_sort().to_numpy()
        return values.gather(order), (1 + order).astype(np.int32)

    def look_up(self, values: pl.Series) -> Ids:
        """Position in the vocabulary plus one; 0 for anything unknown or missing.

        The work grows with the values that are asked for, not with the vocabulary: tables come in many small blocks.
        """
        known, places = self._sorted
        if not len(known):
            return np.zeros(len(values), dtype=np.int32)
        distinct = values.drop_nulls().unique().sort()  # searched in order, which keeps to the processor's cache
        nearest = np.minimum(known.search_sorted(distinct).to_numpy(), len(known) - 1)
        found = (known.gather(nearest) == distinct).to_numpy()
        table = pl.DataFrame({"value": distinct, "id": np.where(found, places[nearest], np.int32(0))})
        joined = values.alias("value").to_frame().join(table, on="value", how="left", maintain_order="left")
        return joined["id"].fill_null(0).to_numpy()


@dataclass(frozen=True)
class FeatureMap:
    """All fields in their order; `encode` turns a table into `[N, C]` ids and weights."""

    fields: tuple[EncodedField, ...]
    item: str = field(default="")

    @cached_property
    def first_ids(self) -> tuple[int, ...]:
        return tuple(int(start) for start in np.cumsum([0, *(f.ids for f in self.fields)])[:-1])

    @property
    def n_ids(self) -> int:
        return sum(f.ids for f in self.fields)

    @property
    def n_columns(self) -> int:
        return sum(f.columns for f in self.fields)

    @property
    def column_counts(self) -> tuple[int, ...]:
        """Columns per field, in order: all that an embedding layer needs to know about the fields."""
        return tuple(f.columns for f in self.fields)

    @property
    def weighted(self) -> bool:
        return any(f.kind != "categorical" for f in self.fields)

    @classmethod
    def learn(cls, frame: pl.DataFrame, schema: TableSchema, min_count: int = 1) -> Self:
        """Vocabularies (values seen at least `min_count` times, most frequent first) and scalings of a table."""
        fields = tuple(_learn_field(frame[name], name, spec, min_count) for name, spec in schema.fields.items())
        return cls(fields=fields, item=schema.item)

    def encode(self, frame: pl.DataFrame, where: str = "the table", first_row: int = 0) -> tuple[Ids, Weights | None]:
        """Ids and weights of every row; weights are None when they would all be 1.

        `first_row` rows of `where` were encoded before: an error counts them.
        """
        self.check_columns(frame.columns, where)
        rows = frame.height
        ids = np.zeros((rows, self.n_columns), dtype=np.int32)
        weights = np.ones((rows, self.n_columns), dtype=np.float32) if self.weighted else None
        column = 0
        for encoded, first in zip(self.fields, self.first_ids, strict=True):
            block = slice(column, column + encoded.columns)
            series = frame[encoded.name]
            if encoded.kind == "categorical":
                ids[:, column] = first + encoded.look_up(as_text(series))
            elif encoded.kind == "numeric":
                assert weights is not None
                values = _as_number(series, encoded.name, where, first_row)
                present = np.isfinite(values)
                ids[:, column] = first + present
                weights[:, column] = np.where(present, (values - encoded.center) / encoded.scale, 1.0)
            else:
                assert weights is not None
                ids[:, block], weights[:, block] = _encode_multi(series, encoded, first)
            column += encoded.columns
        return ids, weights

    def check_columns(self, present: Collection[str], where: str) -> None:
        """Refuse a table that lacks a field."""
        missing = [f.name for f in self.fields if f.name not in present]
        if missing:
            raise DataError(
                f"{where} has no column {', '.join(map(repr, missing))}: "
                f"the model reads {', '.join(f.name for f in self.fields)}"
            )

    def unknown(self, frame: pl.DataFrame) -> dict[str, int]:
        """By field, the rows whose (first) value is out of vocabulary; fields without any are left out."""
        return self.count_unknown(self.encode(frame)[0])

    def count_unknown(self, ids: Ids) -> dict[str, int]:
        """The same, of rows already encoded."""
        columns = np.cumsum([0, *self.column_counts])[:-1]
        counts = (ids[:, columns] == np.array(self.first_ids)).sum(axis=0)
        return {f.name: int(count) for f, count in zip(self.fields, counts, strict=True) if count}

    def to_json(self) -> dict[str, Any]:
        # not `asdict`, which copies every word of every vocabulary
        return {
            "item": self.item,
            "fields": [{part.name: getattr(f, part.name) for part in fields(f)} for f in self.fields],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        fields = tuple(EncodedField(**{**f, "vocabulary": tuple(f["vocabulary"])}) for f in value["fields"])
        return cls(fields=fields, item=value["item"])


def as_text(series: pl.Series) -> pl.Series:
    """Categorical values as text; whole floats lose their '.0', so 3, 3.0 and '3' are one value."""
    if series.dtype.is_float():
        series = series.fill_nan(None)
        whole = series.cast(pl.Int64, strict=False)
        return whole.cast(pl.String).zip_with(series == whole, series.cast(pl.String))
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int8)
    return series.cast(pl.String)


def _learn_field(series: pl.Series, name: str, spec: FieldSchema, min_count: int) -> EncodedField:
    if spec.kind == "numeric":
        values = _as_number(series, name, "the table")
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        center = low if spec.center is None else spec.center
        scale = ((high - low) or 1.0) if spec.scale is None else spec.scale
        return EncodedField(name=name, kind="numeric", columns=1, center=center, scale=scale)
    values_of = as_text(series) if spec.kind == "categorical" else _as_lists(series, spec.separator).explode()
    counts = (
        values_of.alias("value")
        .drop_nulls()
        .value_counts(name="count")
        .filter((pl.col("count") >= min_count) & (pl.col("value") != ""))
        .sort(["count", "value"], descending=[True, False])
    )
    columns = 1
    if spec.kind == "multi":
        lengths = _as_lists(series, spec.separator).list.len().fill_null(0).to_numpy()
        columns = max(1, min(spec.max_values, int(lengths.max(initial=1))))
    return EncodedField(
        name=name, kind=spec.kind, columns=columns, vocabulary=tuple(counts["value"]), separator=spec.separator
    )


def _as_lists(series: pl.Series, separator: str) -> pl.Series:
    if isinstance(series.dtype, pl.List | pl.Array):
        return series.cast(pl.List(pl.String))
    return as_text(series).str.split(separator)


def _encode_multi(series: pl.Series, encoded: EncodedField, first: int) -> tuple[Ids, Weights]:
    lists = _as_lists(series, encoded.separator).list.head(encoded.columns)
    width = encoded.columns
    lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    flat = lists.filter(lists.list.len().fill_null(0) > 0).explode()
    ids = np.full((len(series), width), first, dtype=np.int32)
    weights = np.zeros((len(series), width), dtype=np.float32)
    slots = np.arange(width)[None, :] < lengths[:, None]
    ids[slots] = first + encoded.look_up(flat)
    weights[slots] = np.repeat(1.0 / np.maximum(lengths, 1), lengths).astype(np.float32)
    weights[lengths == 0, 0] = 1.0
    return ids, weights


def _as_number(series: pl.Series, name: str, where: str, first_row: int = 0) -> npt.NDArray[np.float64]:
    numbers = series.cast(pl.Float64, strict=False)
    bad = numbers.is_null() & series.is_not_null()
    if bool(bad.any()):
        row = int(bad.arg_true()[0])
        raise DataError(
            f"{where}, row {first_row + row + 1}, column '{name}': {series[row]!r} is not a number; write a number"
        )
    return numbers.fill_null(float("nan")).to_numpy()
