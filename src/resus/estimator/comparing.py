"""Which models can be compared: those that were trained on the same log, and that share their test users."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from resus.data.log.log import InteractionLog
from resus.errors import ConfigError
from resus.estimator.logs import as_log
from resus.evaluation.evaluate import ComparedModel
from resus.model.predictors import PREDICTORS
from resus.model.predictors.base import Predictor

if TYPE_CHECKING:
    from resus.estimator.resus import Resus


def side_by_side(models: "Mapping[str, Resus]", log: Any) -> "tuple[Resus, InteractionLog, dict[str, ComparedModel]]":
    """The first model, the log and what `evaluate` takes, after checking that all models share their test users."""
    first_name, first = next(iter(models.items()))
    opened = as_log(first._with_score(log), first._fitted().log.table)
    rows: dict[str, ComparedModel] = {}
    predictors: dict[str, Predictor] = {}
    for name, model in models.items():
        check_comparable(first, model, opened, names=(first_name, name))
        if name in ("oracle", "crowd", *(settings.title for settings in PREDICTORS.values())):
            raise ConfigError(f"'{name}' is the name of another row of the results: give the model another name")
        fitted, predictor = model._fitted().model, None
        if model.pretrained is not None:
            predictor = model.config.predictor_name
            if not _same_weights(predictors.setdefault(predictor, fitted.predictor), fitted.predictor):
                predictor = f"{predictor} of {name}"
        rows[name] = ComparedModel(fitted, predictor)
    return first, opened, rows


def check_comparable(
    one: "Resus", other: "Resus", log: InteractionLog, *, names: tuple[str, str] | None = None
) -> None:
    """Two models share their test users only if data, split and seed agree; `names` are their names in tables."""
    own_name, other_name = names or (one.name, other.name)
    for section in ("seed", "split", "evaluation", "protocol"):
        mine, theirs = getattr(one.config, section), getattr(other.config, section)
        if mine != theirs:
            raise ConfigError(
                f"{other_name} has {section} {theirs}, {own_name} has {mine}: compare models of one split"
            )
    for name, model in ((own_name, one), (other_name, other)):
        if model._result and model._result.log.hash != log.content_hash:
            path = model._result.log.path
            raise ConfigError(
                f"{name} was trained on another log than '{log.name}' (the hashes differ), so its test users are "
                f"not the same: use the log that it was trained on{f', as {path} held it then' if path else ''}"
            )


def _same_weights(one: Predictor, other: Predictor) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
