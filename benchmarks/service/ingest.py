"""How fast a table becomes events of a store, and what killed consumers of a stream leave.

    python -m benchmarks.service.ingest                about five minutes
    python -m benchmarks.service.ingest --quick        a smoke test
    python -m benchmarks.service.ingest --only kills   the kills alone

`resus import` of a Parquet file in the order of time, into SQLite and into Redis, against a client that posts the same
events to the service in batches of 1000. Then a consumer of a Redis stream is killed with kill -9 again and again while
a producer writes: at the end the store must have each event once, or the benchmark fails.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import redis
from rich.console import Console

from benchmarks.service.figures import Figures
from benchmarks.service.kills import durable_redis
from benchmarks.service.served import ask, served
from resus.serving.limits import MAX_EVENTS
from resus.serving.store import open_store

EVENTS, PER_USER, KILLS = 5_000_000, 50, 20
FIELDS = {"category": 20, "daypart": 4, "device": 3}
HOME = Path("runs/benchmarks/service/ingest")
STREAM, GROUP, USERS, BATCH = "events", "resus", 200, 50
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS, help="in the table")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--only", choices=["import", "kills"])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    events, kills = (100_000, 3) if options.quick else (options.events, options.kills)
    smoke = options.quick or options.only is not None or (events, kills) != (EVENTS, KILLS)
    figures = Figures("ingest", smoke=smoke, events=events, kills=kills)
    run = _model()
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        if options.only != "kills":
            table = _table(folder / "events.parquet", events)
            figures.note("posted", _posted(run, table, folder, seconds=2 if options.quick else 20))
            figures.note("sqlite", _imported(run, table, str(folder / "imported.sqlite"), folder, events))
            with durable_redis(str(folder.absolute())) as (url, _):
                _wait_for(url)
                figures.note("redis", _imported(run, table, url, folder, events))
        if options.only != "import":
            (folder / "kills").mkdir()
            with durable_redis(str((folder / "kills").absolute())) as (url, _):
                _wait_for(url)
                figures.note("killed consumers", _killed(run, url, folder / "consumed.sqlite", kills))


def _wait_for(url: str) -> None:
    """Until a Redis that was just started answers."""
    with redis.Redis.from_url(url) as client:
        for _ in range(200):
            try:
                client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.05)
        sys.exit("the Redis did not start")


def _model() -> Path:
    """A small model of the planted world, made once."""
    run, export = HOME / "run", HOME / "export"
    if not export.is_dir():
        short = ["--learner", "ridge", "--set", "predictor.epochs=1", "--set", "training.epochs=1"]
        for words in (
            ("prepare", "planted", "--set", "users=2000", "--out", HOME / "log"),
            ("train", HOME / "log", "--out", run, *short),
            ("export", run, "--data", HOME / "log", "--out", export, "--no-onnx"),
        ):
            subprocess.run(_resus(*words), check=True)
    return export


def _table(path: Path, events: int) -> Path:
    """Events of users who come back at any time, as a log of a service has them."""
    chance, users = np.random.default_rng(1), max(events // PER_USER, 1)
    columns: dict[str, Any] = {
        "user": chance.integers(0, users, events),
        "time": 1_700_000_000 + np.sort(chance.integers(0, 30_000_000, events)),
        "item": chance.integers(0, 200, events),
        "click": chance.integers(0, 2, events).astype(np.int8),
    }
    columns |= {name: chance.integers(0, size, events) for name, size in FIELDS.items()}
    pl.DataFrame(columns).write_parquet(path)
    return path


def _imported(run: Path, table: Path, store: str, folder: Path, events: int) -> dict[str, float]:
    """Seconds from the start of the command to its end, and the peak memory of its process."""
    words = [str(word) for word in _resus("import", run.absolute(), table.absolute(), "--store", _absolute(store))]
    began = time.perf_counter()
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds, peak = time.perf_counter() - began, used.ru_maxrss * 1024
    if process.returncode:
        sys.exit("the import failed")
    kind = "Redis" if "://" in store else "SQLite"
    console.print(f"{kind}: {events / seconds:,.0f} events/s in all, {peak / 1e6:,.0f} MB at the peak")
    return {"events_per_second": events / seconds, "seconds": seconds, "peak_bytes": peak}


def _absolute(store: str) -> str:
    return store if "://" in store else str(Path(store).absolute())


def _posted(run: Path, table: Path, folder: Path, seconds: float) -> dict[str, float]:
    """Post batches to the service for a while, one after the other, each event in the order of the table."""
    sent, rows = 0, pl.read_parquet(table, n_rows=2_000_000).iter_slices(MAX_EVENTS)
    with served(run, str(folder / "posted.sqlite")) as service:
        began, end = time.perf_counter(), time.perf_counter() + seconds
        for some in rows:
            if time.perf_counter() > end:
                break
            batch = [_event(row) for row in some.iter_rows(named=True)]
            ask(service.address, "/v1/events", {"events": batch})
            sent += len(batch)
        took = time.perf_counter() - began
    console.print(f"posted to the service in batches of {MAX_EVENTS}: {sent / took:,.0f} events/s")
    return {"events_per_second": sent / took}


def _event(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in FIELDS}
    ids = {"id": f"{row['item']}@{row['time']}", "user": row["user"], "item": row["item"]}
    return {**ids, "time": row["time"], "label": row["click"], "features": fields}


def _killed(run: Path, url: str, store: Path, kills: int) -> dict[str, float]:
    """Kill the consumer again and again, also while it starts; then let one read to the end, and look at the store."""
    with redis.Redis.from_url(url) as client:
        client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
        stopping, sent = threading.Event(), [0]
        producer = threading.Thread(target=_produce, args=[url, stopping, sent])
        producer.start()
        chance, redelivered = random.Random(5), 0
        words = _resus("consume", run, "--from", f"{url}?stream={STREAM}&claim=0.5", "--group", GROUP)
        words += ["--store", str(store), "--remember", "10000"]
        for _ in range(kills):
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                assert process.stdout is not None
                process.stdout.readline()  # it reads from now on
                time.sleep(chance.uniform(0.0, 0.5))
                process.kill()
            redelivered += client.xpending(STREAM, GROUP)["pending"]
        stopping.set()
        producer.join()
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 600
            while not _is_done(client):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the last consumer did not read to the end")
                time.sleep(0.1)
            process.terminate()
    _check(store, sent[0])
    console.print(
        f"a consumer killed {kills} times: {sent[0]:,} events are all there, none twice; {redelivered:,} were not "
        "acknowledged when their consumer was killed"
    )
    return {"sent_and_there_once": sent[0], "unacknowledged_at_kills": redelivered}


def _produce(url: str, stopping: threading.Event, sent: list[int]) -> None:
    with redis.Redis.from_url(url) as client:
        while not stopping.is_set():
            numbers = range(sent[0], sent[0] + BATCH)
            with client.pipeline(transaction=True) as together:
                for number in numbers:
                    together.xadd(STREAM, {"event": json.dumps(_numbered(number))})
                together.execute()
            sent[0] += BATCH
            time.sleep(0.01)


def _numbered(number: int) -> dict[str, Any]:
    return {"id": f"e{number}", "user": f"u{number % USERS}", "time": number, "label": number % 2, "item": "1"}


def _is_done(client: "redis.Redis") -> bool:
    (group,) = client.xinfo_groups(STREAM)
    return bool(group["pending"] == 0 and group["lag"] == 0)


def _check(place: Path, sent: int) -> None:
    """A missing event, a duplicate or a wrong one is an error."""
    store = open_store(str(place), capacity=10_000)
    for user in range(USERS):
        found = [(event.id, event.time, event.label) for event in store.read(f"u{user}").events]
        wanted = [(f"e{number}", float(number), float(number % 2)) for number in range(user, sent, USERS)]
        if found != wanted:
            sys.exit(f"u{user} has {len(found)} events instead of {len(wanted)}, or others")
    if store.users() != min(USERS, sent):
        sys.exit(f"there are {store.users()} users instead of {USERS}")
    store.close()


def _resus(*words: object) -> list[str]:
    return [sys.executable, "-m", "resus", *map(str, words)]


if __name__ == "__main__":
    main()
