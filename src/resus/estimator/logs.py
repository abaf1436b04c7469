"""What `fit` and `evaluate` take as data: a log, its folder, or a table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from resus.artifact import TrainingLogFacts
from resus.checking import checked
from resus.data.build import assemble_log, build_log
from resus.data.log.log import InteractionLog
from resus.data.log.manifest import Manifest
from resus.data.options import BuildOptions
from resus.data.problems import refuse
from resus.data.readers.delimited import FileRows
from resus.data.readers.frames import as_frame
from resus.data.readers.tables import joined_table
from resus.data.schema import TableSchema
from resus.errors import ConfigError, DataError
from resus.external.score_column import ScoreColumn


def as_log(
    log: Any, schema: TableSchema | Mapping[str, Any] | None, own_model: ScoreColumn | None = None
) -> InteractionLog:
    """Open a log, or build one from a table, to which the user's own model adds its column."""
    if isinstance(log, InteractionLog | str | Path):
        opened = log if isinstance(log, InteractionLog) else InteractionLog.open(log)
        if own_model is not None:
            _check_written(opened, own_model)
        return opened
    if schema is None:
        raise DataError(
            "fit was given a table without a schema: pass schema={'user': …, 'item': …, 'label': …, 'fields': {…}}"
        )
    roles = schema if isinstance(schema, TableSchema) else checked(TableSchema, schema)
    if own_model is None:
        return build_log(log, roles)
    events = FileRows("the table", as_frame(log), None, ())
    table = own_model.on_table(joined_table("log", roles, events))
    options = BuildOptions()
    refuse(table.check(options))
    built = assemble_log(table, options)
    return replace(built, manifest=built.manifest.model_copy(update={"score": own_model.facts}))


def _check_written(log: InteractionLog, own_model: ScoreColumn) -> None:
    """A log holds ids instead of raw values, so its scores were written when it was prepared."""
    before = remembered(log.manifest)
    if before is None:
        raise ConfigError(
            f"the log '{log.name}' holds no raw columns for {own_model.written_by} to read: prepare the table with "
            "--score-with, or fit on the table and its schema"
        )
    before.refuse_another(own_model)


def remembered(facts: TrainingLogFacts | Manifest) -> ScoreColumn | None:
    return ScoreColumn.remembered(facts.score) if facts.score else None
