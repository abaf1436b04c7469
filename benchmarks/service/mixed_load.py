"""Clients of a service that fails now and then, and a record of what it answered."""

import itertools
import random
import threading
import time
import urllib.error
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.service.kills import BATCH, NO_ANSWER, PER_USER, Client
from benchmarks.service.served import ask

WRITERS, CANDIDATES, TOP = 3, 20, 10
PAUSE_SECONDS = 0.05  # of each client between requests
PROBE_SECONDS = 0.25
STOCK = 20  # users that wait for their deletion, so that there are some when no event can be stored
GRACE_SECONDS = 1
NOTICE_SECONDS = 2  # within which a fault of the store shows in /readyz
SLOW_SECONDS = 5  # no answer may take longer, unless its worker is killed
NO_STATUS = 0
DISK_FULL = "disk full"
KILLED = frozenset((NO_STATUS, 503))
OUT_OF_ORDER = frozenset((429, 503))


class Request(NamedTuple):
    kind: str
    began: float
    ended: float
    status: int


class Fault(NamedTuple):
    """Something that was broken from `began` to `released`; the service was whole again when it `ended`."""

    kind: str
    began: float
    released: float
    ended: float
    of_the_store: bool

    def overlaps(self, request: Request) -> bool:
        return request.began <= self.ended + GRACE_SECONDS and request.ended >= self.began

    def explains(self, request: Request) -> bool:
        """A fault of the store explains refusals of requests that need the store; a kill explains a lost answer."""
        if not self.overlaps(request):
            return False
        if not self.of_the_store:
            return request.status in KILLED
        return request.status in OUT_OF_ORDER and request.kind != "score inline"

    def covers(self, request: Request) -> bool:
        """The whole request fell in a time in which the fault must have been noticed."""
        return request.began >= self.began + NOTICE_SECONDS and request.ended <= self.released


@dataclass
class Record:
    """What happened to one service."""

    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def ask(
        self, kind: str, address: str, path: str, body: Any = None, *, method: str | None = None, expected: int = 200
    ) -> Any:
        """The answer; None if there was none, or an error. An `expected` error counts as an answer."""
        began, status, answer = time.monotonic(), NO_STATUS, None
        try:
            answer = ask(address, path, body, method=method)
            status = 200
        except urllib.error.HTTPError as error:
            status = error.code
        except NO_ANSWER:
            pass
        self.requests.append(Request(kind, began, time.monotonic(), 200 if status == expected else status or NO_STATUS))
        return answer

    def judge(self) -> None:
        """Add a violation for each answer that no fault explains."""
        self.violations += self._unexplained()
        self.violations += self._slow()
        for fault in self.faults:
            if fault.of_the_store:
                self.violations += self._unnoticed(fault)

    def _unexplained(self) -> Iterator[str]:
        bad = (request for request in self.requests if request.status != 200)
        counts = Counter(
            (request.kind, request.status)
            for request in bad
            if not any(fault.explains(request) for fault in self.faults)
        )
        for (kind, status), count in counts.items():
            yield f"{count} × {kind} got {status or 'no answer'}, which no fault explains"

    def _slow(self) -> Iterator[str]:
        kills = [fault for fault in self.faults if not fault.of_the_store]
        for kind in {request.kind for request in self.requests} - {"reload", "reload of a damaged model"}:
            slow = [
                request.ended - request.began
                for request in self.requests
                if request.kind == kind
                and request.ended - request.began > SLOW_SECONDS
                and not any(kill.overlaps(request) for kill in kills)
            ]
            if slow:
                yield f"{len(slow)} × {kind} took up to {max(slow):.1f} s"

    def _unnoticed(self, fault: Fault) -> Iterator[str]:
        covered = [request for request in self.requests if fault.covers(request)]
        probed = [request.status for request in covered if request.kind == "ready"]
        if 503 not in probed:
            yield f"{fault.kind}: /readyz answered only {sorted(set(probed))} while it lasted"
        if fault.kind == DISK_FULL:  # a deletion empties the log, so that there is space for events now and then
            deletions = Counter(request.status for request in covered if request.kind == "delete")
            if set(deletions) != {200}:
                yield f"{fault.kind}: deletions got {dict(deletions)} while it lasted"
        elif set(probed) != {503}:
            yield f"{fault.kind}: /readyz answered {sorted(set(probed))} while it lasted"


class Writer(Client):
    """Sends numbered events, each batch until it is acknowledged, and asks for a score that must include them."""

    def __init__(self, name: str, items: list[str], record: Record) -> None:
        super().__init__(name, items)
        self.record = record

    def run(self) -> None:
        while not self.stopping.wait(PAUSE_SECONDS):
            batch = [self.event(number) for number in range(self.acknowledged, self.acknowledged + BATCH)]
            if self.record.ask("event", self.address, "/v1/events", {"events": batch}) is None:
                self.repeated += 1
                continue
            self.acknowledged += BATCH
            if self.acknowledged // BATCH % 2:
                self._look_for(self.acknowledged)

    def _look_for(self, acknowledged: int) -> None:
        user, events = self.user(acknowledged - 1), (acknowledged - 1) % PER_USER + 1
        asked = {"user": user, "items": self.items[:CANDIDATES]}
        answer = self.record.ask("score after event", self.address, "/v1/predict", asked)
        if answer is not None and answer["support"] != events:
            self.record.violations.append(f"{user}: {events} events acknowledged, {answer['support']} in the score")


class Deleter(threading.Thread):
    """Writes users and deletes them. A user whose event was not acknowledged is left alone: it may be stored late."""

    def __init__(self, address: str, items: list[str], record: Record) -> None:
        super().__init__(daemon=True)
        self.address, self.items, self.record = address, items, record
        self.stock: deque[str] = deque()
        self.deleted: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.wait(8 * PAUSE_SECONDS):
                return
            user, item = f"gone-{number}", self.items[number % len(self.items)]
            event = {"id": "e", "user": user, "time": number, "label": 1, "item": item}
            stored = self.record.ask("event", self.address, "/v1/events", {"events": [event]}) is not None
            if stored:
                self.stock.append(user)
            if len(self.stock) > STOCK or (self.stock and not stored):
                gone = self.stock[0]
                if self.record.ask("delete", self.address, f"/v1/users/{gone}", method="DELETE") is not None:
                    self.deleted.append(self.stock.popleft())

    def check(self) -> None:
        """A deleted user is unknown, and one that waits is there."""
        for user, expected in [*((user, 404) for user in self.deleted), *((user, 200) for user in self.stock)]:
            try:
                ask(self.address, f"/v1/users/{user}")
                status = 200
            except urllib.error.HTTPError as error:
                status = error.code
            # the first in the stock may be deleted without our knowing
            if status != expected and not (self.stock and user == self.stock[0]):
                self.record.violations.append(f"{user}: {status} instead of {expected} at the end")


class Reader(threading.Thread):
    """Asks for scores and recommendations, of stored users or of events in the request."""

    def __init__(self, address: str, items: list[str], record: Record, writers: list[Writer] | None = None) -> None:
        super().__init__(daemon=True)
        self.address, self.items, self.record, self.writers = address, items, record, writers
        self.stopping = threading.Event()

    def run(self) -> None:
        chance = random.Random(6)
        while not self.stopping.wait(PAUSE_SECONDS):
            asked: dict[str, Any] = {}
            chosen = chance.sample(self.items, min(CANDIDATES, len(self.items)))
            if self.writers is None:
                asked["events"] = [{"label": 1, "item": chosen[0]}]
            else:
                writer = chance.choice(self.writers)
                asked["user"] = writer.user(chance.randint(0, writer.acknowledged))
            kind = "score inline" if self.writers is None else "score user"
            if chance.random() < 0.2:
                self.record.ask(kind, self.address, "/v1/recommend", {**asked, "top": TOP})
            else:
                asked |= {"items": chosen, "deviation": chance.random() < 0.5}
                self.record.ask(kind, self.address, "/v1/predict", asked)


class Prober(threading.Thread):
    """Asks whether the service is ready."""

    def __init__(self, address: str, record: Record) -> None:
        super().__init__(daemon=True)
        self.address, self.record = address, record
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(PROBE_SECONDS):
            self.record.ask("ready", self.address, "/readyz")
