"""After `kill -9` the service has every acknowledged event, and none twice.

    python -m benchmarks.service.kills            20 kills of the server and 20 of a worker, on SQLite and on Redis

Clients send batches all the time. A client that gets no answer sends the same batch again. At the end the service must
have the events that were sent, each of them once.
"""

import argparse
import contextlib
import http.client
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.service.figures import Figures
from benchmarks.service.served import ask, exported, free_port, items_of, served, serves, workers_of

KILLS, WORKERS, CLIENTS, BATCH, PER_USER = 20, 2, 4, 3, 60
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
NO_ANSWER = (OSError, http.client.HTTPException, urllib.error.URLError, ValueError)
console = Console()


class Client(threading.Thread):
    """Sends numbered events until it is stopped; `acknowledged` counts those that the service confirmed."""

    def __init__(self, name: str, items: list[str]) -> None:
        super().__init__(daemon=True)
        self.address = ""
        self.label, self.items = name, items
        self.acknowledged, self.repeated = 0, 0
        self.refusals: list[int] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            batch = [self.event(number) for number in range(self.acknowledged, self.acknowledged + BATCH)]
            try:
                results = ask(self.address, "/v1/events", {"events": batch})["results"]
            except urllib.error.HTTPError as error:
                self.refusals.append(error.code)
                return
            except NO_ANSWER:
                self.repeated += 1
                time.sleep(0.1)
                continue
            assert [result["id"] for result in results] == [event["id"] for event in batch]
            self.acknowledged += BATCH

    def event(self, number: int) -> dict[str, Any]:
        item = self.items[number % len(self.items)]
        return {"id": f"e{number}", "user": self.user(number), "time": number, "label": number % 2, "item": item}

    def user(self, number: int) -> str:
        return f"{self.label}-{number // PER_USER}"

    def check(self) -> int:
        """How many events of this client the service has. A missing event or a duplicate is an error."""
        if self.refusals:
            raise SystemExit(f"{self.label} was refused with {self.refusals[0]}")
        found: list[dict[str, Any]] = []
        for number in range(0, self.acknowledged, PER_USER):
            user = self.user(number)
            events = ask(self.address, f"/v1/users/{user}")["events"]
            found += [
                {"user": user, **{key: event[key] for key in ("id", "time", "label", "item")}} for event in events
            ]
        sent = [self.event(number) for number in range(len(found))]
        if found != sent or not self.acknowledged <= len(found) <= self.acknowledged + BATCH:
            wrong = next((pair for pair in zip(found, sent, strict=True) if pair[0] != pair[1]), "none differs")
            raise SystemExit(f"{self.label}: {self.acknowledged} acknowledged, {len(found)} found; {wrong}")
        return len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=KILLS)
    kills = parser.parse_args().kills
    run, figures = exported("ridge"), Figures("kills", smoke=kills < KILLS, kills=kills)
    for victim in ("server", "worker"):
        with tempfile.TemporaryDirectory() as folder, durable_redis(folder) as (redis, _):
            for store in (f"{folder}/{victim}.sqlite", redis):
                began = time.perf_counter()
                events, repeated = (_server_killed if victim == "server" else _worker_killed)(run, store, kills)
                kind = "Redis" if store == redis else "SQLite"
                console.print(
                    f"{kind}, {kills} kills of the {victim}: {events:,} acknowledged events are all there, none twice; "
                    f"{repeated:,} requests were not answered and sent again; {time.perf_counter() - began:.0f} s"
                )
                found = {"acknowledged_and_there_once": events, "sent_again": repeated}
                figures.note(f"{kind}, {victim} killed", found)


def _server_killed(run: Path, store: str, kills: int) -> tuple[int, int]:
    """Kill the only process of the service, and start it again on the same port."""
    chance, port, clients = random.Random(1), free_port(), list[Client]()
    for _ in range(kills):
        with served(run, store, port=port) as service:
            clients = clients or _started(service.address)
            time.sleep(chance.uniform(0.2, 1.0))
            service.process.kill()
    with served(run, store, port=port):
        return _stopped(clients)


def _worker_killed(run: Path, store: str, kills: int) -> tuple[int, int]:
    """Kill one of two workers; the supervisor starts another."""
    chance = random.Random(2)
    with served(run, store, workers=WORKERS) as service:
        clients = _started(service.address)
        for _ in range(kills):
            _wait_for_load(service.process.pid, clients)
            time.sleep(chance.uniform(0.2, 1.0))
            workers = workers_of(service.process.pid)
            os.kill(chance.choice(workers), signal.SIGKILL)
            while not set(workers_of(service.process.pid)) - set(workers):
                time.sleep(0.05)
        return _stopped(clients)


def _started(address: str) -> list[Client]:
    items = items_of(address, 100)
    clients = [Client(f"client{number}", items) for number in range(CLIENTS)]
    for client in clients:
        client.address = address
        client.start()
    return clients


def _stopped(clients: list[Client]) -> tuple[int, int]:
    """Events found and batches repeated, for all clients, after each got one more answer."""
    for client in clients:
        _wait_for_an_answer(client)
        client.stopping.set()
    for client in clients:
        client.join()
    return sum(client.check() for client in clients), sum(client.repeated for client in clients)


def _wait_for_load(supervisor: int, clients: list[Client]) -> None:
    """Wait until every worker answers and every client got an answer since."""
    while sum(map(serves, workers_of(supervisor))) < WORKERS:
        time.sleep(0.05)
    for client in clients:
        _wait_for_an_answer(client)


def _wait_for_an_answer(client: Client) -> None:
    before = client.acknowledged
    while client.acknowledged == before:
        if not client.is_alive():
            client.check()
        time.sleep(0.01)


@contextlib.contextmanager
def durable_redis(folder: str) -> Iterator[tuple[str, int]]:
    """The address and the process id of a Redis that syncs each command to disk before it answers."""
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, *DURABLE]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            yield f"redis://127.0.0.1:{port}/0", process.pid
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
