"""Is a new model better than an old one? Both on the same users and queries, with intervals, by stage."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from resus.arrays import Integers
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.data.log.news import News
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ConfigError
from resus.evaluation.evaluate import ComparedModel, scored_models
from resus.evaluation.intervals import DRAWS, check_draws, gains_over
from resus.evaluation.metrics import METRICS
from resus.evaluation.population import staged_results
from resus.evaluation.results import FORMAT, Gain, LogFacts, Record, StageGains, StageMetrics
from resus.files import write_json
from resus.progress import Progress, silent


class Comparison(Record):
    """Two models on `users` users, by stage: the metrics of each, and what the new one gains over the old one.

    `news` holds, for a model of another log, what this log has that the model did not know.
    """

    format: Literal[1] = FORMAT
    log: LogFacts
    old: str
    new: str
    users: int
    draws: int
    sizes: dict[str, list[int]]
    models: dict[str, dict[str, StageMetrics]]
    gains: dict[str, StageGains]
    news: dict[str, News]
    verdict: str

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))


def compare_two(
    old: tuple[str, ComparedModel],
    new: tuple[str, ComparedModel],
    config: Config,
    log: InteractionLog,
    users: Integers,
    *,
    draws: int = DRAWS,
    news: Mapping[str, News] | None = None,
    progress: Progress = silent,
) -> Comparison:
    """The new model minus the old one, on paired draws of users; the settings say sizes and stages."""
    check_draws(draws)
    if not draws:
        raise ConfigError("a comparison needs draws for its intervals: take at least 40")
    names = (old[0], new[0])
    models = {name: ComparedModel(each.model, None, each.log) for name, each in (old, new)}
    ordered, stages = OrderedUsers.of(log, users, config.seed), config.evaluation.stages
    scored = scored_models(models, log, ordered, config.evaluation.sizes, progress=progress)
    for name in scored.logits.keys() - set(names):  # the truth of a planted world
        del scored.logits[name]
    measured = staged_results(scored, stages=stages, base=names[0])
    gains = gains_over(names[0], scored, measured, stages=stages, draws=draws, seed=config.seed, progress=progress)
    found = gains.models[names[1]]
    return Comparison(
        log=LogFacts(name=log.name, hash=log.content_hash, rows=log.n_rows, users=log.n_users),
        old=names[0],
        new=names[1],
        users=len(users),
        draws=draws,
        sizes=stages,
        models={name: measured[name].stages for name in names},
        gains=found,
        news=dict(news or {}),
        verdict=verdict_of(*names, found),
    )


def verdict_of(old: str, new: str, gains: Mapping[str, StageGains]) -> str:
    """One sentence: where the new model is better, where it is worse, and where the users do not tell."""
    better, worse, undecided, few = (" and ".join(_places(gains, each)) for each in ("better", "worse", "open", "few"))
    if better and worse:
        said = f"{new} is better than {old} in {better}, and worse in {worse}"
    elif better:
        said = f"{new} is better than {old} in {better}"
    elif worse:
        said = f"{new} is worse than {old} in {worse}"
    elif undecided:
        return f"No difference between {new} and {old} is certain: every interval includes 0."
    else:
        return f"There are too few users to tell {new} and {old} apart."
    rest = [f"undecided in {undecided}" if undecided else "", f"too few users for {few}" if few else ""]
    return "; ".join(filter(None, [said, *rest])) + "."


def _places(gains: Mapping[str, StageGains], judged: str) -> Iterator[str]:
    """Metrics with the stages in which the gain is judged so, such as 'AUC (I, II)'."""
    for name, metric in METRICS.items():
        held = {stage: each.metrics[name] for stage, each in gains.items() if name in each.metrics}
        stages = [stage for stage, gain in held.items() if _judged(gain, metric.higher_is_better) == judged]
        if stages:
            yield f"{metric.title} ({_listed(stages)})"


def _judged(gain: Gain, higher_is_better: bool) -> str:
    if gain.low is None or gain.high is None or gain.difference is None:
        return "few"
    if not gain.is_certain:
        return "open"
    return "better" if (gain.difference > 0) == higher_is_better else "worse"


def _listed(stages: Sequence[str]) -> str:
    return ", ".join(stages)
