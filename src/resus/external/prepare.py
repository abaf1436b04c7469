"""`resus.prepare`: a data set or a table becomes a log on disk, with the scores of a model if one is given."""

from pathlib import Path
from typing import Any, Unpack

from resus.data.given import Data, log_of, opened_log
from resus.data.log.log import InteractionLog
from resus.data.options import PrepareArguments, PrepareOptions
from resus.data.prepare import prepare_log, write_streamed
from resus.data.schema import SchemaLike, TableSchema
from resus.data.sources import stream_events
from resus.data.stream.blocks import is_stream
from resus.errors import ConfigError
from resus.external.score_column import SCORE, ScoreColumn
from resus.progress import Progress, silent


def prepare(
    source: Data,
    out: Path | str,
    *,
    path: Path | str | None = None,
    schema: SchemaLike | None = None,
    options: PrepareOptions | None = None,
    progress: Progress | None = None,
    score_with: Any = None,
    score_column: str = SCORE,
    **chosen: Unpack[PrepareArguments],
) -> InteractionLog:
    """Write the log of `source` to the folder `out`, and open it memory-mapped.

    `source` is a data set's name, a path, a polars or pandas frame, an Arrow table, a mapping of arrays, or a log that
    is in memory. A polars LazyFrame, an Arrow reader or a DuckDB relation is streamed, so it may be larger than memory.
    `path` is where the files of a published data set are; without it, they are downloaded. `schema` is a
    path, a mapping or a `TableSchema`. Options are given one by one, such as `duplicates="first"`, or as `options`.
    `score_with` is a model of your own: a file, an estimator with `predict_proba`, or a function from a polars frame to
    logits. Its scores become the field `score_column`, for `predictor="logits:model_score"`. If the same log of a file
    exists already, it is opened, unless the model is not a file.
    """
    wanted = PrepareOptions.of(options, chosen)
    model = Path(score_with) if isinstance(score_with, str) else score_with
    writer = None if model is None else ScoreColumn.of(model, score_column)
    if isinstance(source, str | Path) and opened_log(source) is None:
        return prepare_log(
            str(source),
            Path(out),
            path=None if path is None else Path(path),
            schema=schema,
            options=wanted,
            progress=progress,
            writer=writer,
        )
    if is_stream(source) and schema is not None and writer is None and path is None:
        events = stream_events(source, TableSchema.of(schema), wanted)
        if events is not None:
            return write_streamed(events, wanted, Path(out), progress or silent)
    if path is not None:
        raise ConfigError("'path' is for the files of a published data set, and a table is given: leave it out")
    if writer is not None and opened_log(source) is not None:
        raise ConfigError("a log holds no raw columns for a model to read: give the table, or leave score_with out")
    return log_of(source, schema, wanted, writer=writer).save(Path(out))
