"""Packs the user's own model into an export: its file, the columns that it reads, and what the table says of them.

The table of the log is read again, and the model must give its rows the scores that the run learned from.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from resus.arrays import Doubles, Integers
from resus.artifact import Artifact
from resus.data.build import rows_of_log
from resus.data.fields.unknown import warn
from resus.data.fields.values import as_text
from resus.data.log.log import InteractionLog
from resus.data.log.manifest import ScoreFacts
from resus.data.options import PrepareOptions
from resus.data.problems import refuse
from resus.data.readers.tables import RawTable, ScoreWriter
from resus.data.schema import TableSchema
from resus.data.sources import find_source
from resus.errors import ConfigError
from resus.external.choice import ModelFile
from resus.external.score_column import GENERIC, ScoreColumn
from resus.files import atomic_path
from resus.serving.catalogue import MAX_CHOICES, Catalogue
from resus.serving.own_model import FILE, INPUTS, USERS, OwnFacts

ALIKE = 1e-4  # of the largest logit: what libraries and processors may differ by


@dataclass(frozen=True, eq=False)
class OwnInputs:
    """A model to pack. `rows` holds the columns that it reads, in the order of the log; None if their table is gone."""

    file: ModelFile
    score: ScoreColumn
    reads: tuple[str, ...]
    rows: pl.DataFrame | None

    @classmethod
    def of(cls, path: Path, artifact: Artifact, log: InteractionLog, table: Path | None) -> "OwnInputs":
        """Refuse a model that is not the one of the run."""
        column = artifact.config.predictor.logit_column
        if not column:
            raise ConfigError(
                "the run reads no logits of a model of your own (its shared model is "
                f"{artifact.config.predictor_name}): leave {path} out"
            )
        file = ModelFile.read(path)
        score = ScoreColumn(column, path.name, file.sha256, file.model())
        if artifact.log.score is not None:
            ScoreColumn.remembered(artifact.log.score).refuse_another(score)
        schema = log.manifest.table
        if schema is None:
            raise ConfigError(
                f"the log '{log.name}' was not prepared from a table, so {path.name} has no columns to read"
            )
        found = _read(score, schema, log, table)
        if found is None:
            reads = score.model.reads if score.model is not None else None
            if not isinstance(reads, tuple) or all(map(GENERIC.fullmatch, reads)):
                raise ConfigError(f"{path.name} does not name its columns: give the table of the log with --table")
            warn(
                [
                    f"the table {log.manifest.source or 'of the log'} is gone, so the scores of {path.name} cannot be "
                    "compared with those of the log, and requests must send all columns: give it with --table"
                ]
            )
            return cls(file, score, reads, None)
        reads = tuple(score.columns(schema, [*found.columns], "the table"))
        return cls(file, score, reads, found.select(reads))

    @property
    def name(self) -> str:
        """The name of the file in the export."""
        return f"{FILE}{self.file.path.suffix.lower()}"

    def without_score(self, catalogue: Catalogue) -> Catalogue:
        """For what requests say: they bring no scores."""
        context = {name: values for name, values in catalogue.context.items() if name != self.score.name}
        return replace(catalogue, context=context)

    def with_score_in_context(self, catalogue: Catalogue) -> Catalogue:
        """The service writes the score of each row, so it is no field of the items even if it depends on them alone."""
        if self.score.name not in catalogue.fields:
            return catalogue
        place = catalogue.fields.index(self.score.name)
        field_of = np.where(catalogue.field_of == place, -1, catalogue.field_of)
        return replace(
            catalogue,
            fields=tuple(name for name in catalogue.fields if name != self.score.name),
            context=catalogue.context | {self.score.name: ()},
            field_of=np.where(field_of > place, field_of - 1, field_of),
        )

    def save(
        self, folder: Path, log: InteractionLog, catalogue: Catalogue, of_user: Collection[str], *, profiles: bool
    ) -> pl.DataFrame | None:
        """Write the model and its inputs, and return those columns of the log's rows that do not depend on the item.

        `of_user` are fields of profiles. `write_facts` must then list the files.
        """
        item = log.features.item
        with atomic_path(folder / self.name) as aside:
            aside.write_bytes(self.file.content)
        frame = self.rows
        plain = {} if frame is None else {name: _plain(frame[name]) for name in self.reads}
        block = log.features.block(item)
        places = log.ids[:, block.columns.start].astype(np.int64) - block.first - 1  # -1: unknown item
        users = np.repeat(np.arange(log.n_users), log.lengths)
        items_of, users_of = [item] if item in self.reads else [], list[str]()
        for name, column in plain.items():
            if name == item:
                continue
            if name in catalogue.fields or (name not in of_user and _depends_on(column, places)):
                items_of.append(name)
            elif name in of_user or _depends_on(column, users):
                users_of.append(name)
        others = [name for name in plain if name not in items_of]
        table = log.manifest.table
        if not profiles and table is not None and table.user in others:
            raise ConfigError(f"{self.score.written_by} reads the ids of users: leave --no-profiles out")
        facts = OwnFacts(
            format=1,
            file=self.name,
            written_by=self.score.written_by,
            column=self.score.name,
            reads=self.reads,
            of_item=tuple(items_of),
            of_user=tuple(users_of),
            values={name: _frequent(plain[name]) for name in others if table is None or name != table.user},
            example={name: column[0] for name, column in plain.items()} if plain else None,
        )
        kept = {name: _of_each(plain[name], places, len(catalogue.items)) for name in items_of if name != item}
        inputs = pa.table({"item": pa.array(catalogue.items, pa.large_string()), **_arrow(kept)})
        _write(inputs.replace_schema_metadata({"resus": facts.model_dump_json()}), folder / INPUTS)
        if profiles and users_of:
            ids = pl.Series(log.user_ids).cast(pl.String)
            order = ids.arg_sort()
            last = pl.Series(log.offsets[1:] - 1)[order]
            columns = _arrow({name: plain[name].gather(last) for name in users_of})
            _write(
                pa.table({"user": ids.gather(order).to_arrow(compat_level=pl.CompatLevel.oldest()), **columns}),
                folder / USERS,
            )
        return pl.DataFrame({name: plain[name] for name in others}, height=log.n_rows) if plain else None


@dataclass(frozen=True)
class _Reads(ScoreWriter):
    """Asks a reader of tables for the columns that a model needs."""

    score: ScoreColumn

    @property
    def facts(self) -> ScoreFacts:
        return self.score.facts

    def columns_to_learn_from(self, schema: TableSchema, present: Collection[str], where: str) -> list[str]:
        return self.score.columns(schema, [name for name in present if name != self.score.name], where)

    def on_table(self, table: RawTable) -> RawTable:
        return table


def _read(score: ScoreColumn, schema: TableSchema, log: InteractionLog, given: Path | None) -> pl.DataFrame | None:
    """The rows of the log with all columns that the model reads; None if their table is gone."""
    place = given or Path(log.manifest.source)
    if given is None and (not log.manifest.source or not place.exists()):
        return None
    options = log.manifest.options or PrepareOptions()
    others = schema.model_copy(
        update={"fields": {name: schema.fields[name] for name in schema.fields if name != score.name}}
    )
    table = find_source(str(place), None, others, None, _Reads(score)).read(options)
    build = options.build_options(table.defaults)
    refuse(table.check(build))
    assert table.frame is not None
    frame = table.frame.drop(score.name, strict=False)
    frame = score.on(frame, others, table.where, lines=table.lines)
    reads = score.columns(others, [name for name in frame.columns if name != score.name], table.where)
    rows, _ = rows_of_log(replace(table, frame=frame, schema=schema), build, more=reads)
    _check_scores(score, log, rows, table.where)
    return rows.drop(score.name)


def _check_scores(score: ScoreColumn, log: InteractionLog, rows: pl.DataFrame, where: str) -> None:
    """Refuse another table than that of the log, and a model that gives its rows other scores."""
    block = log.features.block(score.name)
    same = rows.height == log.n_rows
    if same:
        ids, weights = log.features.encode(rows, where)
        assert weights is not None
        assert log.weights is not None
        others = np.ones(log.features.n_columns, dtype=bool)
        others[block.columns] = False
        same = np.array_equal(ids[:, others], log.ids[:, others])
        same = same and np.array_equal(weights[:, others], log.weights[:, others])
    if not same:
        raise ConfigError(
            f"{where} does not hold the rows of the log '{log.name}': "
            "name the table that it was prepared from with --table"
        )
    assert log.weights is not None
    own_ids, own_weights = block.of(np.asarray(log.ids), np.asarray(log.weights))
    assert own_weights is not None
    known: Doubles = block.field.numbers(own_ids, own_weights)
    given = rows[score.name].to_numpy()
    apart = np.abs(given - known)
    wrong = apart > ALIKE * max(1.0, float(np.abs(known).max()))
    if wrong.any():
        raise ConfigError(
            f"{score.written_by} is not the model whose scores the run learned from: it gives {int(wrong.sum()):,} of "
            f"{log.n_rows:,} rows of {where} another score, by up to {float(apart.max()):.3g}; give that model, or "
            "train again on the new scores"
        )


def _depends_on(column: pl.Series, owners: Integers) -> bool:
    """Whether all rows of each owner agree, and some owner has several rows."""
    rows = pl.DataFrame({"owner": owners, "value": column}).filter(pl.col("owner") >= 0)
    values = rows.group_by("owner").agg(pl.col("value").n_unique())
    return 0 < values.height < rows.height and bool((values["value"] == 1).all())


def _of_each(column: pl.Series, places: Integers, count: int) -> pl.Series:
    """For each item its most frequent value, of equally frequent ones the first."""
    rows = pl.DataFrame({"place": places, "value": column}).filter(pl.col("place") >= 0).with_row_index("row")
    counted = rows.group_by("place", "value").agg(pl.len().alias("count"), pl.col("row").min())
    best = counted.sort("place", "count", "row", descending=[False, True, False]).unique("place", keep="first")
    all_places = pl.DataFrame({"place": np.arange(count, dtype=places.dtype)})
    return all_places.join(best, on="place", how="left", maintain_order="left")["value"]


def _plain(column: pl.Series) -> pl.Series:
    """A column as JSON could hold it: whole numbers, fractions, booleans or text."""
    kind = column.dtype
    if kind.is_nested():
        raise ConfigError(f"the model reads the column '{column.name}', which holds lists: requests cannot carry them")
    if kind.is_float():
        return column.cast(pl.Float64).fill_nan(None)
    if kind.is_integer():
        return column.cast(pl.Int64)
    if kind in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    return column if kind in (pl.Boolean, pl.String, pl.Null) else as_text(column)


def _frequent(column: pl.Series) -> tuple[str, ...]:
    counted = pl.DataFrame({"value": as_text(column).drop_nulls()}).group_by("value").len()
    return tuple(counted.sort("len", "value", descending=[True, False])["value"].head(MAX_CHOICES))


def _arrow(columns: Mapping[str, pl.Series]) -> dict[str, pa.Array]:
    arrays = {name: column.to_arrow(compat_level=pl.CompatLevel.oldest()) for name, column in columns.items()}
    return {name: array.cast(pa.float64()) if pa.types.is_null(array.type) else array for name, array in arrays.items()}


def _write(table: pa.Table, path: Path) -> None:
    with atomic_path(path) as aside, pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
