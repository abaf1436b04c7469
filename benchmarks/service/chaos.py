"""An hour of mixed load with faults: what was acknowledged is there, and only a fault that lasts causes errors.

    python -m benchmarks.service.chaos --minutes 60    half of the time on SQLite, half on Redis; needs redis-server
    python -m benchmarks.service.chaos --minutes 4 --every 12 --run EXPORT    a short trial

Clients write events, delete users and ask for scores all the time. In turn a worker or the whole service is killed,
the disk fills up (SQLite; needs root for a small file system) or Redis hangs. In between the model is reloaded, now
and then from a damaged folder, which is refused; a reload is not a fault. In the second half the service and its
oldest worker live on, so that their memory shows what they keep. It fails unless

- every acknowledged event is in the next score, and stored once at the end, after another kill of the service;
- no deleted user is there;
- every request outside a fault was answered, and none with a 5xx;
- while the store was out of order, `/readyz` said so, scores without a stored user were answered, and users were
  deleted if the disk was full;
- no answer took longer than 5 seconds, but of a worker that was killed;
- memory in the last third of the second half is what it was in the first third.
"""

import argparse
import contextlib
import itertools
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.error
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.service.figures import Figures
from benchmarks.service.kills import NO_ANSWER, durable_redis
from benchmarks.service.mixed_load import DISK_FULL, WRITERS, Deleter, Fault, Prober, Reader, Record, Writer
from benchmarks.service.served import Served, ask, exported, free_port, items_of, served, serves, workers_of

WORKERS = 2
MINUTES, EVERY_SECONDS = 60, 90
FAULT_SECONDS = 8  # for which Redis hangs, or the disk stays full
RECOVERY_SECONDS = 120
MEMORY_SECONDS = 2  # between two looks at the memory
DISK = "512m"
GROWTH, GROWTH_BYTES = 1.1, 16 * 2**20
DAMAGED = "model.safetensors"
console = Console()


class NotRecoveredError(Exception):
    """The service did not recover."""


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

    def kill_any_worker(self) -> None:
        self._kill_worker(self._chance.choice(self.workers()))

    def kill_youngest_worker(self) -> None:
        self._kill_worker(max(self.workers(), key=_started))

    def _kill_worker(self, victim: int) -> None:
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

    def reload_damaged(self) -> None:
        file = self._run / DAMAGED
        whole = file.read_bytes()
        place = self._chance.randrange(len(whole))
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            self.record.ask("reload of a damaged model", self.service.address, "/v1/reload", {}, expected=409)
        finally:
            file.write_bytes(whole)

    def cause(self, kind: str, cause: Callable[[], None], *, of_the_store: bool = False) -> None:
        """Cause a fault and wait until the service is whole again."""
        began = time.monotonic()
        cause()
        released = time.monotonic()
        self._until(self._is_whole, f"the service did not recover from: {kind}")
        self.record.faults.append(Fault(kind, began, released, time.monotonic(), of_the_store))

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
                raise NotRecoveredError(f"{otherwise} within {RECOVERY_SECONDS} seconds")
            time.sleep(0.1)

    def wait(self, until: float, *, noting_memory: bool) -> None:
        """Wait, and note the memory of the supervisor and the oldest worker meanwhile."""
        while (left := until - time.monotonic()) > 0:
            if noting_memory:
                processes = (self.service.process.pid, min(self.workers(), key=_started))
                self.record.memory.append(sum(map(_resident_bytes, processes)))
            time.sleep(min(left, MEMORY_SECONDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--every", type=float, default=EVERY_SECONDS, help="seconds between two faults")
    parser.add_argument("--run", type=Path, help="serve this export instead of one of MovieLens-1M")
    asked = parser.parse_args()
    seconds = asked.minutes * 30
    violations, figures = 0, Figures("chaos", smoke=asked.minutes < MINUTES, minutes=asked.minutes, every=asked.every)
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log:
        run = Path(folder, "export")
        shutil.copytree(asked.run or exported("ridge"), run)
        with _small_disk(folder) as disk:
            arena = Arena(run, f"{disk or folder}/events.sqlite", log.fileno())
            fault = None if disk is None else (DISK_FULL, lambda: _fill(disk))
            violations += _fought("SQLite", arena, fault, seconds, asked.every, figures)
        with durable_redis(folder) as (redis, process):
            arena = Arena(run, redis, log.fileno())
            fault = ("Redis hangs", lambda: _hang(process))
            violations += _fought("Redis", arena, fault, seconds, asked.every, figures)
        log.seek(0)
        console.print(f"{len(log.readlines()):,} lines in the log")
    if violations:
        raise SystemExit(1)


StoreFault = tuple[str, Callable[[], None]]


def _fought(name: str, arena: Arena, fault: StoreFault | None, seconds: float, every: float, figures: Figures) -> int:
    """Load and faults for a while, then the checks. The number of violations."""
    record, address = arena.record, arena.service.address
    try:
        items = items_of(address, 100)
        writers = [Writer(f"writer{number}", items, record) for number in range(WRITERS)]
        deleter = Deleter(address, items, record)
        for writer in writers:
            writer.address = address
        readers = [Reader(address, items, record, writers), Reader(address, items, record)]
        clients: list[Writer | Deleter | Reader | Prober] = [*writers, deleter, *readers, Prober(address, record)]
        arena.cause("start", lambda: None)
        for client in clients:
            client.start()
        try:
            _cause(arena, fault, seconds, every)
        except NotRecoveredError as failed:
            record.violations.append(str(failed))
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join()
        arena.kill_service()
        stored = _stored(writers, record)
        deleter.check()
    finally:
        arena.end()
    record.judge()
    first, last = _memory_of_thirds(record.memory)
    if last > first * GROWTH + GROWTH_BYTES:
        record.violations.append(f"memory grew from {first / 2**20:.0f} to {last / 2**20:.0f} MiB")
    shown = _shown(record, stored, sum(writer.repeated for writer in writers), len(deleter.deleted))
    figures.note(name, shown)
    table = Table(name, "")
    for row in shown.items():
        table.add_row(*row)
    console.print(table)
    return len(record.violations)


def _cause(arena: Arena, fault: StoreFault | None, seconds: float, every: float) -> None:
    """In the first half also kills of the whole service; in the second, which shows the memory, only of a worker."""
    began = time.monotonic()
    reloads = itertools.cycle((arena.reload_by_request, arena.reload_by_signal, arena.reload_damaged))
    for end, survives in ((began + seconds / 2, False), (began + seconds, True)):
        faults: list[tuple[str, Callable[[], None], bool]] = [
            ("worker killed", arena.kill_youngest_worker if survives else arena.kill_any_worker, False)
        ]
        if fault is not None:
            faults.append((*fault, True))
        if not survives:
            faults.append(("service killed", arena.kill_service, False))
        for kind, cause, of_the_store in itertools.cycle(faults):
            next_fault = time.monotonic() + every
            if next_fault > end:
                break
            arena.wait(next_fault - every / 2, noting_memory=survives)
            next(reloads)()
            arena.wait(next_fault, noting_memory=survives)
            arena.cause(kind, cause, of_the_store=of_the_store)
        arena.wait(end, noting_memory=survives)


def _stored(writers: list[Writer], record: Record) -> int:
    stored = 0
    for writer in writers:
        try:
            stored += writer.check()
        except (SystemExit, urllib.error.HTTPError) as lost:
            record.violations.append(f"{writer.label}: {lost}"[:500])
    return stored


def _memory_of_thirds(memory: list[int]) -> tuple[float, float]:
    if not memory:
        return 0.0, 0.0
    third = max(len(memory) // 3, 1)
    return statistics.median(memory[:third]), statistics.median(memory[-third:])


def _shown(record: Record, stored: int, repeated: int, deleted: int) -> dict[str, str]:
    answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for request in record.requests:
        answers[request.kind][request.status] += 1
        if request.status == 200:
            waits[request.kind].append(request.ended - request.began)
    shown = {}
    for kind, statuses in answers.items():
        counts = ", ".join(f"{count:,} × {code or 'no answer'}" for code, count in sorted(statuses.items()))
        shown[kind] = f"{counts}; {_quantiles(waits[kind])}"
    lasted: defaultdict[str, list[float]] = defaultdict(list)
    for fault in record.faults:
        lasted[fault.kind].append(fault.ended - fault.began)
    for kind, seconds in lasted.items():
        shown[kind] = f"{len(seconds)} times, whole again after at most {max(seconds):.1f} s"
    first, last = _memory_of_thirds(record.memory)
    return shown | {
        "supervisor and oldest worker": f"{first / 2**20:.0f} MiB, then {last / 2**20:.0f} MiB",
        "events stored once": f"{stored:,}; {repeated:,} batches were sent again",
        "users deleted": f"{deleted:,}",
        "violations": "\n".join(record.violations) or "none",
    }


def _quantiles(waits: list[float]) -> str:
    """Of the times of good answers."""
    if not waits:
        return "none in time"
    ordered = sorted(waits)
    at = (ordered[int(len(ordered) * share)] * 1000 for share in (0.5, 0.99, 0.999))
    return "p50 {:.0f}, p99 {:.0f}, p99.9 {:.0f} ms".format(*at)


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


def _started(process: int) -> int:
    """When it started, in ticks."""
    return int(Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])


def _resident_bytes(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
