"""What the routes of a worker ask: the engine in use, the other model beside it, and the threads in which they work."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from resus.errors import StorageError
from resus.serving.engine import Engine
from resus.serving.experiment.figures import Figures
from resus.serving.experiment.split import Split
from resus.serving.experiment.trial import Trial
from resus.serving.http.guard import MAX_IN_FLIGHT
from resus.serving.http.hot import Answered
from resus.serving.http.metrics import Metrics
from resus.serving.http.model_changes import ModelChanges, Models
from resus.serving.http.pools import Pool
from resus.serving.items import ItemChanges
from resus.serving.lineup import ModelFolders
from resus.serving.loaded import LoadedModel
from resus.serving.messages import (
    EventsAnswer,
    EventsRequest,
    ExperimentAnswer,
    PredictRequest,
    RecommendRequest,
)
from resus.serving.store import EventStore

THREADS = 4  # threads that score; further requests wait for a free one
WRITERS = 32  # threads that write: most of them wait for the same sync
STORE_REQUESTS = 128  # that wait to write, and as many to read: if the store hangs, other requests still find a place
PROBE_SECONDS = 2

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class Setup:
    """What a worker begins with besides its first model: the folders of models, and how it tries a second one."""

    folders: ModelFolders
    number: int = 0  # of the lineup that was loaded
    second: Engine | None = None
    split: Split | None = None
    memory: Any = None  # see `shared_memory`

    def trial_of(self, first: Engine, registry: CollectorRegistry) -> Trial | None:
        if self.second is None:
            return None
        return Trial(first, self.second, split=self.split, memory=self.memory, figures=Figures(registry))


class Service:
    """Holds the engine in use, and replaces it on a reload."""

    def __init__(self, engine: Engine, folder: Path, setup: Setup, *, announce: Callable[[], None]) -> None:
        self.engine = engine
        self.metrics = Metrics()
        self.announce = announce
        self._count_prediction = cache(self.metrics.predictions.labels)
        self._folder = folder
        self.trial = setup.trial_of(engine, self.metrics.registry)
        self._prepare(engine, *([setup.second] if setup.second else []))
        self.changes = ModelChanges(
            setup.folders, self.models, self._use, number=setup.number, counted=self.metrics.reloads
        )
        # separate threads, so that no score waits for the disk, and none without a stored user for the store
        self.writing = Pool("write", WRITERS, waiting=STORE_REQUESTS)
        self.reading = Pool("read", THREADS, waiting=STORE_REQUESTS)
        self.scoring = Pool("score", THREADS, waiting=MAX_IN_FLIGHT)
        self.probing = Pool("probe", 1, waiting=MAX_IN_FLIGHT)
        self.counting = Pool("count", 1, waiting=MAX_IN_FLIGHT)
        self.reloads = Pool("reload", 1, waiting=MAX_IN_FLIGHT)

    def item_changes(self) -> ItemChanges:
        return ItemChanges(self._folder.with_name(f"{self._folder.name}.items.jsonl"))

    async def probe(self, work: Callable[[EventStore], Returned]) -> Returned:
        """Ask the store, but not for long."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return await self.probing.run(lambda: work(self.engine.store))
        except TimeoutError:
            raise StorageError(
                f"the store did not answer within {PROBE_SECONDS} seconds: see the log", kind="slow"
            ) from None

    def pool_of(self, request: PredictRequest | RecommendRequest) -> Pool:
        return self.scoring if request.user is None else self.reading

    def observe(self, request: EventsRequest) -> EventsAnswer:
        answer = self.engine.observe(request.events)
        if self.trial is not None:
            self.trial.learn(request.events, answer.results)
        return answer

    def delete(self, user: str) -> bool:
        try:
            return self.engine.delete(user)
        finally:
            if self.trial is not None:
                self.trial.forget(user)

    def models(self) -> list[LoadedModel]:
        """Those in use, the second one after the first."""
        return [self.engine.loaded, *([self.trial.second.loaded] if self.trial else [])]

    def predict(self, request: PredictRequest, *, at_once: bool = False) -> Answered:
        scored = (self.trial or self.engine).score(request, at_once=at_once)
        self.metrics.scores.note(self.models(), scored)
        self._count(scored.support, scored.version)
        return Answered(scored.as_json(), scored.version)

    def recommend(self, request: RecommendRequest) -> Answered:
        answer = (self.trial or self.engine).recommend(request)
        self._count(answer.support, answer.version)
        return Answered(answer.model_dump_json(exclude_unset=True).encode(), answer.version)

    def experiment(self) -> ExperimentAnswer | None:
        """What all workers have counted about two models."""
        trial = self.trial
        if trial is None:
            return None
        return trial.pair.answer(self.metrics.collected(), trial.split.share if trial.split else None)

    def _count(self, support: int, version: str) -> None:
        self._count_prediction(self.engine.loaded.stage(support), version).inc()

    def _use(self, models: Models) -> None:
        """Answer with other models. Requests continue."""
        engines = [Engine(loaded, self.engine.store, capacity=self.engine.capacity) for loaded in models]
        self._prepare(*engines)
        if self.trial is not None:
            self.trial.use(*engines)
        self.engine = engines[0]

    def _prepare(self, first: Engine, *others: Engine) -> None:
        """Each request counts once, whichever model answers it: the first one scores all of them."""
        first.tally, first.cached = self.metrics.count_unknown, self.metrics.count_cached
        for engine in (first, *others):
            engine.follow(self.item_changes())
