"""The user's own model inside the service: requests bring raw features, and this writes the score that the rest reads.

An export holds the file of the model, what it reads, and the raw values that depend on the item or on the user alone.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from resus.arrays import Doubles, Integers
from resus.arrow_files import read_arrow
from resus.checked_folder import CheckedFolder
from resus.data.fields.feature_map import Block, FeatureMap
from resus.data.fields.values import spelled, text_of
from resus.errors import ArtifactError, DataError, ResusError, RowError
from resus.model.inference.parts import Rows
from resus.serving.catalogue import Catalogue
from resus.serving.profiles import Keys

if TYPE_CHECKING:
    from resus.external.score_column import ScoreColumn

FILE = "own-model"  # with the ending of the user's file
INPUTS = "own-model.arrow"
USERS = "own-model-users.arrow"
PLAIN = (pa.bool_(), pa.int64(), pa.float64(), pa.large_string())  # kinds of raw columns

Values = Sequence[Any]


class OwnFacts(BaseModel):
    """What the file of inputs says besides its table."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1]
    file: str
    written_by: str
    column: str
    reads: tuple[str, ...]
    of_item: tuple[str, ...]
    of_user: tuple[str, ...]
    values: dict[str, tuple[str, ...]]  # of the other columns, most frequent first
    example: dict[str, Any] | None  # the values of one row; None if no table was there to read them from


@dataclass(frozen=True, eq=False)
class OwnModel:
    """Never changes, so threads may share it; they take turns with the library, which scores in one thread."""

    facts: OwnFacts
    score: "ScoreColumn"
    block: Block  # of the field that holds the score
    item: str  # the field of the item's id
    of_items: Mapping[str, Values]  # raw values, by the place of an item in the catalogue
    users: pa.Table | None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, folder: CheckedFolder, features: FeatureMap, catalogue: Catalogue) -> "OwnModel":
        """The model of a folder. Its bytes are those that were listed, and another process opens them first."""
        from resus.external.choice import MAX_MODEL_BYTES, ModelFile  # most services have no such model
        from resus.external.score_column import ScoreColumn

        path = folder.path / INPUTS
        try:
            table = read_arrow(folder.read(INPUTS))
            facts = OwnFacts.model_validate_json((table.schema.metadata or {})[b"resus"])
            users = read_arrow(folder.read(USERS)).combine_chunks() if USERS in folder else None
            _check(table, ("item", *(name for name in facts.of_item if name != features.item)))
            if table["item"].to_pylist() != list(catalogue.items):
                raise ValueError("its items are not those of the catalogue")
            if users is not None:
                _check(users, ("user", *facts.of_user))
            block = features.block(facts.column)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ArtifactError(
                f"{path} does not hold the inputs of a model ({reason}): make it again with 'resus export'"
            ) from None
        content = folder.read(facts.file, limit=MAX_MODEL_BYTES)
        file = ModelFile(folder.path / facts.file, content, folder.files[facts.file].sha256)
        score = ScoreColumn(facts.column, facts.written_by, file.sha256, file.model(threads=1))
        of_items = {name: table["item" if name == features.item else name].to_pylist() for name in facts.of_item}
        return cls(facts, score, block, features.item, of_items, users)

    @property
    def situation(self) -> frozenset[str]:
        """The columns that neither the item nor the catalogue gives."""
        return frozenset(self.facts.reads) - frozenset(self.facts.of_item)

    @property
    def own_of_item(self) -> tuple[str, ...]:
        """The columns of an item but its id."""
        return tuple(name for name in self.facts.of_item if name != self.item)

    def of_user(self, user: str) -> dict[str, Any]:
        """The columns of a user of the log; None is a value that is known to be missing."""
        place = None if self.users is None else self._keys.place_of(user)
        if self.users is None or place is None:
            return {}
        return {name: self.users[name][place].as_py() for name in self.facts.of_user}

    @cached_property
    def _keys(self) -> Keys:
        assert self.users is not None
        return Keys(self.users["user"].chunk(0))

    def scored(
        self, rows: Sequence[Mapping[str, Any]], places: Sequence[int], *, stored: bool = False
    ) -> list[Mapping[str, Any]]:
        """Rows with their scores; `places` are those of their items in the catalogue, -1 for none.

        Rows of a request must bring all columns. Of `stored` events, another export may have known the item or the
        user: what this one does not know is a missing value.
        """
        if not rows:
            return []
        if not stored:
            self._refuse_missing(rows, places)
        columns = {
            name: [
                kept[place] if kept is not None and place >= 0 and row.get(name) is None else row.get(name)
                for row, place in zip(rows, places, strict=True)
            ]
            for name in self.facts.reads
            for kept in [self.of_items.get(name)]
        }
        logits = self._logits({name: _series(name, values) for name, values in columns.items()})
        return [{**row, self.facts.column: logit} for row, logit in zip(rows, logits.tolist(), strict=True)]

    def score_items(self, rows: Rows, places: Integers, context: Mapping[str, Any]) -> Rows:
        """Encoded rows of these items of the catalogue in a context, with their scores."""
        chosen = places.tolist()
        columns = {}
        for name in self.facts.reads:
            kept = self.of_items.get(name)
            values = [context[name]] if kept is None else [kept[place] for place in chosen]
            series = _series(name, values)
            columns[name] = series.new_from_index(0, len(chosen)) if kept is None else series
        ids, weights = self.block.field.encode(pl.Series(self.facts.column, self._logits(columns)))
        assert rows.weights is not None
        assert weights is not None
        rows.ids[:, self.block.columns] = ids + np.int32(self.block.first)
        rows.weights[:, self.block.columns] = weights
        return rows

    def check_context(self, context: Mapping[str, Any]) -> None:
        """Refuse a context without the columns that every candidate must bring."""
        missing = [name for name in self.facts.reads if name in self.situation and name not in context]
        if missing:
            raise DataError(f"context: {self._lacks(missing)}")

    def check(self, fields: Mapping[str, Any]) -> None:
        """Refuse values of an item or of a user that the model cannot read."""
        given = {name: value for name, value in fields.items() if name in self.facts.reads}
        if given and self.facts.example is not None:
            self.scored([{**self.facts.example, **given}], [-1])

    def check_item(self, item: str, fields: Mapping[str, Any], place: int) -> None:
        """Refuse values of an item that the model cannot read, and a new item that lacks one of the columns."""
        missing = [name for name in self.own_of_item if name not in fields]
        if place < 0 and missing:
            raise DataError(f"fields: {self._lacks(missing)}")
        self.check_items({item: fields}, {item: place})

    def check_items(self, fields: Mapping[str, Mapping[str, Any]], places: Mapping[str, int]) -> None:
        """Refuse items that the model cannot score with these other fields."""
        if self.facts.example is None:
            return
        rows = []
        for item, changed in fields.items():
            place = places.get(item, -1)
            known = {name: self.of_items[name][place] if place >= 0 else None for name in self.own_of_item}
            rows.append({**self.facts.example, **known, **changed, self.item: item})
        self.scored(rows, [-1] * len(rows))

    def updated(self, catalogue: Catalogue, changes: Mapping[str, Mapping[str, Any]]) -> "OwnModel":
        """For a later state of the catalogue, after changes of its items."""
        of_items: dict[str, list[Any]] = {}
        for name, kept in self.of_items.items():
            of_items[name] = [*kept, *[None] * (len(catalogue.items) - len(kept))]
        for item, change in changes.items():
            place = catalogue.places.get(item)
            for name in set(change["fields"]).intersection(self.own_of_item) if place is not None else ():
                of_items[name][catalogue.places[item]] = change["fields"][name]
        if self.item in of_items:
            of_items[self.item] = list(catalogue.items)
        return replace(self, of_items=of_items)

    def _refuse_missing(self, rows: Sequence[Mapping[str, Any]], places: Sequence[int]) -> None:
        for number, (row, place) in enumerate(zip(rows, places, strict=True)):
            missing = [
                name for name in self.facts.reads if name not in row and (name not in self.of_items or place < 0)
            ]
            if missing:
                raise DataError(f"row {number + 1}: {self._lacks(missing)}")

    def _lacks(self, missing: Sequence[str]) -> str:
        """What is missing, and who can give it."""
        names, one = ", ".join(map(repr, missing)), len(missing) == 1
        them, are = ("it", "is") if one else ("them", "are")
        where = f"send {them}, or null where nothing is known"
        if set(missing) <= set(self.facts.of_item):
            where += "; the catalogue does not know the item"
        elif set(missing) <= set(self.facts.of_user):
            where += f", or store {them} with PUT /v1/users/ID/profile"
        return f"{names} {are} missing, which {self.facts.written_by} reads: {where}"

    def _logits(self, columns: Mapping[str, pl.Series]) -> Doubles:
        try:
            with self._turn:
                return self.score.logits(pl.DataFrame(columns))
        except RowError as bad:
            where = f"row {bad.row + 1}" + (f", field {bad.column!r}" if bad.column else "")
            raise DataError(f"{where}: {bad.what}; {bad.fix}") from None
        except ResusError:
            raise
        except Exception as error:  # whatever a library raises for values that it does not expect
            reason = str(error).strip().partition("\n")[0]
            raise DataError(
                f"{self.facts.written_by} cannot score this ({type(error).__name__}: {reason}): check the values of "
                f"{', '.join(self.facts.reads)}"
            ) from None


def _series(name: str, values: Values) -> pl.Series:
    """A column of values as a table would hold them: numbers, booleans, or text if they are mixed."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {bool}:
        return pl.Series(name, values, dtype=pl.Boolean)
    if kinds == {str}:
        return pl.Series(name, values, dtype=pl.String)
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pl.Series(name, values, dtype=pl.Int64)
    if kinds and kinds <= {int, float}:
        return pl.Series(name, [None if value is None else float(value) for value in values], dtype=pl.Float64)
    try:
        texts = [text_of(value, row, name) for row, value in enumerate(values)]
    except RowError as bad:
        raise DataError(f"row {bad.row + 1}, field {bad.column!r}: {bad.what}; {bad.fix}") from None
    return pl.Series(name, [None if text is None else spelled(text) for text in texts], dtype=pl.String)


def _check(table: pa.Table, names: Sequence[str]) -> None:
    if tuple(table.column_names) != tuple(names) or any(kind not in PLAIN for kind in table.schema.types):
        raise ValueError("its columns are not those that the model reads")
    if table[names[0]].type != pa.large_string() or table[names[0]].null_count:
        raise ValueError(f"its column {names[0]} is not one of ids")
