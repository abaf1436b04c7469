"""Into which bins of the reference the latest scores fall, to see whether they drift away from it."""

import itertools
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import Metric

from resus.serving.answers import Scored
from resus.serving.drift import Place
from resus.serving.loaded import LoadedModel

NAME = "resus_recent_scores"
ONE_IN = 4  # requests, so that counting costs next to nothing
WINDOW = 1000  # scores of a worker
FEWEST = 200  # scores of all workers; of fewer, a drift would be chance
EVERY = 100  # requests, after which the other processes see the counts


class RecentScores:
    """One candidate of every fourth request counts, each time at another place. Threads may share it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(
            NAME,
            "Scores of the latest requests, by the bin of the reference into which they fall",
            ["version", "score", "stage", "bin"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._turn = itertools.count()
        self._latest: deque[tuple[str, list[Place]]] = deque()
        self._counts: Counter[tuple[str, Place]] = Counter()
        self._changed: set[tuple[str, Place]] = set()
        self._lock = threading.Lock()

    def note(self, models: Sequence[LoadedModel], scored: Scored) -> None:
        """Count an answer of one of the models."""
        turn = next(self._turn)
        if turn % ONE_IN:
            return
        loaded = next((model for model in models if model.version == scored.version), None)
        if loaded is None or loaded.reference is None:
            return
        scores = scored.scores
        place = turn // ONE_IN % len(scores.basis)
        places = loaded.reference.places(
            float(scores.basis[place]), float(scores.residual[place]), loaded.stage(scored.support)
        )
        with self._lock:
            self._latest.append((loaded.version, places))
            self._add(self._latest[-1], 1)
            if len(self._latest) > WINDOW:
                self._add(self._latest.popleft(), -1)
        if turn % EVERY == 0:
            self.publish()

    def publish(self) -> None:
        """Let the metrics show the counts as they are now."""
        with self._lock:
            for version, place in self._changed:
                self._gauge.labels(version, *map(str, place)).set(self._counts[version, place])
            self._changed.clear()

    def _add(self, entry: tuple[str, list[Place]], count: int) -> None:
        version, places = entry
        for place in places:
            self._counts[version, place] += count
            self._changed.add((version, place))


def drift_of(loaded: LoadedModel, metrics: Iterable[Metric]) -> dict[str, float]:
    """By basis and residual, from the published counts of all workers; without enough of them, nothing."""
    if loaded.reference is None:
        return {}
    counts: Counter[Place] = Counter()
    for metric in metrics:
        for sample in metric.samples if metric.name == NAME else ():
            said = sample.labels
            if said["version"] == loaded.version:
                counts[said["score"], said["stage"], int(said["bin"])] += int(sample.value)
    found = loaded.reference.drift(counts)
    totals: Counter[str] = Counter()
    for (score, _, _), count in counts.items():
        totals[score] += count
    return {score: value for score, value in found.items() if totals[score] >= FEWEST}
