"""An hour of mixed load with faults: what was acknowledged is there, and only a fault that lasts causes errors.

    python -m benchmarks.service.chaos --minutes 60    half of the time on SQLite, half on Redis; needs redis-server
    python -m benchmarks.service.chaos --minutes 3 --every 15 --run EXPORT    a short trial

Clients write events, delete users and ask for scores all the time. In turn a worker or the whole service is killed,
the model is reloaded, the disk fills up (SQLite; needs root for a small file system) or Redis hangs. A reload is not
a fault. At the end:

- every acknowledged event is stored once, and no deleted user is there;
- every request outside a fault was answered without an error;
- scores without a stored user were answered while the store was out of order;
- the processes use as much memory in the last third as in the first.
"""

import argparse
import contextlib
import itertools
import os
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.service.kills import BATCH, NO_ANSWER, Client, durable_redis
from benchmarks.service.served import Served, ask, exported, free_port, items_of, served, serves, workers_of

WORKERS, WRITERS, CANDIDATES = 2, 3, 20
MINUTES, EVERY_SECONDS = 60, 90
FAULT_SECONDS = 8  # for which Redis hangs, or the disk stays full
RECOVERY_SECONDS = 60
GRACE_SECONDS = 1
PAUSE_SECONDS = 0.05  # of each client between requests
DISK = "512m"
GROWTH, GROWTH_BYTES = 1.2, 32 * 2**20
NO_STATUS = 0
OF_THE_STORE = ("Redis hangs", "disk full")
console = Console()


class Request(NamedTuple):
    kind: str
    began: float
    ended: float
    status: int


class Fault(NamedTuple):
    kind: str
    began: float
    ended: float

    def explains(self, request: Request) -> bool:
        if request.kind == "score inline" and self.kind in OF_THE_STORE:
            return False
        return request.began <= self.ended + GRACE_SECONDS and request.ended >= self.began


@dataclass
class Record:
    """What happened to one service."""

    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def ask(self, kind: str, address: str, path: str, body: Any = None, *, method: str | None = None) -> Any:
        """The answer; None if there was none, or an error."""
        began, status, answer = time.monotonic(), NO_STATUS, None
        try:
            answer = ask(address, path, body, method=method)
            status = 200
        except urllib.error.HTTPError as error:
            status = error.code
        except NO_ANSWER:
            pass
        self.requests.append(Request(kind, began, time.monotonic(), status))
        return answer

    def unexplained(self) -> Counter[tuple[str, int]]:
        """Requests outside a fault that were not answered, or answered with an error."""
        bad = (request for request in self.requests if request.status != 200)
        return Counter(
            (request.kind, request.status)
            for request in bad
            if not any(fault.explains(request) for fault in self.faults)
        )

    def memory_of_thirds(self) -> tuple[float, float]:
        third = max(len(self.memory) // 3, 1)
        return statistics.median(self.memory[:third]), statistics.median(self.memory[-third:])


class Writer(Client):
    """Sends numbered events, each batch until it is acknowledged."""

    def __init__(self, name: str, items: list[str], record: Record) -> None:
        super().__init__(name, items)
        self.record = record

    def run(self) -> None:
        while not self.stopping.wait(PAUSE_SECONDS):
            batch = [self.event(number) for number in range(self.acknowledged, self.acknowledged + BATCH)]
            if self.record.ask("event", self.address, "/v1/events", {"events": batch}) is None:
                self.repeated += 1
            else:
                self.acknowledged += BATCH


class Deleter(threading.Thread):
    """Writes users and deletes them. A user whose event was not acknowledged is left alone: it may be stored late."""

    def __init__(self, address: str, items: list[str], record: Record) -> None:
        super().__init__(daemon=True)
        self.address, self.items, self.record = address, items, record
        self.deleted: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.wait(20 * PAUSE_SECONDS):
                return
            user, item = f"gone-{number}", self.items[number % len(self.items)]
            event = {"id": "e", "user": user, "time": number, "label": 1, "item": item}
            if self.record.ask("event", self.address, "/v1/events", {"events": [event]}) is None:
                continue
            while self.record.ask("delete", self.address, f"/v1/users/{user}", method="DELETE") is None:
                if self.stopping.wait(4 * PAUSE_SECONDS):
                    return
            self.deleted.append(user)

    def check(self) -> None:
        for user in self.deleted:
            with contextlib.suppress(urllib.error.HTTPError):
                ask(self.address, f"/v1/users/{user}")
                self.record.violations.append(f"the deleted user {user} is still there")


class Reader(threading.Thread):
    """Asks for scores of stored users, or of events in the request."""

    def __init__(self, address: str, items: list[str], record: Record, writers: list[Writer] | None = None) -> None:
        super().__init__(daemon=True)
        self.address, self.items, self.record, self.writers = address, items, record, writers
        self.stopping = threading.Event()

    def run(self) -> None:
        chance = random.Random(6)
        while not self.stopping.wait(PAUSE_SECONDS):
            asked: dict[str, Any] = {"items": chance.sample(self.items, min(CANDIDATES, len(self.items)))}
            if self.writers is None:
                asked["events"] = [{"label": 1, "item": asked["items"][0]}]
            else:
                writer = chance.choice(self.writers)
                asked["user"] = writer.user(chance.randint(0, writer.acknowledged))
            kind = "score inline" if self.writers is None else "score user"
            self.record.ask(kind, self.address, "/v1/predict", asked)


class Arena:
    """A service with two workers that is started again on its port after a kill, and its faults."""

    def __init__(self, run: Path, store: str, log: int) -> None:
        self._run, self._store, self._log = run, store, log
        self._port = free_port()
        self._stack = contextlib.ExitStack()
        self._chance = random.Random(7)
        self.record = Record()
        self.service = self._start()

    def _start(self) -> Served:
        serving = served(self._run, self._store, workers=WORKERS, port=self._port, log=self._log)
        return self._stack.enter_context(serving)

    def end(self) -> None:
        self._stack.close()

    def workers(self) -> list[int]:
        return workers_of(self.service.process.pid)

    def kill_worker(self) -> None:
        victim = self._chance.choice(self.workers())
        os.kill(victim, signal.SIGKILL)
        self._until(lambda: victim not in self.workers(), "a dead worker was not noticed")

    def kill_service(self) -> None:
        workers = self.workers()
        self.service.process.kill()
        self._stack.close()
        self._until(lambda: not any(_runs(worker) for worker in workers), "workers outlived their supervisor")
        self.service = self._start()

    def reload_by_request(self) -> None:
        self.record.ask("reload", self.service.address, "/v1/reload", {})

    def reload_by_signal(self) -> None:
        self.service.process.send_signal(signal.SIGHUP)

    @contextlib.contextmanager
    def lasting(self, kind: str) -> Iterator[None]:
        """A fault, which ends when the service is whole again."""
        began = time.monotonic()
        yield
        self._until(self._is_whole, f"the service did not recover from: {kind}")
        self.record.faults.append(Fault(kind, began, time.monotonic()))

    def _is_whole(self) -> bool:
        workers = self.workers()
        if len(workers) < WORKERS or not all(map(serves, workers)):
            return False
        try:
            return bool(ask(self.service.address, "/readyz")["status"] == "ok")
        except NO_ANSWER:
            return False

    def _until(self, happened: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            with contextlib.suppress(FileNotFoundError):  # a process has just ended
                if happened():
                    return
            if time.monotonic() > deadline:
                raise SystemExit(f"{otherwise} within {RECOVERY_SECONDS} seconds")
            time.sleep(0.1)

    def note_memory(self) -> None:
        processes = (self.service.process.pid, *self.workers())
        with contextlib.suppress(FileNotFoundError):
            self.record.memory.append(sum(map(_resident_bytes, processes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--every", type=float, default=EVERY_SECONDS, help="seconds between two faults")
    parser.add_argument("--run", type=Path, help="serve this export instead of one of MovieLens-1M")
    asked = parser.parse_args()
    run, seconds = asked.run or exported("ridge"), asked.minutes * 30
    violations = 0
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log:
        with _small_disk(folder) as disk:
            arena = Arena(run, f"{disk or folder}/events.sqlite", log.fileno())
            faults = [] if disk is None else [("disk full", lambda: _fill(disk))]
            violations += _fought("SQLite", arena, faults, seconds, asked.every)
        with durable_redis(folder) as (redis, process):
            arena = Arena(run, redis, log.fileno())
            violations += _fought("Redis", arena, [("Redis hangs", lambda: _hang(process))], seconds, asked.every)
        log.seek(0)
        console.print(f"{len(log.readlines()):,} lines in the log")
    if violations:
        raise SystemExit(1)


def _fought(
    name: str, arena: Arena, special: list[tuple[str, Callable[[], None]]], seconds: float, every: float
) -> int:
    """Load and faults for a while, then the checks. The number of violations."""
    record, address = arena.record, arena.service.address
    try:
        items = items_of(address, 100)
        writers = [Writer(f"writer{number}", items, record) for number in range(WRITERS)]
        deleter = Deleter(address, items, record)
        for writer in writers:
            writer.address = address
        readers = [Reader(address, items, record, writers), Reader(address, items, record)]
        clients: list[Writer | Deleter | Reader] = [*writers, deleter, *readers]
        with arena.lasting("start"):
            pass
        for client in clients:
            client.start()
        _cause(arena, special, seconds, every)
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join()
        stored = _stored(writers, record)
        deleter.check()
    finally:
        arena.end()
    _judge(record)
    _show(name, record, stored, sum(writer.repeated for writer in writers), len(deleter.deleted))
    return len(record.violations)


def _cause(arena: Arena, special: list[tuple[str, Callable[[], None]]], seconds: float, every: float) -> None:
    faults = [("worker killed", arena.kill_worker), *special, ("service killed", arena.kill_service)]
    reloads = itertools.cycle((arena.reload_by_request, arena.reload_by_signal))
    deadline = time.monotonic() + seconds
    for kind, cause in itertools.cycle(faults):
        next_fault = time.monotonic() + every
        if next_fault > deadline:
            break
        time.sleep(every / 2)
        next(reloads)()
        time.sleep(max(next_fault - time.monotonic(), 0))
        arena.note_memory()
        with arena.lasting(kind):
            cause()
    time.sleep(max(deadline - time.monotonic(), 0))
    arena.note_memory()


def _stored(writers: list[Writer], record: Record) -> int:
    stored = 0
    for writer in writers:
        try:
            stored += writer.check()
        except (SystemExit, urllib.error.HTTPError) as lost:
            record.violations.append(f"{writer.label}: {lost}"[:500])
    return stored


def _judge(record: Record) -> None:
    for (kind, status), count in record.unexplained().items():
        record.violations.append(f"{count} × {kind} got {status or 'no answer'} outside a fault")
    first, last = record.memory_of_thirds()
    if last > first * GROWTH + GROWTH_BYTES:
        record.violations.append(f"memory grew from {first / 2**20:.0f} to {last / 2**20:.0f} MiB")


def _show(name: str, record: Record, stored: int, repeated: int, deleted: int) -> None:
    answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for request in record.requests:
        answers[request.kind][request.status] += 1
    table = Table(name, "")
    for kind, statuses in answers.items():
        table.add_row(kind, ", ".join(f"{count:,} × {code or 'no answer'}" for code, count in sorted(statuses.items())))
    lasted: defaultdict[str, list[float]] = defaultdict(list)
    for fault in record.faults:
        lasted[fault.kind].append(fault.ended - fault.began)
    for kind, seconds in lasted.items():
        table.add_row(kind, f"{len(seconds)} times, whole again after at most {max(seconds):.1f} s")
    first, last = record.memory_of_thirds()
    table.add_row("memory, first and last third", f"{first / 2**20:.0f} and {last / 2**20:.0f} MiB")
    table.add_row("events stored once", f"{stored:,}; {repeated:,} batches were sent again")
    table.add_row("users deleted", f"{deleted:,}")
    table.add_row("violations", "\n".join(record.violations) or "none")
    console.print(table)


@contextlib.contextmanager
def _small_disk(folder: str) -> Iterator[Path | None]:
    """A small file system in memory; None if this user may not mount one."""
    disk = Path(folder, "disk")
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        console.print("without a full disk: only root may mount a small file system")
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _fill(disk: Path) -> None:
    """Leave no byte for a while."""
    ballast = disk / "ballast"
    try:
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(2**20))
        time.sleep(FAULT_SECONDS)
    finally:
        ballast.unlink()


def _hang(process: int) -> None:
    os.kill(process, signal.SIGSTOP)
    try:
        time.sleep(FAULT_SECONDS)
    finally:
        os.kill(process, signal.SIGCONT)


def _runs(process: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _resident_bytes(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
