"""`resus.prepare`: a data set or a table becomes a log, with the scores of a model if one is given."""

from pathlib import Path
from typing import Any

from resus.data.log.log import InteractionLog
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log
from resus.external.score_column import SCORE, ScoreColumn
from resus.progress import Progress


def prepare(
    source: Path | str,
    out: Path | str,
    *,
    path: Path | str | None = None,
    schema: Path | str | None = None,
    options: PrepareOptions | None = None,
    progress: Progress | None = None,
    score_with: Any = None,
    score_column: str = SCORE,
) -> InteractionLog:
    """Write the log of `source`, a data set's name or a path, to the folder `out`, and open it memory-mapped.

    `path` is where the files of a published data set are; without it, they are downloaded. `score_with` is a model of
    your own: a file, an estimator with `predict_proba`, or a function from a polars frame to logits. Its scores become
    the field `score_column`, for `predictor="logits:model_score"`. If the same log exists already, it is opened, unless
    the model is not a file.
    """
    model = Path(score_with) if isinstance(score_with, str) else score_with
    return prepare_log(
        str(source),
        Path(out),
        path=None if path is None else Path(path),
        schema=None if schema is None else Path(schema),
        options=options,
        progress=progress,
        writer=None if model is None else ScoreColumn.of(model, score_column),
    )
