"""What `fit`, `evaluate` and `recommend` take as data: a log, its folder, a file, or a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resus.artifact import TrainingLogFacts
from resus.data.given import log_of, opened_log
from resus.data.log.log import InteractionLog
from resus.data.log.manifest import Manifest
from resus.data.options import PrepareOptions, TableOptions
from resus.data.problems import clashing_columns, refuse
from resus.data.readers.files import files_at
from resus.data.readers.frames import as_frame
from resus.data.readers.tables import read_plain
from resus.data.schema import SchemaLike, TableSchema
from resus.errors import ConfigError, DataError
from resus.external.score_column import ScoreColumn
from resus.scoring.side_fields import ROLES, with_tables
from resus.training.warm_start import WarmStart
from resus.wording import advice

if TYPE_CHECKING:
    from resus.estimator.resus import Resus


def log_to_learn_from(
    data: Any, schema: SchemaLike | None, chosen: Mapping[str, Any], own_model: ScoreColumn | None
) -> InteractionLog:
    """Open a log, or build one from a table, to which the user's own model adds its column."""
    opened = opened_log(data)
    if opened is not None and own_model is not None:
        _check_written(opened, own_model)
    return log_of(data if opened is None else opened, schema, PrepareOptions.of(None, chosen), writer=own_model)


def log_as_learned(
    model: "Resus", data: Any, chosen: Mapping[str, Any] | None = None, *, users: Any = None, items: Any = None
) -> InteractionLog:
    """Open a log, or build one from a table as in training: with the schema, the options and the scores of then.

    `users` and `items` are side tables, in place of frames that the model did not keep.
    """
    facts, opened = model._fitted().log, opened_log(data)
    if opened is not None:
        return log_of(opened, None, PrepareOptions.of(None, chosen or {}))
    before = facts.options.model_dump(include=set(TableOptions.__annotations__)) if facts.options else {}
    options = PrepareOptions.of(None, chosen or before)
    schema = facts.table and _with_lost_tables(facts.table, users=users, items=items)
    if model._score is not None:
        table = as_table(data, model, "the table")
        refuse(clashing_columns(table.columns, model.schema, "the table"))
        data = model._with_score(table).drop(model.scorer.sides.names, strict=False)  # joined again below
    return log_of(data, schema, options)


def _with_lost_tables(schema: TableSchema, **given: Any) -> TableSchema:
    """The schema of a model with tables in place of frames that it did not keep; DataError if a table is missing."""
    lost = {role: table for role, table in given.items() if (side := getattr(schema, role)) and not side.path}
    schema = with_tables(schema, **lost)
    for role in ROLES:
        side = getattr(schema, role)
        if side is None or side.frame is not None:
            continue
        if not side.path or not any(file.is_file() for file in files_at(Path(side.path))):
            place = f"there is none at {side.path}" if side.path else "the model knows none"
            raise DataError(
                f"the events are joined with a table of {role}, and {place}: build a log from the events and their "
                "schema with build_log, and give that"
            )
    return schema


def as_table(data: Any, model: "Resus", where: str) -> Any:
    """A table in memory as a polars frame; a file is read as the schema of the model says."""
    if isinstance(data, str | Path):
        return read_plain(Path(data), model.schema)
    return as_frame(data, where)


def facts_of(log: InteractionLog, data: Any, start: WarmStart | None) -> TrainingLogFacts:
    """What a model remembers about the log that it was trained on."""
    manifest = log.manifest
    on_disk = isinstance(data, str | Path) and opened_log(data) is not None
    return TrainingLogFacts(
        name=log.name,
        hash=log.content_hash,
        path=str(Path(data).resolve()) if on_disk else None,
        table=manifest.table,
        options=manifest.options,
        score=manifest.score,
        warm_start=start.mark if start else None,
        negatives=manifest.negatives,
    )


def _check_written(log: InteractionLog, own_model: ScoreColumn) -> None:
    """A log holds ids instead of raw values, so its scores were written when it was prepared."""
    before = remembered(log.manifest)
    if before is None:
        scoring = advice(python="score_with=", command="--score-with")
        raise ConfigError(
            f"the log '{log.name}' holds no raw columns for {own_model.written_by} to read: prepare the table with "
            f"{scoring}, or fit on the table and its schema"
        )
    before.refuse_another(own_model)


def remembered(facts: TrainingLogFacts | Manifest) -> ScoreColumn | None:
    return ScoreColumn.remembered(facts.score) if facts.score else None
