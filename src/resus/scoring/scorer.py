"""A trained model as the answerer of tables: what it takes from the support and the query, and its answers."""

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.arrays import Floats, Ids
from resus.data.fields.feature_map import FeatureMap
from resus.data.problems import Problem
from resus.data.schema import TableSchema
from resus.episodes.tensors import Features
from resus.errors import DataError, RowError
from resus.external.score_column import ScoreColumn
from resus.model.personalizer import Personalizer
from resus.scoring.answers import Prediction, answer
from resus.scoring.rows import QUERY, SUPPORT, check_columns, labels_of, users_of
from resus.scoring.support_index import SupportIndex


@dataclass(frozen=True, eq=False)
class Scorer:
    """A model and what the columns of the tables mean; `first_row` is where a block starts.

    A `score` is a column that tables may lack: it is written block by block.
    """

    model: Personalizer
    features: FeatureMap
    schema: TableSchema
    score: ScoreColumn | None = None

    def query_columns(self, present: Collection[str], where: str = QUERY) -> list[str]:
        """What is read of a table with these columns."""
        columns = [self.schema.user, *(field.name for field in self.features.fields)]
        if self.score is not None and self.score.name not in present:
            columns.remove(self.score.name)
            columns += self.score.columns(self.schema, present, where)
        return list(dict.fromkeys(columns))

    def support_columns(self, present: Collection[str]) -> list[str]:
        return list(dict.fromkeys([*self.query_columns(present, SUPPORT), self.schema.label]))

    def check(self, support: Collection[str], query: Collection[str]) -> None:
        """Refuse tables that lack a column, before a row of either is read."""
        for present, where in ((support, SUPPORT), (query, QUERY)):
            there = set(present)
            if self.score is not None:
                self.score.columns(self.schema, present, where)
                there.add(self.score.name)
            check_columns(there, self.features, self.schema, where)

    def users(self, support: pl.DataFrame, first_row: int = 0) -> pl.Series:
        return users_of(support, self.schema, SUPPORT, first_row)

    def events(self, support: pl.DataFrame, first_row: int = 0) -> tuple[Ids, Floats | None, npt.NDArray[np.float32]]:
        """Encoded support rows and their labels."""
        labels = labels_of(support, self.schema, first_row)
        return *self.encode(support, SUPPORT, first_row), labels

    def encode(self, frame: pl.DataFrame, where: str, first_row: int = 0) -> tuple[Ids, Floats | None]:
        """Ids and weights of rows, the score among them."""
        if self.score is not None:
            frame = self.score.on(frame, self.schema, where, first_row=first_row)
        ids, weights = self.features.encode(frame, where, first_row)
        try:
            self.model.predictor.check(Features.of(ids, weights))
        except RowError as bad:
            raise DataError(str(self._problem(bad, frame, where, first_row))) from None
        return ids, weights

    def _problem(self, bad: RowError, frame: pl.DataFrame, where: str, first_row: int) -> Problem:
        """What is wrong with Ψ's column, as the table has it."""
        assert bad.column is not None
        value = frame[bad.column].cast(pl.Float64, strict=False)[bad.row]
        what = bad.what if value is None or math.isfinite(value) else f"{value} is no finite number"
        fix = bad.fix
        if self.score is not None and self.score.model is not None:
            fix += f", or drop the column, and {self.score.written_by} writes it"
        return Problem(where, first_row + bad.row + 1, bad.column, what, fix)

    def index(self, support: pl.DataFrame) -> SupportIndex:
        return SupportIndex.of(self.users(support), *self.events(support))

    def answer(self, index: SupportIndex, query: pl.DataFrame, first_row: int = 0) -> tuple[Prediction, dict[str, int]]:
        """The answers, and by field in how many rows the value was never seen in training, or is missing."""
        users = users_of(query, self.schema, QUERY, first_row)
        ids, weights = self.encode(query, QUERY, first_row)
        return answer(self.model, index, users, Features.of(ids, weights)), self.features.count_unknown(ids)

    def predict(self, support: pl.DataFrame, query: pl.DataFrame) -> tuple[Prediction, dict[str, int]]:
        """The same of two whole tables."""
        self.check(support.columns, query.columns)
        return self.answer(self.index(support), query)
