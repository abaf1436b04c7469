"""Several models on the same test users: one forward pass each, then every metric at every support size."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from resus.arrays import Floats
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.data.log.news import News
from resus.data.split import Population, UserSplit
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ConfigError
from resus.evaluation.coverage import LEVEL, coverage_of
from resus.evaluation.intervals import DRAWS, check_draws, gains_over
from resus.evaluation.population import ScoredQueries, staged_results
from resus.evaluation.results import Coverage, LogFacts, Results
from resus.evaluation.wrong_way import wrong_way_of
from resus.model.personalizer import Personalizer
from resus.progress import Progress, silent


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """A model, and what tables call its predictor; None if the predictor is not a model by itself.

    `log` is the evaluated log as this model reads it, if its vocabulary is another one.
    """

    model: Personalizer
    predictor: str | None
    log: InteractionLog | None = None


Part = Literal["test", "validation"]


def evaluate(
    models: Mapping[str, ComparedModel],
    config: Config,
    log: InteractionLog,
    split: UserSplit | Population,
    *,
    part: Part = "test",
    base: str | None = None,
    draws: int = DRAWS,
    news: Mapping[str, News] | None = None,
    progress: Progress = silent,
) -> Results:
    """Results of each model and of its Ψ, by name. `news` is what the log holds that a model did not know, if any.

    Models are compared with `base`: by default the first Ψ, or the first model if none has a Ψ. `draws` is the number
    of draws of users for the intervals of the gains. With 0 there are no gains, and no coverage of posteriors.
    """
    check_draws(draws)
    names = [compared.predictor for compared in models.values() if compared.predictor is not None]
    names += [*models, *(["oracle", "crowd"] if log.truth is not None else [])]
    if base is not None and base not in names:
        raise ConfigError(f"no model '{base}' to compare with: choose from {', '.join(dict.fromkeys(names))}")
    ordered = OrderedUsers.of(log, getattr(split, part), config.seed)
    scored = scored_models(models, log, ordered, config.evaluation.sizes, progress=progress)
    base = base or names[0]
    oracle, crowd = (name if name in scored.logits else None for name in ("oracle", "crowd"))
    progress("measuring", 0, None)
    measured = staged_results(scored, stages=config.evaluation.stages, base=base, oracle=oracle, crowd=crowd)
    progress("measuring", len(scored.logits), len(scored.logits))
    gains, covered, stages = None, {}, config.evaluation.stages
    if draws and len(measured) > 1:
        gains = gains_over(base, scored, measured, stages=stages, draws=draws, seed=config.seed, progress=progress)
    for name in posteriors_among(models) if draws else ():
        model, psi, read = models[name].model, models[name].predictor, models[name].log or log
        covered[name] = coverage_of(name, model, read, ordered, scored, predictor=psi, stages=stages, progress=progress)
    return Results(
        log=log_facts(log),
        protocol=config.protocol,
        seed=config.seed,
        part=part,
        base=base,
        oracle=oracle,
        crowd=crowd,
        sizes=list(scored.sizes),
        stages=stages,
        models=measured,
        gains=gains,
        coverage=Coverage(level=LEVEL, models=covered) if covered else None,
        wrong_way={name: found for name in models if (found := wrong_way_of(name, scored)) is not None},
        tuned_on_validation=posteriors_among(models),
        news=dict(news or {}),
    )


def log_facts(log: InteractionLog) -> LogFacts:
    drawn = log.manifest.negatives
    said = drawn.sentence if drawn is not None else ""
    return LogFacts(name=log.name, hash=log.content_hash, rows=log.n_rows, users=log.n_users, negatives=said)


def scored_models(
    models: Mapping[str, ComparedModel],
    log: InteractionLog,
    ordered: OrderedUsers,
    sizes: tuple[int, ...],
    *,
    progress: Progress = silent,
) -> ScoredQueries:
    """The logits of each model at every size, of its Ψ, and of the truth in a planted world."""
    scored = ScoredQueries(
        labels=log.labels[ordered.rows],
        users=np.repeat(ordered.users, ordered.lengths),
        positions=ordered.positions,
        sizes=sizes,
        logits={},
    )
    for name, compared in models.items():
        model, read = compared.model, compared.log or log
        basis = model.predictor.logits_of_rows(read, ordered.rows, progress=progress, task=f"{name}: basis logits")
        if compared.predictor is not None:
            scored.logits.setdefault(compared.predictor, basis[:, None])
        task = f"{name}: every support size"
        scored.logits[name] = model.score_prefixes(read, ordered, sizes, basis=basis, progress=progress, task=task)
    for name, truth in {"oracle": log.truth, "crowd": log.crowd}.items():
        if truth is not None:
            scored.logits[name] = _logit(truth[ordered.rows])[:, None]
    return scored


def posteriors_among(models: Mapping[str, ComparedModel]) -> list[str]:
    """The models that give intervals; they learned their scales from validation users."""
    return [name for name, compared in models.items() if compared.model.learner.has_posterior]


def _logit(probability: Floats) -> Floats:
    wide = probability.astype(np.float64).clip(1e-7, 1 - 1e-7)
    logits: Floats = (np.log(wide) - np.log1p(-wide)).astype(np.float32)
    return logits
