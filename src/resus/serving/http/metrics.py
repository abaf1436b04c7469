"""Metrics of the service for Prometheus. They reveal no user and no event."""

import os
import time
from collections.abc import Iterator, Mapping
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resus.serving.http.access_log import AccessLog

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # in which all workers count
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.latency = Histogram(
            "resus_request_seconds",
            "Time from the arrival of a request to its answer",
            ["route", "status"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.events = Counter("resus_events", "Events received", ["status"], registry=self._registry)
        self.predictions = Counter(
            "resus_predictions", "Predictions, by the cold-start stage of the user", ["stage"], registry=self._registry
        )
        self.reloads = Counter("resus_reloads", "Artifacts loaded or refused", ["outcome"], registry=self._registry)

        self.unknown_values = Counter(
            "resus_unknown_values",
            "Values that the model does not know, by its field",
            ["field"],
            registry=self._registry,
        )
        self.unknown_fields = Counter(
            "resus_unknown_fields", "Fields in requests that the model does not have", registry=self._registry
        )

        self.forgotten_events = Counter(
            "resus_forgotten_events", "Events deleted because they were too old", registry=self._registry
        )
        self.forgotten_users = Counter(
            "resus_forgotten_users", "Users deleted with the last of their events", registry=self._registry
        )

    def count_forgotten(self, events: int, users: int) -> None:
        self.forgotten_events.inc(events)
        self.forgotten_users.inc(users)

    def count_unknown(self, values: Mapping[str, int], names: int) -> None:
        """Labels are fields of the model; names that clients make up are only counted."""
        for name, count in values.items():
            self.unknown_values.labels(name).inc(count)
        if names:
            self.unknown_fields.inc(names)

    def text(self, users: int | None) -> bytes:
        """The counts of all workers so far, and the users in the store if it answers."""
        counts, sizes = self._registry, CollectorRegistry()
        if users is not None:
            sizes.register(_Sizes(users))
        if os.environ.get(SHARED_FOLDER):
            counts = CollectorRegistry()
            MultiProcessCollector(counts)  # type: ignore[no-untyped-call]
        return generate_latest(counts) + generate_latest(sizes)


class _Sizes(Collector):
    """The size of the store at the time of the request."""

    def __init__(self, users: int) -> None:
        self._users = users

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("resus_users", "Users with events in the store", value=self._users)


class Requests:
    """Counts each answered request, and logs it if there is a log, under the pattern of its route."""

    def __init__(self, metrics: Metrics, access_log: AccessLog | None = None) -> None:
        self._latency, self._access_log = cache(metrics.latency.labels), access_log

    def note(self, method: str, route: str, path: str, status: int, seconds: float) -> None:
        self._latency(route, str(status)).observe(seconds)
        if self._access_log is not None:
            self._access_log.note(method, route, path, status, seconds)


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
                self._requests.note(scope["method"], route, path, status, time.perf_counter() - start)
