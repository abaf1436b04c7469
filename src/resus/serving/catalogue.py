"""The catalogue of items: a request names items by id, and the catalogue fills in their other fields.

It holds ids, titles, counts and mean labels of the items of one log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from resus.arrays import Array, Floats, Ids, Integers
from resus.arrow_files import lists_of, matrix_of, read_arrow
from resus.checked_folder import CheckedFolder
from resus.data.fields.feature_map import Block, FeatureMap
from resus.data.fields.values import spelled, text_of
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit
from resus.errors import ArtifactError, DataError
from resus.files import atomic_path
from resus.model.inference.parts import Rows

CATALOGUE = "catalogue.arrow"
STEADY = 0.9  # share of an item's rows that must hold one value, for the field to be the item's own
MAX_CHOICES = 50  # values that are listed for a field

Columns = dict[str, Array]


class CatalogueFacts(BaseModel):
    """What the file says besides its table."""

    model_config = ConfigDict(frozen=True)

    format: Literal[2]
    fields: tuple[str, ...]
    context: dict[str, tuple[str, ...]]
    field_of: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items, most frequent first, with the ids and weights of the fields that describe an item."""

    items: tuple[str, ...]
    titles: tuple[str | None, ...]
    counts: tuple[int, ...]  # events of training users
    means: tuple[float | None, ...]  # their mean label; None if no training user met the item
    fields: tuple[str, ...]  # fields that describe an item, including its id
    context: dict[str, tuple[str, ...]]  # all other fields with their values, most frequent first
    field_of: Integers  # [C], position of a column's field in `fields`; -1 for a field of the context
    ids: Ids  # [n_items, C]
    weights: Floats | None  # [n_items, C]
    removed: frozenset[int] = frozenset()  # positions of items that are no longer offered

    @classmethod
    def of(cls, log: InteractionLog, split: UserSplit) -> "Catalogue":
        """Every item of the log. Counts and means are those of the training users."""
        features = log.features
        blocks = {block.field.name: block for block in features.blocks}
        item = blocks.get(features.item)
        if item is None or not item.field.values:
            raise DataError(f"the log '{log.name}' has no item field, so there is nothing to catalogue")
        items = item.field.values
        place_of = log.ids[:, item.columns.start].astype(np.int64) - item.first - 1  # -1: unknown item
        owners = np.repeat(np.arange(log.n_users), log.lengths)

        unknown_ids, unknown_weights = features.encode_rows([{}])
        ids = unknown_ids.repeat(len(items), axis=0)
        weights = None if unknown_weights is None else unknown_weights.repeat(len(items), axis=0)
        fields: list[str] = []
        field_of = np.full(features.n_columns, -1)
        known = np.flatnonzero(place_of >= 0)
        for name, (_, _, columns) in blocks.items():
            values = _values(log, columns)
            places, rows, share = _most_frequent(
                place_of[known], {key: column[known] for key, column in values.items()}
            )
            if share < STEADY or (name != features.item and share < _most_frequent(owners, values)[2]):
                continue
            field_of[columns] = len(fields)
            fields.append(name)
            ids[places, columns] = log.ids[known[rows], columns]
            if weights is not None and log.weights is not None:
                weights[places, columns] = log.weights[known[rows], columns]

        trained = log.rows_of(split.train)
        trained = trained[place_of[trained] >= 0]
        counts = np.bincount(place_of[trained], minlength=len(items))
        clicks = np.bincount(place_of[trained], weights=log.labels[trained], minlength=len(items))
        return cls(
            items=items,
            titles=(None,) * len(items),
            counts=tuple(counts.tolist()),
            means=tuple(float(c) / int(n) if n else None for c, n in zip(clicks, counts, strict=True)),
            fields=tuple(fields),
            context={
                name: block.field.frequent_values(*block.of(log.ids, log.weights), MAX_CHOICES)
                for name, block in blocks.items()
                if name not in fields
            },
            field_of=field_of,
            ids=ids,
            weights=weights,
        )

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each item."""
        return {item: place for place, item in enumerate(self.items)}

    def place_of(self, item: Any) -> int:
        """The position of an item, however its id is written; -1: unknown."""
        place = self.places.get(item) if isinstance(item, str) else None
        if place is None:
            text = text_of(item, 0, "item")
            place = -1 if text is None else self.places.get(spelled(text), -1)
        return place

    def fill(self, rows: Sequence[Mapping[str, Any]], read: Rows, item: str) -> Rows:
        """Fill the fields that the rows leave out. `read` holds what the rows say; `item` is the field of the item."""
        places = np.array([self.place_of(row.get(item)) for row in rows])
        left_out = np.array([[*(row.get(name) is None for name in self.fields), False] for row in rows])
        filled = left_out[:, self.field_of] & (places >= 0)[:, None]
        ids = np.where(filled, self.ids[places], read.ids)
        if read.weights is None:
            return Rows(ids, None)
        assert self.weights is not None
        return Rows(ids, np.where(filled, self.weights[places], read.weights))

    def refuse_missing(self, features: FeatureMap, row: Rows) -> None:
        """Refuse a new item that lacks a field which every row must have."""
        features.refuse_missing(np.where(self.field_of >= 0, row.ids, self.ids[:1]))

    def updated(self, features: FeatureMap, changes: Mapping[str, Mapping[str, Any]]) -> tuple["Catalogue", Integers]:
        """With other titles and fields of items, new items and removals, as `latest` of the changes gives them.

        Also the positions of items whose fields are new. A new item has the id of an unknown one.
        """
        items, titles, removed = list(self.items), list(self.titles), set(self.removed)
        places, changed = dict(self.places), []
        unknown = Rows(*features.encode_rows([{}]))
        rows = Rows(*features.encode_rows([change["fields"] for change in changes.values()]))
        new_rows = sum(item not in places and not _says_nothing(change) for item, change in changes.items())
        ids = np.concatenate([self.ids, np.repeat(unknown.ids, new_rows, axis=0)])
        weights = None
        if self.weights is not None and unknown.weights is not None:
            weights = np.concatenate([self.weights, np.repeat(unknown.weights, new_rows, axis=0)])
        for number, (item, change) in enumerate(changes.items()):
            place = places.get(item)
            if place is None and _says_nothing(change):
                continue
            if place is None:
                place = places[item] = len(items)
                items.append(item)
                titles.append(None)
            (removed.add if change["removed"] else removed.discard)(place)
            titles[place] = change.get("title", titles[place])
            for name in set(change["fields"]) & set(self.fields):
                columns = features.block(name).columns
                ids[place, columns] = rows.ids[number, columns]
                if weights is not None and rows.weights is not None:
                    weights[place, columns] = rows.weights[number, columns]
            changed.append(place)
        more = len(items) - len(self.items)
        made = replace(
            self,
            items=tuple(items),
            titles=tuple(titles),
            counts=(*self.counts, *[0] * more),
            means=(*self.means, *[None] * more),
            ids=ids,
            weights=weights,
            removed=frozenset(removed),
        )
        return made, np.array(changed, dtype=np.int64)

    def search(self, text: str, limit: int, offset: int = 0) -> list[int]:
        """Positions of the items whose id or title contains the text, most frequent first."""
        found = [place for place in self.containing(text) if place not in self.removed]
        return sorted(found, key=lambda place: -self.counts[place])[offset : offset + limit]

    def containing(self, text: str) -> list[int]:
        """Positions of all items, also removed ones, whose id or title contains the text."""
        wanted = text.casefold()
        return [
            place
            for place, (item, title) in enumerate(zip(self.items, self.titles, strict=True))
            if wanted in item.casefold() or (title is not None and wanted in title.casefold())
        ]

    def describe(self, features: FeatureMap, place: int) -> dict[str, Any]:
        """The fields of an item but its id, as a table would hold them; those that are unknown are left out."""
        values = features.decode(self.ids[place], None if self.weights is None else self.weights[place])
        said = {name: values[name] for name in self.fields if name != features.item}
        return {name: value for name, value in said.items() if value is not None and value != []}

    def with_titles(self, titles: Mapping[str, str]) -> "Catalogue":
        return replace(self, titles=tuple(titles.get(item) for item in self.items))

    def save(self, folder: Path) -> None:
        """Write one Arrow file, whole or not at all. `write_facts` must then list it."""
        columns = {
            "item": pa.array(self.items, pa.string()),
            "title": pa.array(self.titles, pa.string()),
            "count": pa.array(self.counts, pa.int64()),
            "mean": pa.array(self.means, pa.float64()),
            "ids": lists_of(self.ids),
        }
        if self.weights is not None:
            columns["weights"] = lists_of(self.weights)
        facts = CatalogueFacts(
            format=2,
            fields=self.fields,
            context=self.context,
            field_of=tuple(self.field_of.tolist()),
        )
        table = pa.table(columns).replace_schema_metadata({"resus": facts.model_dump_json()})
        with (
            atomic_path(folder / CATALOGUE) as aside,
            pa.OSFile(str(aside), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)

    @classmethod
    def load(cls, folder: CheckedFolder, features: FeatureMap) -> "Catalogue":
        """The catalogue of a folder, if it fits the features of the model."""
        path, content = folder.path / CATALOGUE, folder.read(CATALOGUE)
        try:
            table = read_arrow(content)
            facts = CatalogueFacts.model_validate_json((table.schema.metadata or {})[b"resus"])
            width = features.n_columns
            _check_table(table, width, weighted=features.weighted)
            _check_fields(facts, features)
            read = cls(
                items=tuple(table["item"].to_pylist()),
                titles=tuple(table["title"].to_pylist()),
                counts=tuple(table["count"].to_pylist()),
                means=tuple(table["mean"].to_pylist()),
                fields=facts.fields,
                context=facts.context,
                field_of=np.array(facts.field_of),
                ids=matrix_of(table["ids"], width),
                weights=matrix_of(table["weights"], width) if "weights" in table.column_names else None,
            )
            check_ids(read.ids, features.blocks)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ArtifactError(
                f"{path} is not a complete catalogue ({reason}): make it again with 'resus export'"
            ) from None
        return read


def _says_nothing(change: Mapping[str, Any]) -> bool:
    """Of an item that the catalogue does not have."""
    return bool(change["removed"]) and not change["fields"] and "title" not in change


def _check_table(table: pa.Table, width: int, *, weighted: bool) -> None:
    kinds = {"item": pa.string(), "title": pa.string(), "count": pa.int64(), "mean": pa.float64()}
    kinds["ids"] = pa.list_(pa.int32(), width)
    if weighted:
        kinds["weights"] = pa.list_(pa.float32(), width)
    if dict(zip(table.schema.names, table.schema.types, strict=True)) != kinds:
        raise ValueError("its columns are not those of the model")
    for name in kinds.keys() - {"title", "mean"}:
        if table[name].null_count:
            raise ValueError(f"{name} is missing for some items")


def _check_fields(facts: CatalogueFacts, features: FeatureMap) -> None:
    names = {field.name for field in features.fields}
    own = range(-1, len(facts.fields))
    if {*facts.fields, *facts.context} != names or len(facts.field_of) != features.n_columns:
        raise ValueError("its fields are not those of the model")
    if not all(field in own for field in facts.field_of):
        raise ValueError("a column belongs to no field")


def check_ids(ids: Ids, blocks: Sequence[Block]) -> None:
    """Refuse ids that are not those of the fields."""
    for field, first, columns in blocks:
        block = ids[:, columns]
        if block.size and not first <= block.min() <= block.max() < first + field.ids:
            raise ValueError(f"it has values of {field.name} that the model does not know")


def _values(log: InteractionLog, block: slice) -> Columns:
    columns: Columns = {f"id{column}": log.ids[:, column] for column in range(block.start, block.stop)}
    if log.weights is not None:
        columns |= {f"weight{column}": log.weights[:, column] for column in range(block.start, block.stop)}
    return columns


def _most_frequent(owner: Integers, values: Columns) -> tuple[Integers, Integers, float]:
    """The owners, a row of each with its most frequent value, and the share of all rows that hold such a value."""
    row = np.arange(len(owner))
    counted = pl.DataFrame({"owner": owner, "row": row, **values}).group_by("owner", *values)
    best = (
        counted.agg(pl.len().alias("count"), pl.col("row").min())
        .sort("owner", "count", "row", descending=[False, True, False])
        .unique("owner", keep="first", maintain_order=True)
    )
    return best["owner"].to_numpy(), best["row"].to_numpy(), float(best["count"].sum()) / len(owner)
