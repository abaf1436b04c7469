"""Checks and warnings for a log whose shared model is a column of scores."""

import warnings

import numpy as np

from resus.arrays import Integers
from resus.data.log.column_files import BLOCK_ROWS
from resus.data.log.log import InteractionLog
from resus.episodes.batch import features_of
from resus.errors import ConfigError, DataError, ResusWarning, RowError
from resus.evaluation.metrics import auc
from resus.model.predictors import ExternalSettings, PredictorSettings
from resus.model.predictors.external import ExternalPredictor

TOO_GOOD = 0.99  # a higher AUC on clicks means that the model knows the labels
ENOUGH_ROWS = 1 << 20  # rows to check


def check_own_model(settings: PredictorSettings, log: InteractionLog) -> None:
    """Refuse a column that is the label or the user, or that lacks a valid score in some row."""
    chosen = ExternalSettings.of(settings)
    table = log.manifest.table
    for role, meaning in ((table.label, "the label"), (table.user, "the user's id")) if table else ():
        if chosen.column == role:
            raise ConfigError(
                f"the predictor '{chosen.scale}:{chosen.column}' is {meaning}, which no model may see: name the "
                "column with the scores of your model"
            )
    drawn = log.manifest.negatives
    if drawn is not None and chosen.column not in drawn.item_fields:
        raise ConfigError(
            f"the negatives of the log '{log.name}' were drawn, so they have no score of their own in "
            f"'{chosen.column}': write negatives as rows of label 0 with their scores yourself, and leave negatives out"
        )
    predictor = ExternalPredictor(log.features, column=chosen.column, scale=chosen.scale)
    for start in range(0, log.n_rows, BLOCK_ROWS):
        try:
            predictor.check(features_of(log, np.arange(start, min(start + BLOCK_ROWS, log.n_rows))))
        except RowError as bad:
            user = int(log.owners_of(np.array([start + bad.row]))[0])
            row = start + bad.row - int(log.offsets[user]) + 1
            raise DataError(
                f"the log '{log.name}', row {row} of user {log.user_ids[user].as_py()!r}, column '{bad.column}': "
                f"{bad.what}; {bad.fix}"
            ) from None


def warn_of_own_model(settings: PredictorSettings, log: InteractionLog, users: Integers) -> None:
    """Warn if logits look like probabilities, or if the model seems to know the labels of these users."""
    chosen = ExternalSettings.of(settings)
    predictor = ExternalPredictor(log.features, column=chosen.column, scale=chosen.scale)
    rows = log.rows_of(users)[:ENOUGH_ROWS]
    said = predictor.logits_of_rows(log, rows)
    wrote = log.manifest.score
    if chosen.scale == "logits" and not (wrote and wrote.sha256) and said.min() >= 0 and said.max() <= 1:
        use = f"let {wrote.written_by} give logits" if wrote else f"use probabilities:{chosen.column}"
        _warn(f"all values of '{chosen.column}' lie between 0 and 1: if they are probabilities, {use}")
    reached = auc(log.labels[rows], said)
    if reached > TOO_GOOD:
        _warn(
            f"'{chosen.column}' has an AUC of {reached:.4f} on training users: a model that was fitted on the same "
            "rows knows their labels, and the gains over it mean nothing"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, ResusWarning, stacklevel=2)
