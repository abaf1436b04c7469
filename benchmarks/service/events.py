"""How many single events a store takes per second, durably, and how long it takes to delete a user.

    python -m benchmarks.service.events                           about two minutes
    python -m benchmarks.service.events --sizes 20000,2000000     deletions in a store of two million events
    python -m benchmarks.service.events --quick                   a smoke test

64 threads write single events of different users. SQLite: what waits is committed together, against one sync for each
event. Redis, for users of 200 events: the store, against a script that rewrites the user's 200 events with each event.
"""

import argparse
import contextlib
import functools
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import redis
from rich.console import Console

from benchmarks.service.figures import Figures
from benchmarks.service.kills import DURABLE
from benchmarks.service.served import free_port
from resus.serving.limits import MAX_EVENTS
from resus.serving.store import Event, EventStore, group_commit, open_store

WRITERS, CAPACITY, PER_USER = 64, 200, 50
REWRITE = """
local lines = {}
for line in string.gmatch(redis.call('HGET', 'rewritten', ARGV[1]) or '', '[^\\n]+') do table.insert(lines, line) end
if #lines == tonumber(ARGV[3]) then table.remove(lines, 1) end
table.insert(lines, ARGV[2])
redis.call('HSET', 'rewritten', ARGV[1], table.concat(lines, '\\n'))
"""
console = Console()


def event(number: int) -> Event:
    return Event(f"event-{number}", float(number), float(number % 2), {"item": f"{number % 3700}", "device": "phone"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--sizes", default="20000,500000", help="numbers of events in the stores of the deletions")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds, sizes = options.seconds, [int(size) for size in options.sizes.split(",")]
    if options.quick:
        seconds, sizes = 1, [1000, 10_000]
    figures = Figures("events", smoke=options.quick, seconds=seconds, writers=WRITERS)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        figures.note("sqlite", _writing_to_sqlite(Path(folder), seconds))
        figures.note("redis", _writing_to_redis(Path(folder), seconds))
        for size in sizes:
            figures.note(f"deleting from {size} events", _deleting(Path(folder), size))


def _writing_to_sqlite(folder: Path, seconds: float) -> dict[str, float]:
    found = []
    for group in (1, group_commit.GROUP):
        store = open_store(str(folder / f"{group}.sqlite"), capacity=CAPACITY)
        with mock.patch.object(group_commit, "GROUP", group), contextlib.closing(store):
            found.append(_rate(seconds, functools.partial(_add, store)))
    single, together = found
    console.print(
        f"SQLite, {WRITERS} writers of single events: {together:,.0f} events/s; one sync for each event: "
        f"{single:,.0f} events/s; {together / single:.1f} ×"
    )
    return {"events_per_second": together, "with_a_sync_each": single, "together_over_single": together / single}


def _add(store: EventStore, writer: int, number: int) -> None:
    store.add([(f"user-{writer}-{number // PER_USER}", event(number))])


def _writing_to_redis(folder: Path, seconds: float) -> dict[str, float]:
    with _redis(folder) as url, redis.Redis.from_url(url) as client:
        store = open_store(url, capacity=CAPACITY)
        history = [event(number) for number in range(CAPACITY)]
        for writer in range(WRITERS):
            store.add([(f"user-{writer}", one) for one in history])
            client.hset("rewritten", f"user-{writer}", "\n".join(map(_line, history)))
        rewrite = client.register_script(REWRITE)
        measured = []
        for write in (
            lambda writer, number: rewrite(args=[f"user-{writer}", _line(event(CAPACITY + number)), CAPACITY]),
            lambda writer, number: store.add([(f"user-{writer}", event(CAPACITY + number))]),
        ):
            before = client.info("persistence")["aof_current_size"]
            rate = _rate(seconds, write)
            written = client.info("persistence")["aof_current_size"] - before
            measured.append((rate, written / (rate * seconds)))
        store.close()
    (rewriting, large), (appending, small) = measured
    console.print(
        f"Redis, {WRITERS} writers, users of {CAPACITY} events: {appending:,.0f} events/s, {small:,.0f} bytes each; "
        f"with a rewrite of the user: {rewriting:,.0f} events/s, {large:,.0f} bytes each; {appending / rewriting:.1f} ×"
    )
    return {"events_per_second": appending, "bytes_each": small, "rewriting": rewriting, "bytes_rewritten": large}


def _line(one: Event) -> str:
    return f"{one.time}\t{one.label}\t{one.id}\t{one.features_as_json()}"


def _deleting(folder: Path, size: int) -> dict[str, float]:
    """Delete users of `CAPACITY` events while one thread writes to the same store."""
    store, users = open_store(str(folder / f"{size}.sqlite"), capacity=CAPACITY), max(20, size // CAPACITY)
    for start in range(0, size, MAX_EVENTS):
        numbers = range(start, min(start + MAX_EVENTS, size))
        store.add([(f"user-{number % users}", event(number)) for number in numbers])
    deletions, waits, done = [], list[float](), threading.Event()
    writer = threading.Thread(target=_write_until, args=[store, done, waits])
    writer.start()
    for user in range(10):
        began = time.perf_counter()
        assert store.delete(f"user-{user}")
        deletions.append(1000 * (time.perf_counter() - began))
    done.set()
    writer.join()
    store.close()
    typical = statistics.median(deletions)
    console.print(
        f"SQLite, {size:,} events: a user of {size // users} events is deleted in {typical:.1f} ms "
        f"(longest {max(deletions):.1f}); the longest wait of a writer meanwhile is {max(waits):.1f} ms"
    )
    return {"median_ms": typical, "longest_ms": max(deletions), "longest_wait_of_a_writer_ms": max(waits)}


def _write_until(store: EventStore, done: threading.Event, waits: list[float]) -> None:
    number = 0
    while not done.is_set():
        began = time.perf_counter()
        store.add([("writer", event(number))])
        waits.append(1000 * (time.perf_counter() - began))
        number += 1


def _rate(seconds: float, write: Callable[[int, int], object]) -> float:
    """Calls per second of all writers."""
    counts, end = [0] * WRITERS, time.perf_counter() + seconds

    def run(writer: int) -> None:
        while time.perf_counter() < end:
            write(writer, counts[writer])
            counts[writer] += 1

    threads = [threading.Thread(target=run, args=[writer]) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


@contextlib.contextmanager
def _redis(folder: Path) -> Iterator[str]:
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder.resolve()), *DURABLE]
    words += ["--auto-aof-rewrite-percentage", "0"]  # so that the file shows what was written
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            with redis.Redis(port=port) as client:
                while not _answers(client):
                    time.sleep(0.05)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


def _answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


if __name__ == "__main__":
    main()
