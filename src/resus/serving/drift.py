"""How far the scores that are served have moved from those of the validation users.

An export keeps how the basis and the residual of validation users are spread, each event scored after the events
before it. The residual grows with the number of events, so it is compared within each stage. The measure is the
population stability index over the bins of the reference, Σ (p − q)·ln(p / q), less what chance alone would give.
Below 0.1 the scores are alike, above 0.25 they are not.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, ValidationError

from resus.arrays import Doubles, Integers
from resus.checked_folder import CheckedFolder
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.errors import ArtifactError
from resus.files import write_text
from resus.model.inference.model import Inference
from resus.model.inference.parts import Rows
from resus.randomness import Purpose, generator
from resus.serving.messages import Message

REFERENCE = "reference.json"
BASIS, RESIDUAL = "basis", "residual"
ALL = "all"
BINS = 10
MAX_USERS, MAX_EVENTS = 300, 60  # whose events are scored for a reference
FEWEST = 50  # scores of a reference; fewer say too little
REFERENCE_BYTES = 1 << 20
Place = tuple[str, str, int]  # basis or residual, the stage, and the bin


class Spread(Message):
    """`edges` are quantiles of the scores in ascending order, `shares` what lies below, between and above them."""

    edges: list[float]
    shares: list[float]
    count: int = Field(ge=1)  # of scores

    @classmethod
    def of(cls, scores: Doubles) -> "Spread":
        edges = np.unique(np.quantile(scores, np.arange(1, BINS) / BINS))
        counts = np.bincount(np.searchsorted(edges, scores), minlength=len(edges) + 1)
        return cls(edges=edges.tolist(), shares=(counts / len(scores)).tolist(), count=len(scores))


class Reference(Message):
    """The spreads by stage. The basis does not depend on the user's events, so it has one for all: `ALL`."""

    format: Literal[1] = 1
    spreads: dict[str, dict[str, Spread]]  # by basis or residual, and by stage

    @classmethod
    def of(
        cls, model: Inference, config: Config, log: InteractionLog, users: Integers, *, seed: int
    ) -> "Reference | None":
        """From the events of some of these users; None if there are too few."""
        basis: list[float] = []
        residuals: dict[str, list[float]] = {}
        stages = largest_of_stages(config)
        for rows in _events_of(log, users, seed):
            live = model.live_support()
            events = Rows(log.ids[rows], None if log.weights is None else log.weights[rows])
            crowd, encoded = model.encode(events)
            for known, label in enumerate(log.labels[rows].tolist()):
                one = crowd[known : known + 1], encoded[known : known + 1]
                scores = live.score_encoded(*one, deviation=False)
                basis.append(float(scores.basis[0]))
                residuals.setdefault(stage_of(known, stages), []).append(float(scores.residual[0]))
                live.insert(known, events.one(known), label, encoded=one)
        found = {BASIS: {ALL: basis}, RESIDUAL: residuals}
        if len(basis) < FEWEST or not np.isfinite(basis).all():
            return None
        spreads = {
            what: {stage: Spread.of(np.array(scores)) for stage, scores in by_stage.items() if len(scores) >= FEWEST}
            for what, by_stage in found.items()
        }
        return cls(spreads=spreads)

    def save(self, folder: Path) -> None:
        """Write one file. `write_facts` must then list it."""
        write_text(folder / REFERENCE, self.model_dump_json() + "\n")

    @classmethod
    def load(cls, folder: CheckedFolder) -> "Reference":
        try:
            return cls.model_validate_json(folder.read(REFERENCE, limit=REFERENCE_BYTES))
        except ValidationError:
            path = folder.path / REFERENCE
            raise ArtifactError(f"{path} is not a reference of scores: make it again with 'resus export'") from None

    def places(self, basis: float, residual: float, stage: str) -> list[Place]:
        """The bins into which a score falls."""
        given = ((BASIS, ALL, basis), (RESIDUAL, stage, residual))
        return [
            (what, of, bisect_left(spread.edges, value))
            for what, of, value in given
            if (spread := self.spreads.get(what, {}).get(of)) is not None
        ]

    def drift(self, counts: Mapping[Place, float]) -> dict[str, float]:
        """By basis and residual, how far the counted scores are from the reference; of a mix of stages the mean."""
        found = {}
        for what, by_stage in self.spreads.items():
            seen = {
                of: [counts.get((what, of, place), 0.0) for place in range(len(spread.shares))]
                for of, spread in by_stage.items()
            }
            total = sum(map(sum, seen.values()))
            if total:
                parts = (sum(seen[of]) * _beyond_chance(spread, seen[of]) for of, spread in by_stage.items())
                found[what] = max(sum(parts) / total, 0.0)
        return found


def _events_of(log: InteractionLog, users: Integers, seed: int) -> Iterator[Integers]:
    """The rows of some of the users, in the order of their events."""
    from resus.episodes.prefixes import OrderedUsers  # imports torch, which a service does not need

    chosen = generator(Purpose.REFERENCE_USERS, seed).permutation(users)[:MAX_USERS]
    ordered = OrderedUsers.of(log, np.sort(chosen), seed)
    for end, length in zip(accumulate(ordered.lengths.tolist()), ordered.lengths.tolist(), strict=True):
        yield ordered.rows[end - length : end][:MAX_EVENTS]


def stability_index(expected: Sequence[float], counts: Sequence[float]) -> float:
    """Of counted scores against the shares that are expected. Half a score more per bin keeps it finite."""
    total = sum(counts) + len(counts) / 2
    shares = [((count + 0.5) / total, max(share, 0.5 / total)) for count, share in zip(counts, expected, strict=True)]
    return float(sum((now - before) * np.log(now / before) for now, before in shares))


def _beyond_chance(spread: Spread, counts: Sequence[float]) -> float:
    """The index less what two draws from the same scores give on average: (bins − 1)·(1 / n + 1 / m)."""
    if not sum(counts):
        return 0.0
    by_chance = (len(spread.shares) - 1) * (1 / sum(counts) + 1 / spread.count)
    return stability_index(spread.shares, counts) - by_chance


def largest_of_stages(config: Config) -> list[tuple[str, int]]:
    """Each stage with its largest number of events."""
    return [(stage, max(sizes)) for stage, sizes in config.evaluation.stages.items()]


def stage_of(support: int, stages: Sequence[tuple[str, int]]) -> str:
    """The cold-start stage of a user with this many events: "new", a stage of the evaluation, or "warm"."""
    if not support:
        return "new"
    return next((stage for stage, largest in stages if support <= largest), "warm")
