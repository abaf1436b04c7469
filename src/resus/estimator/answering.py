"""Scores of tables, files and logs, for `Resus.predict`."""

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from resus.data.fields.unknown import never_seen, warn
from resus.data.given import opened_log
from resus.data.log.log import InteractionLog
from resus.data.readers.frames import like
from resus.episodes.batch import Features
from resus.errors import ConfigError
from resus.estimator.logs import as_table
from resus.scoring.answers import answer
from resus.scoring.blocks import FrameBlocks
from resus.scoring.explanations import explained
from resus.scoring.scorer import QUERY, SUPPORT, Scorer
from resus.scoring.support_index import SupportIndex

if TYPE_CHECKING:
    from resus.estimator.resus import Resus


def answered(model: "Resus", scorer: Scorer, support: Any, query: Any, *, explain: bool) -> Any:
    """One row per row of the query, in the kind of table that it is; for a file or a log it is a polars frame."""
    known, asked = opened_log(support), opened_log(query)
    user = model.schema.user
    if known is None and asked is None:
        events, frame = as_table(support, model, SUPPORT), as_table(query, model, QUERY)
        warn(scorer.notices({SUPPORT: FrameBlocks(events), QUERY: FrameBlocks(frame)}))
        found, unknown = scorer.predict(events, frame)
        warn(never_seen(scorer.unknown_in(events), events.height, SUPPORT))
        warn(never_seen(unknown, frame.height, QUERY))
        reasons = explained(scorer, events, frame) if explain else {}
        return like(query, pl.DataFrame({user: frame[user], **found.columns, **reasons}))
    if explain:
        raise ConfigError("a log holds ids instead of raw values, which no reason can name: give tables to explain")
    if known is not None:
        _check_features(model, known)
        index = SupportIndex.of(_users_of(known), known.ids, known.weights, known.labels)
    else:
        events = as_table(support, model, SUPPORT)
        warn(scorer.notices({SUPPORT: FrameBlocks(events)}))
        index = scorer.index(events)
        warn(never_seen(scorer.unknown_in(events), events.height, SUPPORT))
    if asked is not None:
        _check_features(model, asked)
        users = _users_of(asked)
        scores = answer(scorer.model, index, users, Features.of(asked.ids, asked.weights), scorer.negatives)
        return pl.DataFrame({user: users, **scores.columns})
    frame = as_table(query, model, QUERY)
    warn(scorer.notices({QUERY: FrameBlocks(frame)}))
    scores, unknown = scorer.answer(index, frame)
    warn(never_seen(unknown, frame.height, QUERY))
    return like(query, pl.DataFrame({user: frame[user], **scores.columns}))


def _users_of(log: InteractionLog) -> pl.Series:
    """The user of each row, as text."""
    names = pl.Series("user", log.user_ids, dtype=pl.String)
    return names.gather(np.repeat(np.arange(log.n_users), log.lengths))


def _check_features(model: "Resus", log: InteractionLog) -> None:
    if log.features.to_json() != model._fitted().features.to_json():
        raise ConfigError(
            f"the log '{log.name}' numbers its values in another way than the model does: give the table that it was "
            "built from"
        )
