"""The warm-up curve: the same queries scored with more and more events of the user, from none to hundreds."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from resus.arrays import Floats, Integers
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.data.split import Population, UserSplit
from resus.episodes.prefixes import OrderedUsers
from resus.errors import DataError
from resus.evaluation.evaluate import ComparedModel, Part, log_facts, posteriors_among, scored_models
from resus.evaluation.population import Yardsticks, fixed_population
from resus.evaluation.results import WarmUp
from resus.progress import Progress, silent

FEWEST_USERS = 30  # a curve of fewer users is noise
ROUND_SIZES = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000)


class Rival(Protocol):
    """Another method to draw next to the models."""

    @property
    def tuned_on_validation(self) -> bool:
        """Whether it learned scales from validation users."""

    def __call__(self, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        """`[N, len(sizes)]` logits. Column j of a row uses the first sizes[j] events of its user."""


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """0, then round numbers that grow by about a half, then `largest`."""
    return (0, *(size for size in ROUND_SIZES if size < largest), largest)


def largest_size(lengths: Integers, up_to: int) -> int | None:
    """`up_to`, or the largest round size below it that enough users exceed; None if there is none."""
    for size in reversed(sizes_up_to(up_to)[1:]):
        if (lengths > size).sum() >= FEWEST_USERS:
            return size
    return None


def warm_up(
    models: Mapping[str, ComparedModel],
    config: Config,
    log: InteractionLog,
    split: UserSplit | Population,
    *,
    up_to: int,
    trained_up_to: Mapping[str, int],
    rivals: Mapping[str, Rival] | None = None,
    part: Part = "test",
    progress: Progress = silent,
) -> WarmUp:
    """`models` are those of `evaluate`, `rivals` are by name. Each is asked for scores once."""
    everyone = OrderedUsers.of(log, getattr(split, part), config.seed)
    largest = largest_size(everyone.lengths, up_to)
    if largest is None:
        raise DataError(
            f"a warm-up curve needs {FEWEST_USERS} {part} users with more than one event, and log '{log.name}' has "
            f"{(everyone.lengths > 1).sum()}: use a larger log, or train with a larger {part} part (split.ratios)"
        )
    ordered = everyone.part(everyone.lengths > largest)
    sizes = sizes_up_to(largest)
    scored = scored_models(models, log, ordered, sizes, progress=progress)
    for name, scores in (rivals or {}).items():
        scored.logits[name] = scores(ordered, sizes)
    base = next((one.predictor for one in models.values() if one.predictor is not None), next(iter(models)))
    oracle, crowd = (name if name in scored.logits else None for name in ("oracle", "crowd"))
    progress("measuring", 0, None)
    measured = fixed_population(scored, Yardsticks(base, oracle, crowd))
    progress("measuring", len(measured), len(measured))
    return WarmUp(
        log=log_facts(log),
        protocol=config.protocol,
        seed=config.seed,
        part=part,
        base=base,
        oracle=oracle,
        crowd=crowd,
        asked_up_to=up_to,
        users_beyond_asked=int((everyone.lengths > up_to).sum()),
        trained_up_to=dict(trained_up_to),
        sizes=list(sizes),
        models=measured,
        tuned_on_validation=[
            *posteriors_among(models),
            *(name for name, rival in (rivals or {}).items() if rival.tuned_on_validation),
        ],
    )
