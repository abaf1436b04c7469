"""Metrics of the service for Prometheus. They reveal no user and no event."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resus.serving.http.access_log import AccessLog
from resus.serving.http.recent_scores import RecentScores, drift_of
from resus.serving.loaded import LoadedModel
from resus.serving.messages import ExperimentAnswer
from resus.serving.noticed import CONTEXTS, USERS

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # in which all workers count
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROLES = ("first", "second")


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.latency = Histogram(
            "resus_request_seconds",
            "Time from the arrival of a request to its answer",
            ["route", "status"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.events = self._counter("events", "Events received", "status")
        self.predictions = self._counter(
            "predictions", "Predictions, by the cold-start stage of the user and the model", "stage", "version"
        )
        self.reloads = self._counter("reloads", "Models loaded, refused or rolled back", "outcome")
        self.store_errors = self._counter("store_errors", "Requests that the store failed, by kind of failure", "kind")
        self.unknown_values = self._counter(
            "unknown_values", "Values that the model does not know, by its field", "field"
        )
        self.unknown_fields = self._counter("unknown_fields", "Fields in requests that the model does not have")
        cached = self._counter("cache", "What an answer needed: kept in memory, or computed anew", "cache", "outcome")
        self._cached = {
            (name, kept): cached.labels(name, "kept" if kept else "computed")
            for name in (CONTEXTS, USERS)
            for kept in (True, False)
        }
        self.forgotten_events = self._counter("forgotten_events", "Events deleted because they were too old")
        self.forgotten_users = self._counter("forgotten_users", "Users deleted with the last of their events")
        self.scores = RecentScores(self.registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"resus_{name}", says, labels, registry=self.registry)

    def count_forgotten(self, events: int, users: int) -> None:
        self.forgotten_events.inc(events)
        self.forgotten_users.inc(users)

    def count_unknown(self, values: Mapping[str, int], names: int) -> None:
        """Labels are fields of the model; names that clients make up are only counted."""
        for name, count in values.items():
            self.unknown_values.labels(name).inc(count)
        if names:
            self.unknown_fields.inc(names)

    def count_cached(self, cache: str, kept: bool) -> None:
        self._cached[cache, kept].inc()

    def collected(self) -> list[Metric]:
        """The counts of all workers so far."""
        return list(self._of_all_workers().collect())

    def text(self, users: int | None, models: Sequence[LoadedModel], experiment: ExperimentAnswer | None) -> bytes:
        """The counts of all workers so far, and how things are now: the models, and the users if the store answers."""
        self.scores.publish()
        counts, now = self._of_all_workers(), CollectorRegistry()
        now.register(_Now(users, models, [drift_of(model, counts.collect()) for model in models], experiment))
        return generate_latest(counts) + generate_latest(now)

    def _of_all_workers(self) -> CollectorRegistry:
        if not os.environ.get(SHARED_FOLDER):
            return self.registry
        counts = CollectorRegistry()
        MultiProcessCollector(counts)  # type: ignore[no-untyped-call]
        return counts


class _Now(Collector):
    """What is found out at the time of the request."""

    def __init__(
        self,
        users: int | None,
        models: Sequence[LoadedModel],
        drift: Sequence[Mapping[str, float]],
        experiment: ExperimentAnswer | None,
    ) -> None:
        self._users, self._models, self._drift, self._experiment = users, models, drift, experiment

    def collect(self) -> Iterator[Metric]:
        if self._users is not None:
            yield GaugeMetricFamily("resus_users", "Users with events in the store", value=self._users)
        info = GaugeMetricFamily("resus_model_info", "The models in use", labels=["role", "name", "version"])
        for role, model in zip(ROLES, self._models, strict=False):
            info.add_metric([role, model.name, model.version], 1)
        yield info
        drift = GaugeMetricFamily(
            "resus_drift", "How far recent scores are from those of the validation users", labels=["role", "score"]
        )
        for role, found in zip(ROLES, self._drift, strict=False):
            for score, value in found.items():
                drift.add_metric([role, score], value)
        yield drift
        if self._experiment is not None:
            yield from _of_experiment(self._experiment)


def _of_experiment(experiment: ExperimentAnswer) -> Iterator[Metric]:
    for measure, says in (("auc", "AUC"), ("logloss_mean", "Mean Logloss")):
        family = GaugeMetricFamily(
            f"resus_experiment_{measure}", f"{says} of each model on events after its prediction", labels=["model"]
        )
        for role, model in zip(ROLES, (experiment.first, experiment.second), strict=True):
            value = model.auc if measure == "auc" else model.logloss
            if value is not None:
                family.add_metric([role], value)
        yield family


class Requests:
    """Counts each answered request, and logs it if there is a log, under the pattern of its route."""

    def __init__(self, metrics: Metrics, access_log: AccessLog | None = None) -> None:
        self._latency, self._access_log = cache(metrics.latency.labels), access_log

    def note(self, method: str, route: str, path: str, status: int, seconds: float, version: str | None) -> None:
        """`version` is that of the model which answered, if one did."""
        self._latency(route, str(status)).observe(seconds)
        if self._access_log is not None:
            self._access_log.note(method, route, path, status, seconds, version)


class MeasuringMiddleware:
    """ASGI middleware: measures each request once, under the pattern of its route and never under its path."""

    def __init__(self, app: ASGIApp, *, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        state = scope.setdefault("state", {})  # shared by all copies of the scope

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            if not state.get("measured"):
                state["measured"] = True
                route = getattr(scope.get("route"), "path", "unknown")
                path = scope["raw_path"].decode("latin-1")
                seconds = time.perf_counter() - start
                self._requests.note(scope["method"], route, path, status, seconds, state.get("version"))
