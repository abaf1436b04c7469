"""The column of scores that a model writes: on frames, on tables from files, and block by block."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from resus.arrays import Doubles
from resus.checking import nearest_key
from resus.data.log.manifest import ScoreFacts
from resus.data.problems import Problem
from resus.data.readers.tables import RawTable
from resus.data.schema import FieldSchema, TableSchema
from resus.errors import ConfigError, DataError, ResusError, RowError
from resus.external.choice import ModelFile, model_that_scores
from resus.external.columns import ListsCategories, refuse_foreign_categories
from resus.external.scoring_model import ScoringModel
from resus.wording import advice

SCORE = "model_score"
BLOCK_ROWS = 1 << 17  # scored at once: models copy their rows, and must not copy the whole table
GENERIC = re.compile(r"(Column_|f)?\d+")  # the names that LightGBM, XGBoost and CatBoost give to nameless columns


@dataclass(frozen=True, eq=False)
class ScoreColumn:
    """A numeric column of logits. No code is saved: a loaded one has no `model`, but knows which one wrote it."""

    name: str
    written_by: str
    sha256: str | None  # of the model file, if it is one
    model: ScoringModel | None

    @classmethod
    def of(cls, what: Any, name: str = SCORE) -> Self:
        """The column of a model file, an estimator or a function."""
        if not name.strip():
            raise ConfigError("the name of the score column is empty: give a name, or leave it out")
        if isinstance(what, Path):
            file = ModelFile.read(what)
            return cls(name, what.name, file.sha256, file.model())
        model = model_that_scores(what)
        return cls(name, model.name, None, model)

    @classmethod
    def remembered(cls, facts: ScoreFacts) -> Self:
        return cls(facts.column, facts.written_by, facts.sha256, None)

    @property
    def facts(self) -> ScoreFacts:
        """What a log and a run store about it."""
        return ScoreFacts(column=self.name, written_by=self.written_by, sha256=self.sha256)

    def again(self, what: Any) -> "ScoreColumn":
        """The column with its model again. Refuses another file than the one that wrote it."""
        if not isinstance(what, Path):
            given = ScoreColumn.of(what, self.name)
            self.refuse_another(given)
            return given
        file = ModelFile.read(what)
        self.refuse_another(ScoreColumn(self.name, what.name, file.sha256, None))
        return ScoreColumn(self.name, what.name, file.sha256, file.model(known=file.sha256 == self.sha256))

    def refuse_another(self, given: "ScoreColumn") -> None:
        if self.sha256 is not None and given.sha256 != self.sha256:
            raise ConfigError(
                f"the column '{self.name}' was written by {self.written_by} of sha256 {self.sha256[:12]}…, and "
                f"{given.written_by} is not that file: give the same file, or train again on the new scores"
            )

    def schema(self, schema: TableSchema) -> TableSchema:
        """The schema with the column as a numeric field."""
        if self.name in (schema.user, schema.item, schema.label, schema.time):
            raise ConfigError(f"'{self.name}' is a column of the schema already: give the scores another name")
        field = schema.fields.get(self.name, FieldSchema(kind="numeric"))
        if not field.field_class.is_number:
            raise ConfigError(
                f"fields: '{self.name}' holds the scores of a model and must be numeric, not {field.kind}"
            )
        return schema.model_copy(update={"fields": schema.fields | {self.name: field}})

    def columns(self, schema: TableSchema, present: Collection[str], where: str) -> list[str]:
        """Which columns of a table the model reads to write this one; none if this one is there already."""
        if self.name in present:
            return []
        if self.model is None:
            again = "resus.load(folder, predictor=…)"
            again = advice(python=again, command="--score-with" if self.sha256 is not None else f"{again} in Python")
            raise DataError(
                f"{where} has no column '{self.name}', which {self.written_by} wrote: give that model again, with "
                f"{again}, or write the column yourself"
            )
        seen = [name for name in present if name != schema.label]
        reads = self.model.reads
        if reads is None:
            return seen
        if isinstance(reads, int) or (all(map(GENERIC.fullmatch, reads)) and not set(reads) <= set(seen)):
            reads = self._by_place(schema, reads if isinstance(reads, int) else len(reads))
        for name in reads:
            if name == schema.label:
                raise ConfigError(f"{self.written_by} reads the label '{name}': give a model that does not")
            if name not in seen:
                nearest = nearest_key(name, seen)
                hint = f"did you mean '{nearest}'?" if nearest else "add it"
                raise DataError(f"{where} has no column '{name}', which {self.written_by} reads: {hint}")
        return list(reads)

    def columns_to_learn_from(self, schema: TableSchema, present: Collection[str], where: str) -> list[str]:
        """The same for a table to learn from, which must not have the column yet."""
        if self.name in present:
            raise ConfigError(
                f"{where} has a column '{self.name}' already: drop it, choose another name for the scores of "
                f"{self.written_by}, or use the column as it is with predictor logits:{self.name}"
            )
        return self.columns(schema, present, where)

    def on(
        self,
        frame: pl.DataFrame,
        schema: TableSchema,
        where: str,
        *,
        first_row: int = 0,
        lines: pl.Series | None = None,
    ) -> pl.DataFrame:
        """The frame with the column, unless it has it already.

        Errors name the row: `first_row` rows of `where` came before, or `lines` are the lines of the file.
        """
        if self.name in frame.columns:
            return frame
        columns = self.columns(schema, frame.columns, where)
        scores = np.empty(frame.height, dtype=np.float64)
        for start in range(0, frame.height, BLOCK_ROWS):
            block = frame.slice(start, BLOCK_ROWS).select(columns)
            try:
                scores[start : start + block.height] = self.logits(block)
            except RowError as bad:
                row = start + bad.row
                line = first_row + row + 1 if lines is None else int(lines[row])
                raise DataError(str(Problem(where, line, bad.column, bad.what, bad.fix))) from None
            except ResusError:
                raise
            except Exception as error:
                reason = str(error).strip().partition("\n")[0]
                raise DataError(
                    f"{self.written_by} failed on {where} ({type(error).__name__}: {reason}): it gets the columns of "
                    f"the table without the label '{schema.label}'; check that it can score these"
                ) from error
        return frame.with_columns(pl.Series(self.name, scores))

    def logits(self, block: pl.DataFrame) -> Doubles:
        """The logits of rows that hold exactly the columns that the model reads, all of them finite."""
        assert self.model is not None
        said = self.model.logits(block)
        if said.shape not in ((block.height,), (block.height, 1)):
            raise DataError(
                f"{self.written_by} gave an answer of the shape {list(said.shape)} for {block.height:,} rows: "
                "it must give one logit per row"
            )
        said = said.reshape(-1)
        odd = np.flatnonzero(~np.isfinite(said))
        if len(odd):
            what = f"{self.written_by} gives {said[odd[0]]}, which is not a finite logit"
            raise RowError(int(odd[0]), None, what, "check the row, or fix the model")
        return said

    def learned_on(
        self, frame: pl.DataFrame, schema: TableSchema, where: str, lines: pl.Series | None = None
    ) -> tuple[pl.DataFrame, TableSchema]:
        """A table to learn from and its schema, each with the column."""
        if schema.negatives is not None:
            raise ConfigError(
                f"{self.written_by} scores the rows of {where}, and the schema draws negatives that are not among "
                "them: write the negatives as rows of label 0 yourself, and leave negatives out"
            )
        columns = self.columns_to_learn_from(schema, frame.columns, where)
        if isinstance(self.model, ListsCategories):
            refuse_foreign_categories(frame.select(columns), self.model.listed, self.written_by, where)
        return self.on(frame, schema, where, lines=lines), self.schema(schema)

    def on_table(self, table: RawTable) -> RawTable:
        """The same for a table from a file."""
        assert table.frame is not None
        assert table.schema is not None
        frame, schema = self.learned_on(table.frame, table.schema, table.where, table.lines)
        return replace(table, frame=frame, schema=schema)

    def _by_place(self, schema: TableSchema, count: int) -> tuple[str, ...]:
        fields = tuple(name for name in schema.fields if name != self.name)
        if len(fields) != count:
            raise ConfigError(
                f"{self.written_by} reads {count} column{'' if count == 1 else 's'} and does not say which, and the "
                f"schema has the {len(fields)} fields {', '.join(fields)}: fit it on named columns, or give a function "
                "that calls it"
            )
        return fields
