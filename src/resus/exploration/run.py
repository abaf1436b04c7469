"""`resus explore` as functions: a simulation in a planted world, and a replay of a log with propensities."""

from pathlib import Path

from resus.data.datasets.planted import PlantedWorld, draw_world
from resus.data.fields.unknown import warn
from resus.data.log.log import InteractionLog
from resus.errors import ConfigError, DataError
from resus.estimator import Resus
from resus.estimator.logs import as_table, log_as_learned
from resus.evaluation.intervals import check_draws
from resus.exploration.decisions import read_decisions
from resus.exploration.estimators import estimates_of
from resus.exploration.followed import RULES, plus_learner_of
from resus.exploration.outcome import ReplayedLog, Simulated, replayed, simulated
from resus.exploration.replay import replay
from resus.exploration.simulated_users import EncodedWorld, SimulatedUsers
from resus.exploration.simulation import simulate
from resus.progress import Progress, silent
from resus.serving.catalogue import Catalogue
from resus.wording import advice

DRAWS_OF_RULE = 200  # behind the probabilities of Thompson sampling in a replay


def explore_world(
    log: Path,
    model: Resus,
    *,
    users: int,
    events: int,
    width: float,
    seed: int,
    draws: int,
    progress: Progress = silent,
) -> Simulated:
    """Let each rule show items to new users of the planted world from which this log was drawn."""
    world = checked_world(log, events=events, draws=draws)
    trained = model.scorer
    plus_learner_of(trained.model, model.name)
    opened = InteractionLog.open(log)
    if opened.features.to_json() != trained.features.to_json():
        raise ConfigError(f"the model was not trained on {log}: train one with 'resus train {log}'")
    hidden = draw_world(world)
    drawn = SimulatedUsers.drawn(world, hidden, users=users, events=events, seed=seed)
    encoded = EncodedWorld.of(trained.model.on_cpu(), trained.features, hidden)
    course = simulate(
        trained.model.on_cpu(), model.name, drawn, encoded, RULES, width=width, seed=seed, progress=progress
    )
    facts = {"model": model.name, "world": world.model_dump(), "width": width}
    return simulated(course, draws=draws, seed=seed, **facts)


def checked_world(log: Path, *, events: int, draws: int) -> PlantedWorld:
    """The world from which a log was drawn, if so many events of a user can be simulated in it."""
    _check(draws)
    made_from = InteractionLog.open(log).manifest.world
    if made_from is None:
        raise ConfigError(
            f"{log} is not planted, so nobody knows what its users would have liked: use planted, or a table of "
            f"choices with the column of their probabilities ({advice(python='propensity=', command='--propensity')})"
        )
    world = PlantedWorld(**made_from)
    if events > world.items:
        raise ConfigError(f"{events} events need as many items, and the world has {world.items}: ask for fewer events")
    return world


def replay_table(
    table: Path,
    model: Resus,
    log: Path,
    *,
    propensity: str,
    candidates: str | None,
    events: int,
    width: float,
    seed: int,
    draws: int,
    progress: Progress = silent,
) -> ReplayedLog:
    """Estimate what each rule would have earned on logged decisions. `log` is that of the training, with the items."""
    _check(draws)
    trained, met = model.scorer, model._fitted().users
    plus_learner_of(trained.model, model.name)
    if trained.negatives is not None:
        raise ConfigError(
            f"{model.name} learned from drawn negatives, so its labels are not the rewards of choices: train on logged "
            "choices with both labels"
        )
    items = log_as_learned(model, log)
    catalogue = Catalogue.of(items, model.config.user_split(items.n_users))
    read = as_table(table, model, str(table))
    if not read.height:
        raise DataError(f"{table} has no rows: give logged decisions")
    decisions = read_decisions(
        read, trained, catalogue, propensity=propensity, candidates=candidates, events=events, where=str(table)
    )
    learned = met.learned_from(decisions.users) if met else 0
    if learned:
        warn(
            [
                f"the model was trained or validated on {learned:,} of the {len(decisions.users):,} users of {table}, "
                "so its rules look better than they are: leave these users out"
            ]
        )
    found = replay(
        trained.model.on_cpu(),
        model.name,
        decisions,
        catalogue,
        RULES,
        width=width,
        draws=DRAWS_OF_RULE,
        seed=seed,
        progress=progress,
    )
    estimates = {rule: estimates_of(own, found.logged, draws=draws, seed=seed) for rule, own in found.rules.items()}
    facts = {"model": model.name, "table": str(table), "width": width, "seed": seed, "draws": draws}
    return replayed(estimates, (found.logged.users, found.logged.reward), **facts)


def _check(draws: int) -> None:
    check_draws(draws)
    if not draws:
        raise ConfigError("0 draws give no interval: take at least 40")
