"""The feature map: from raw values to the ids and weights that every model reads, and back.

One embedding table serves all fields. Each field owns a block of ids in it, and a block of columns in an encoded row.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
from pydantic import ValidationError

from resus.arrays import Floats, Ids, Integers
from resus.checking import in_plain_words, nearest_key, shortened
from resus.data.fields import KINDS
from resus.data.fields.base import Encoded, Field, Recoder
from resus.data.fields.numeric import MISSING_FIX
from resus.data.problems import Problem
from resus.data.schema import TableSchema
from resus.errors import DataError, RowError

MAX_FIELDS = 10_000


class Block(NamedTuple):
    """A field, its first id, which stands for unknown values, and its columns in an encoded row."""

    field: Field
    first: int
    columns: slice

    def of(self, ids: Ids, weights: Floats | None) -> Encoded:
        """The field's own ids, which begin with 0, and weights of `[N, C]` encoded rows."""
        return ids[..., self.columns] - np.int32(self.first), None if weights is None else weights[..., self.columns]


@dataclass(frozen=True)
class FeatureMap:
    """All fields in their order; `encode` turns a table into `[N, C]` ids and weights."""

    fields: tuple[Field, ...]
    item: str = ""

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        found, first, column = [], 0, 0
        for field in self.fields:
            found.append(Block(field, first, slice(column, column + field.columns)))
            first, column = first + field.ids, column + field.columns
        return tuple(found)

    def block(self, name: str) -> Block:
        """The block of the field with this name; KeyError if there is none."""
        return {block.field.name: block for block in self.blocks}[name]

    @cached_property
    def first_ids(self) -> tuple[int, ...]:
        return tuple(block.first for block in self.blocks)

    @property
    def n_ids(self) -> int:
        return sum(field.ids for field in self.fields)

    @cached_property
    def n_columns(self) -> int:
        return sum(self.column_counts)

    @property
    def column_counts(self) -> tuple[int, ...]:
        """Columns per field, in order: all that an embedding layer needs to know about the fields."""
        return tuple(field.columns for field in self.fields)

    @cached_property
    def weighted(self) -> bool:
        return any(field.weighted for field in self.fields)

    @classmethod
    def learn(cls, frame: pl.DataFrame, schema: TableSchema, min_count: int = 1) -> Self:
        """The fields of a schema, with the vocabularies and scalings of a table."""
        fields = (field.learn(name, frame[name], min_count=min_count) for name, field in schema.fields.items())
        return cls(fields=tuple(fields), item=schema.item)

    def encode(self, frame: pl.DataFrame, where: str = "the table", first_row: int = 0) -> Encoded:
        """Ids and weights of every row; the weights are None when all of them are 1.

        Errors name the row: `first_row` rows of `where` were encoded before.
        """
        self.check_columns(frame.columns, where)
        try:
            return self.side_by_side(frame.height, (field.encode(frame[field.name]) for field in self.fields))
        except RowError as bad:
            row = first_row + bad.row + 1
            raise DataError(str(Problem(where, row, bad.column, bad.what, bad.fix))) from None

    def encode_rows(self, rows: Sequence[Mapping[str, Any]]) -> Encoded:
        """The same for rows of a request; a field that a row does not name is missing."""
        values = (field.encode_values([row.get(field.name) for row in rows]) for field in self.fields)
        try:
            return self.side_by_side(len(rows), values)
        except RowError as bad:
            raise DataError(f"row {bad.row + 1}, field '{bad.column}': {bad.what}; {bad.fix}") from None

    def refuse_missing(self, ids: Ids) -> None:
        """Refuse rows of a request that lack a value which no row may lack, once all is filled in."""
        for block in self.blocks:
            if block.field.refuses_missing:
                absent = block.field.is_unknown(block.of(ids, None)[0])
                if absent.any():
                    row, name = int(absent.argmax()) + 1, block.field.name
                    raise DataError(f"row {row}, field '{name}': the value is missing; {MISSING_FIX}")

    def encode_part(self, frame: pl.DataFrame) -> tuple[list[int], Ids]:
        """For a table with some of the fields, all of weight 1: the columns that they fill, and their ids."""
        blocks = [block for block in self.blocks if block.field.name in frame.columns]
        columns = [column for block in blocks for column in range(block.columns.start, block.columns.stop)]
        ids = [block.field.encode(frame[block.field.name])[0] + np.int32(block.first) for block in blocks]
        return columns, np.concatenate(ids, axis=1)

    def side_by_side(self, rows: int, encoded: Iterable[Encoded]) -> Encoded:
        """The ids and weights of all fields, in their order, as rows."""
        ids = np.empty((rows, self.n_columns), dtype=np.int32)
        weights = np.ones((rows, self.n_columns), dtype=np.float32) if self.weighted else None
        for block, (own_ids, own_weights) in zip(self.blocks, encoded, strict=True):
            ids[:, block.columns] = own_ids
            if weights is not None and own_weights is not None:
                weights[:, block.columns] = own_weights
        ids += self._first_of_columns
        return ids, weights

    @cached_property
    def _first_of_columns(self) -> Ids:
        return np.repeat(self.first_ids, self.column_counts).astype(np.int32)

    def decode(self, ids: Ids, weights: Floats | None) -> dict[str, Any]:
        """Field → raw value of one encoded row `[C]`; None is missing or unknown."""
        return {block.field.name: block.field.decode(*block.of(ids, weights)) for block in self.blocks}

    def check_columns(self, present: Collection[str], where: str) -> None:
        """Refuse a table that lacks a field."""
        names = [field.name for field in self.fields]
        missing = [name for name in names if name not in present]
        if missing:
            nearest = nearest_key(missing[0], [name for name in present if name not in names])
            hint = f", did you mean its column '{nearest}'?" if nearest else ""
            raise DataError(
                f"{where} has no column {', '.join(map(repr, missing))}: the model reads {', '.join(names)}{hint}"
            )

    def unknown(self, frame: pl.DataFrame) -> dict[str, int]:
        """By field, the rows with a value that the model does not know; only fields that have some."""
        return self.count_unknown(frame, *self.encode(frame))

    def count_unknown(self, frame: pl.DataFrame, ids: Ids, weights: Floats | None) -> dict[str, int]:
        """The same for a table whose ids and weights are known."""
        counts = {
            block.field.name: int(block.field.never_seen(frame[block.field.name], *block.of(ids, weights)).sum())
            for block in self.blocks
            if block.field.name in frame.columns  # not the score that a model has yet to write
        }
        return {name: count for name, count in counts.items() if count}

    def count_unknown_values(
        self, rows: Sequence[Mapping[str, Any]], ids: Ids, weights: Floats | None
    ) -> dict[str, int]:
        """The same for rows of a request. Only rows with an unknown id are looked at one by one."""
        counts = {}
        for block in self.blocks:
            own_ids, own_weights = block.of(ids, weights)
            unknown = own_ids == 0 if own_weights is None else (own_ids == 0) & (own_weights > 0)
            name, places = block.field.name, np.flatnonzero(unknown.any(axis=1))
            if len(places) and not block.field.is_number:
                counts[name] = sum(rows[place].get(name) not in (None, "", []) for place in places.tolist())
        return {name: count for name, count in counts.items() if count}

    def check_readable(self, newer: "FeatureMap", where: str) -> None:
        """Refuse a log whose fields are not those of this map, by name and kind."""
        own, theirs = ({field.name: field.kind for field in each.fields} for each in (self, newer))
        missing = [name for name in own if name not in theirs]
        further = [name for name in theirs if name not in own]
        if missing or further:
            lacks = f"lacks {', '.join(map(repr, missing))}" if missing else ""
            adds = f"has {', '.join(map(repr, further))}, which the model does not read" if further else ""
            said = " and ".join(filter(None, (lacks, adds)))
            raise DataError(f"{where} {said}: prepare it with the schema of the log that the model was trained on")
        changed = next((name for name in own if own[name] != theirs[name]), None)
        if changed is not None:
            raise DataError(
                f"{where} holds '{changed}' as {theirs[changed]}, and the model reads it as {own[changed]}: prepare it "
                "with the schema of the log that the model was trained on"
            )
        if self.item != newer.item:
            raise DataError(
                f"the item of {where} is '{newer.item}', and that of the model '{self.item}': prepare it with the "
                "schema of the log that the model was trained on"
            )

    def grown(self, newer: "FeatureMap") -> "FeatureMap":
        """With the values that only a newer map knows at the end of each field's block, see `check_readable`."""
        pairs = ((block.field, newer.block(block.field.name).field) for block in self.blocks)
        return FeatureMap(tuple(field.grown(other) for field, other in pairs), self.item)

    def recoder(self, newer: "FeatureMap") -> Recoder:
        """From rows as a newer map encodes them to the same rows as this one does; unknown values have their id."""
        theirs = [newer.block(field.name) for field in self.fields]
        recoders = [field.recoder(other.field) for field, other in zip(self.fields, theirs, strict=True)]

        def recode(ids: Ids, weights: Floats | None) -> Encoded:
            parts = zip(recoders, theirs, strict=True)
            return self.side_by_side(len(ids), (recode(*other.of(ids, weights)) for recode, other in parts))

        return recode

    def places_in(self, grown: "FeatureMap") -> Integers:
        """The id that each id of this map has in a map that grew from it."""
        pairs = zip(self.blocks, grown.blocks, strict=True)
        return np.concatenate([np.arange(block.field.ids) + other.first for block, other in pairs])

    def tree_columns(self) -> Iterator[tuple[str, bool]]:
        """The name of each column that a tree sees, and whether it is a category."""
        for number, field in enumerate(self.fields):
            for place, is_category in enumerate(field.tree_columns):
                yield f"f{number}" if len(field.tree_columns) == 1 else f"f{number}_{place}", is_category

    def tree_matrix(self, ids: Ids, weights: Floats | None) -> Floats:
        """`[N, tree columns]`: what a tree sees of `[N, C]` encoded rows."""
        parts = [block.field.tree_matrix(*block.of(ids, weights)) for block in self.blocks]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        return {"item": self.item, "fields": [field.to_json() for field in self.fields]}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """What `to_json` gave; ValueError, in words, if it is anything else."""
        listed = value.get("fields") if isinstance(value, dict) else None
        if not isinstance(listed, list) or not isinstance(value.get("item"), str):
            raise ValueError("the features have no fields or no item")
        if len(listed) > MAX_FIELDS:
            raise ValueError(f"the features have {len(listed):,} fields, more than {MAX_FIELDS:,}")
        features = cls(tuple(map(_field_of, listed)), value["item"])
        names = [field.name for field in features.fields]
        if len(set(names)) < len(names) or (features.item and features.item not in names):
            raise ValueError("the names of the features are not those of the fields")
        if features.n_ids > np.iinfo(np.int32).max:
            raise ValueError("the features have too many values")
        return features


def _field_of(value: Any) -> Field:
    name, kind = (value.get("name"), value.get("kind")) if isinstance(value, dict) else (None, None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"the feature {shortened(name)} is of the unknown kind {shortened(kind)}")
    try:
        return KINDS[kind].from_json({key: part for key, part in value.items() if key != "kind"})
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, found["loc"]))
        raise ValueError(f"{where} of the feature {shortened(name)}: {in_plain_words(found)}") from None
