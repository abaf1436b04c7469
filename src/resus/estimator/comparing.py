"""Models side by side on one log: each reads it by its own vocabulary, on users that none of them was trained on."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from resus.arrays import Integers
from resus.data.log.known_users import Met, Users
from resus.data.log.log import InteractionLog
from resus.data.log.news import News
from resus.data.log.recoded import recoded
from resus.data.split import Population
from resus.errors import ArtifactError, ConfigError, DataError
from resus.estimator.logs import log_as_learned
from resus.evaluation.evaluate import ComparedModel, Part
from resus.model.predictors import PREDICTORS
from resus.model.predictors.base import Predictor
from resus.wording import advice

if TYPE_CHECKING:
    from resus.estimator.resus import Resus

_SAME_TEST_USERS = ("seed", "split")  # settings that draw them
_SAME_MEASURE = ("evaluation", "protocol")


@dataclass(frozen=True, eq=False)
class SideBySide:
    """What `evaluate` takes, and what the log holds that models of other logs did not know."""

    first: "Resus"
    log: InteractionLog
    rows: dict[str, ComparedModel]
    population: Population
    news: dict[str, News]


def side_by_side(
    models: "Mapping[str, Resus]",
    log: Any,
    options: Mapping[str, Any] | None = None,
    *,
    users: Users = "unseen",
    part: Part = "test",
    one_split: bool = True,
) -> SideBySide:
    """Each model with the log as it reads it.

    `options` are those with which a table is read. Users are those `unseen` by every model in training and validation;
    or those `new` to all, which no log of a model had; or `all`. Models of this very log must share their test users,
    if `one_split` says so.
    """
    first_name, first = next(iter(models.items()))
    opened = log_as_learned(first, log, options)
    rows: dict[str, ComparedModel] = {}
    predictors: dict[str, Predictor] = {}
    met: dict[str, Met] = {}
    news: dict[str, News] = {}
    for name, model in models.items():
        check_comparable(first, model, opened, names=(first_name, name), one_split=one_split)
        if name in ("oracle", "crowd", *(settings.title for settings in PREDICTORS.values())):
            raise ConfigError(f"'{name}' is the name of another row of the results: give the model another name")
        fitted, predictor = model._fitted(), None
        if model.pretrained is not None:
            predictor = model.config.predictor_name
            if not _same_weights(predictors.setdefault(predictor, fitted.model.predictor), fitted.model.predictor):
                predictor = f"{predictor} of {name}"
        met[name] = met_by(model, opened)
        if fitted.log.hash != opened.content_hash:
            news[name] = News.of(opened, fitted.features, met[name])
        rows[name] = ComparedModel(fitted.model, predictor, recoded(opened, fitted.features))
    population = Population(
        validation=np.flatnonzero(np.all([one.validation & ~one.train for one in met.values()], axis=0)),
        test=_chosen(list(met.values()), users),
    )
    if not len(getattr(population, part)):
        raise _nobody(opened, part, users, len(models))
    return SideBySide(first, opened, rows, population, news)


def check_rivals(beside: SideBySide, models: "Mapping[str, Resus]", rivals: Collection[str]) -> None:
    """Refuse rivals that may know the users they are measured on, or that have the name of another curve."""
    if rivals and (beside.news or any(model._fitted().log.warm_start for model in models.values())):
        raise ConfigError(
            "a run was trained on another log, or started warm, so a rival that is trained now may know the users "
            f"it is measured on: leave the rivals out{advice(python='', command=' (--rivals none)')}"
        )
    rows = beside.rows
    taken = {*rows, *(compared.predictor for compared in rows.values()), "oracle", "crowd"}
    for name in rivals:
        if name in taken:
            raise ConfigError(
                f"two curves are named '{name}': leave that rival out, a run or its shared model has the same name"
            )


def met_by(model: "Resus", log: InteractionLog) -> Met:
    """Which users of a log a model has met."""
    fitted = model._fitted()
    if fitted.users is not None:
        return fitted.users.among(log)
    if fitted.log.hash == log.content_hash:
        return Met.of_split(model.config.user_split(log.n_users), log.n_users)
    raise ArtifactError(
        f"this model does not say which users it was trained on, so it cannot be measured on '{log.name}', another log "
        "than that of its training: load the folder that 'resus train' made, not an export of it"
    )


def check_comparable(
    one: "Resus",
    other: "Resus",
    log: InteractionLog,
    *,
    names: tuple[str, str] | None = None,
    one_split: bool = True,
) -> None:
    """Two models of one log share their test users only if split and seed agree; `names` are their names in tables."""
    own_name, other_name = names or (one.name, other.name)
    of_this_log = all(not each._result or each._result.log.hash == log.content_hash for each in (one, other))
    started = any(each._result and each._result.log.warm_start for each in (one, other))
    for section in (*(_SAME_TEST_USERS if one_split and of_this_log and not started else ()), *_SAME_MEASURE):
        mine, theirs = getattr(one.config, section), getattr(other.config, section)
        if mine != theirs:
            raise ConfigError(
                f"{other_name} has {section} {theirs}, {own_name} has {mine}: compare models of one "
                f"{'split' if section in _SAME_TEST_USERS else section}"
            )


def check_same_log(model: "Resus", log: InteractionLog) -> None:
    """Refuse a log on which the model was not trained."""
    facts = model._fitted().log
    if facts.hash != log.content_hash:
        raise ConfigError(
            f"{model.name} was trained on another log than '{log.name}' (the hashes differ): use the log that it was "
            f"trained on{f', as {facts.path} held it then' if facts.path else ''}"
        )


def _chosen(met: list[Met], users: Users) -> Integers:
    if users == "all":
        return np.arange(len(met[0].train))
    return np.flatnonzero(np.all([one.new if users == "new" else one.unseen for one in met], axis=0))


def _nobody(log: InteractionLog, part: str, users: Users, models: int) -> DataError:
    whom = "the model" if models == 1 else "a model"
    if part == "validation":
        return DataError(f"no user of '{log.name}' was a validation user of every model: measure test users instead")
    known = "was in the log of" if users == "new" else "trained or validated"
    return DataError(
        f"every one of the {log.n_users:,} users of '{log.name}' {known} {whom}: give a log with other users, or ask "
        f"for other users ({advice(python='users=', command='--users')})"
    )


def _same_weights(one: Predictor, other: Predictor) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
