"""Check that a column of a log can be the shared model, and warn if it looks wrong."""

import warnings

import numpy as np

from resus.arrays import Integers
from resus.data.log.column_files import BLOCK_ROWS
from resus.data.log.log import InteractionLog
from resus.episodes.tensors import features_of
from resus.errors import ConfigError, DataError, ResusWarning, RowError
from resus.evaluation.metrics import auc
from resus.model.predictors.external import ExternalPredictor
from resus.model.predictors.settings import ExternalSettings, PredictorSettings

TOO_GOOD = 0.99  # no model has such an AUC on labels that it was not trained on
ENOUGH_ROWS = 1 << 20  # to see this


def check_own_model(settings: PredictorSettings, log: InteractionLog) -> None:
    """Refuse a column that is the label or the user, or that lacks a logit or a probability in some row."""
    chosen = ExternalSettings.of(settings)
    roles = log.manifest.get("schema") or {}
    for role, meaning in (("label", "the label"), ("user", "the user's id")):
        if chosen.column == roles.get(role):
            raise ConfigError(
                f"the predictor '{chosen.scale}:{chosen.column}' names {meaning}, which the shared model must not "
                "see: name the column that holds the scores of your model"
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
    """Warn if the scores of these users look like probabilities instead of logits, or like copies of the labels."""
    chosen = ExternalSettings.of(settings)
    predictor = ExternalPredictor(log.features, column=chosen.column, scale=chosen.scale)
    rows = log.rows_of(users)[:ENOUGH_ROWS]
    said = predictor.logits_of_rows(log, rows)
    wrote = log.manifest.get("score") or {}
    if chosen.scale == "logits" and not wrote.get("sha256") and said.min() >= 0 and said.max() <= 1:
        use = f"let {wrote['written_by']} give logits" if wrote else f"use probabilities:{chosen.column}"
        _warn(f"all values of '{chosen.column}' lie between 0 and 1: if they are probabilities, {use}")
    reached = auc(log.labels[rows], said)
    if reached > TOO_GOOD:
        _warn(
            f"'{chosen.column}' has an AUC of {reached:.4f} on training users: a model that was fitted on these rows "
            "knows their labels, and gains over it mean nothing"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, ResusWarning, stacklevel=2)
