"""A trained model that answers tables: which columns it reads, what it refuses, and its scores."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from resus.arrays import Floats, Ids
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import as_numbers, as_text
from resus.data.negatives.support import NegativeItems
from resus.data.problems import Problem
from resus.data.schema import TableSchema
from resus.episodes.batch import Features
from resus.errors import DataError, RowError
from resus.external.score_column import ScoreColumn
from resus.model.personalizer import Personalizer
from resus.scoring.answers import Prediction, answer
from resus.scoring.blocks import Blocks
from resus.scoring.side_fields import SideFields, with_tables
from resus.scoring.support_index import SupportIndex

KEY_ROWS = 1 << 19  # users and items read at a time
SUPPORT, QUERY = "the support", "the query"  # what messages call the two tables


@dataclass(frozen=True, eq=False)
class Scorer:
    """A model and the meaning of the tables' columns.

    A frame may be one block of a table: `first_row` is the number of its first row there, so that messages count the
    rows of the whole table. If a table lacks fields of its users or items, they come from `sides`; if it lacks the
    column `score`, the scorer writes it. A model that learned from drawn `negatives` gets them for users whose events
    are all positive.
    """

    model: Personalizer
    features: FeatureMap
    schema: TableSchema
    score: ScoreColumn | None = None
    negatives: NegativeItems | None = None

    @cached_property
    def sides(self) -> SideFields:
        """The side tables of the schema."""
        return SideFields(self.schema)

    def with_sides(self, *, users: Any = None, items: Any = None) -> "Scorer":
        """The same with other side tables, if any are given: paths or frames."""
        return replace(self, schema=with_tables(self.schema, users=users, items=items))

    def query_columns(self, present: Collection[str], where: str = QUERY) -> list[str]:
        """The columns to read from a table that has these."""
        columns = [self.schema.user, *(field.name for field in self.features.fields)]
        joined = list(dict.fromkeys([*present, *self.sides.names]))  # a model may read columns by their order
        if self.score is not None and self.score.name not in present:
            columns.remove(self.score.name)
            columns += self.score.columns(self.schema, joined, where)
        left_out = set(joined).difference(present)
        return [name for name in dict.fromkeys(columns) if name not in left_out]

    def support_columns(self, present: Collection[str]) -> list[str]:
        labels = [name for name in [self.schema.label] if name is not None and name in present]
        return list(dict.fromkeys([*self.query_columns(present, SUPPORT), *labels]))

    def check(self, tables: Mapping[str, Collection[str]]) -> None:
        """Refuse tables that lack a column, before reading any row. Each has a name and columns."""
        for where, columns in tables.items():
            present = {*columns, *self.sides.names}
            if self.score is not None:
                self.score.columns(self.schema, present, where)
                present.add(self.score.name)
            if self.schema.user not in present:
                raise DataError(f"{where} has no column '{self.schema.user}', which names the user of each row; add it")
            if where == SUPPORT and self.negatives is None and self.schema.label not in present:
                raise DataError(f"{where} has no column '{self.schema.label}', the label of each event; add it")
            self.features.check_columns(present, where)

    def users(self, frame: pl.DataFrame, where: str, first_row: int = 0) -> pl.Series:
        """The user of each row, as text."""
        users = as_text(frame[self.schema.user])
        empty = users.is_null() | (users == "")
        if empty.any():
            row = first_row + int(empty.arg_true()[0]) + 1
            raise DataError(f"{where}, column '{self.schema.user}', row {row}: the user is empty; fill it in")
        return users

    def labels(self, support: pl.DataFrame, first_row: int = 0) -> Floats:
        """The label of each event, as 0 or 1; without a column of labels, each event is a click."""
        threshold, name = self.schema.label_threshold, self.schema.label
        if name is None or name not in support.columns:
            return np.ones(support.height, dtype=np.float32)
        labels = pl.Series(as_numbers(support[name])[0]).fill_nan(None)
        if threshold is not None:
            labels = (labels >= threshold).cast(pl.Float64)
        bad = ~labels.is_in([0.0, 1.0]).fill_null(False)
        if bad.any():
            row = int(bad.arg_true()[0])
            wanted = "0 or 1" if threshold is None else "a number"
            raise DataError(
                f"{SUPPORT}, column '{name}', row {first_row + row + 1}: "
                f"{support[name][row]!r} is not {wanted}; write {wanted}"
            )
        return labels.cast(pl.Float32).to_numpy()

    def encode(self, frame: pl.DataFrame, where: str, first_row: int = 0) -> tuple[Ids, Floats | None]:
        """Ids and weights of the rows, including the fields of side tables and the score column."""
        frame = self.sides.of(frame, where)
        if self.score is not None:
            frame = self.score.on(frame, self.schema, where, first_row=first_row)
        ids, weights = self.features.encode(frame, where, first_row)
        try:
            self.model.predictor.check(Features.of(ids, weights))
        except RowError as bad:
            raise DataError(str(self._problem(bad, frame, where, first_row))) from None
        return ids, weights

    def _problem(self, bad: RowError, frame: pl.DataFrame, where: str, first_row: int) -> Problem:
        """A value of the score column that cannot be used, in terms of the user's table."""
        assert bad.column is not None
        value = frame[bad.column].cast(pl.Float64, strict=False)[bad.row]
        what = bad.what if value is None or math.isfinite(value) else f"{value} is not a finite number"
        fix = bad.fix
        if self.score is not None and self.score.model is not None:
            fix += f", or drop the column so that {self.score.written_by} writes it"
        return Problem(where, first_row + bad.row + 1, bad.column, what, fix)

    def index(self, support: pl.DataFrame) -> SupportIndex:
        users, labels = self.users(support, SUPPORT), self.labels(support)
        return SupportIndex.of(users, *self.encode(support, SUPPORT), labels)

    def answer(self, index: SupportIndex, query: pl.DataFrame, first_row: int = 0) -> tuple[Prediction, dict[str, int]]:
        """The scores; and for each field, the number of rows with a value that the model does not know."""
        users = self.users(query, QUERY, first_row)
        query = self.sides.of(query, QUERY)
        ids, weights = self.encode(query, QUERY, first_row)
        found = answer(self.model, index, users, Features.of(ids, weights), self.negatives)
        return found, self.features.count_unknown(query, ids, weights)

    def unknown_in(self, support: pl.DataFrame) -> dict[str, int]:
        """For each field, the number of events with a value that the model does not know."""
        support = self.sides.of(support, SUPPORT)
        if self.score is not None:
            support = self.score.on(support, self.schema, SUPPORT)
        return self.features.unknown(support)

    def notices(self, tables: Mapping[str, Blocks]) -> list[str]:
        """Refuse tables that lack a column. What to know about users and items without a row in their side table."""
        self.check({where: table.columns for where, table in tables.items()})
        said = []
        for where, table in tables.items():
            keys = table.frames([self.schema.user, self.schema.item], KEY_ROWS)
            said += self.sides.check(table.columns, keys, where)
        return said

    def predict(self, support: pl.DataFrame, query: pl.DataFrame) -> tuple[Prediction, dict[str, int]]:
        """Score two whole tables."""
        self.check({SUPPORT: support.columns, QUERY: query.columns})
        return self.answer(self.index(support), query)
