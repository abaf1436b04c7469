"""How much slower the service is than scoring in the same process, measured with wrk on loopback.

    python -m benchmarks.service.load            MovieLens-1M, DeepFM; about five minutes on two idle cores
    python -m benchmarks.service.load --quick    three seconds per part; the figures are not kept

One worker, and one connection that sends request after request. Half of the requests with 100 candidates come right
after an event of the same user. The same engine then scores the same users, events and candidates in this process.
"""

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.service.served import LEARNERS, ask, exported, items_of, served
from resus.files import write_text
from resus.serving.engine import Engine
from resus.serving.limits import EVENTS_PER_USER
from resus.serving.loaded import LoadedModel
from resus.serving.messages import EventsRequest, PredictRequest
from resus.serving.store import open_store

FIGURES = Path("benchmarks/service/load.json")
REPLAY = Path(__file__).with_name("replay.lua")
USERS, KNOWN, CANDIDATES = 200, 15, 100
CYCLE = 600  # turns before wrk starts again, with new event ids
GROWING = 10
console = Console()


class Line(NamedTuple):
    """One request. FRESH in its body is replaced by the number of the request."""

    kind: str
    path: str
    body: str


class Answered(NamedTuple):
    kind: str
    cycle: int
    seconds: float
    status: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    figures = {learner: _of_learner(learner, 3 if quick else 60) for learner in LEARNERS}
    _show(figures)
    if not quick:
        write_text(FIGURES, json.dumps(figures, indent=2) + "\n")


def _of_learner(learner: str, seconds: int) -> dict[str, float]:
    run = exported(learner)
    chance = random.Random(4)
    with tempfile.TemporaryDirectory() as folder:
        with served(run, f"{folder}/events.sqlite") as service:
            items = items_of(service.address, 1000)
            known = [_event(f"u{n % USERS}", f"k{n // USERS}", chance, items) for n in range(USERS * KNOWN)]
            for first in range(0, len(known), 1000):
                ask(service.address, "/v1/events", {"events": known[first : first + 1000]})
            console.print(f"{learner}: {seconds} s of {CANDIDATES} candidates a request, half after a fresh event …")
            turns = list(_turns(chance, items))
            load = _replay(service.address, folder, turns, seconds=seconds)
            console.print(f"{learner}: {seconds} s of users that grow event by event …")
            growing = _replay(service.address, folder, list(_growing(chance, items)), seconds=seconds)
            peak, _ = service.peak_and_now()
        console.print(f"{learner}: the same in the process …")
        inside = _in_process(run, f"{folder}/inside.sqlite", known, turns)
    return _figures(load, growing, inside) | {"peak_bytes": peak}


def _event(user: str, name: str, chance: random.Random, items: Sequence[str]) -> dict[str, Any]:
    item = chance.choice(items)
    return {"id": name, "user": user, "time": 0.0, "label": chance.randint(0, 1), "item": item}


def _fresh(user: str, chance: random.Random, items: Sequence[str]) -> Line:
    text = json.dumps({"events": [_event(user, "FRESH", chance, items)]})
    return Line("event", "/v1/events", text.replace('"time": 0.0', '"time": FRESH'))


def _predict(kind: str, user: str, asked: Sequence[str]) -> Line:
    return Line(kind, "/v1/predict", json.dumps({"user": user, "items": asked}))


def _turns(chance: random.Random, items: Sequence[str]) -> Iterator[Line]:
    """An event, a prediction for its user, and a prediction for a user without new events."""
    for _ in range(CYCLE):
        someone, other = chance.sample(range(USERS), 2)
        yield _fresh(f"u{someone}", chance, items)
        yield _predict("after-event", f"u{someone}", chance.sample(items, CANDIDATES))
        yield _predict("no-event", f"u{other}", chance.sample(items, CANDIDATES))


def _growing(chance: random.Random, items: Sequence[str]) -> Iterator[Line]:
    """New users: in each cycle an event and two predictions of one candidate."""
    for user in range(GROWING):
        yield _fresh(f"g{user}", chance, items)
        yield _predict("one-after-event", f"g{user}", [chance.choice(items)])
        yield _predict("one", f"g{user}", [chance.choice(items)])


def _replay(address: str, folder: str, lines: Sequence[Line], *, seconds: int) -> list[Answered]:
    """What wrk measured. An error ends the benchmark."""
    asked, answered = Path(folder, "asked.txt"), Path(folder, "answered.txt")
    asked.write_text("".join("\t".join(line) + "\n" for line in lines))
    command = ["wrk", "--threads", "1", "--connections", "1", "--duration", f"{seconds}s", "--timeout", "10s"]
    words = [*command, "--script", str(REPLAY), address, "--", str(asked), str(answered)]
    report = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    answers = [
        Answered(kind, int(cycle), int(microseconds) / 1e6, int(status))
        for kind, cycle, microseconds, status in (line.split() for line in answered.read_text().splitlines())
    ]
    if "Socket errors" in report or "Non-2xx" in report or {answer.status for answer in answers} != {200}:
        raise SystemExit(f"wrk saw errors:\n{report}")
    return answers


def _in_process(run: Path, store: str, known: Sequence[dict[str, Any]], turns: Sequence[Line]) -> dict[str, float]:
    """Medians of one pass over the same turns: scoring alone, and whole answers with the store."""
    loaded = LoadedModel.load(run)
    engine = Engine(loaded, open_store(store, capacity=EVENTS_PER_USER))
    for first in range(0, len(known), 1000):
        engine.observe(EventsRequest.model_validate({"events": known[first : first + 1000]}).events)
    taken: dict[str, list[float]] = defaultdict(list)
    for number, turn in enumerate(turns):
        body = json.loads(turn.body.replace("FRESH", str(number)))
        began = time.perf_counter()
        if turn.kind == "event":
            engine.observe(EventsRequest.model_validate(body).events)
        else:
            engine.predict(PredictRequest.model_validate(body))
        taken[turn.kind].append(time.perf_counter() - began)
        if turn.kind == "no-event":
            taken["score"].append(_score_alone(engine, body))
    engine.store.close()
    return {kind: statistics.median(seconds) for kind, seconds in taken.items()}


def _score_alone(engine: Engine, body: dict[str, Any]) -> float:
    """Seconds in which a `LiveUser` scores the candidates of a request, without store and messages."""
    record = engine.store.read(body["user"])
    live = engine.loaded.live_user(EVENTS_PER_USER, record.events)
    began = time.perf_counter()
    live.score(engine.loaded.rows([{engine.loaded.item: item} for item in body["items"]]))
    return time.perf_counter() - began


def _figures(load: list[Answered], growing: list[Answered], inside: dict[str, float]) -> dict[str, float]:
    both = [answer.seconds for answer in load if answer.kind in ("after-event", "no-event")]
    cuts = statistics.quantiles(both, n=100)
    scoring = inside["score"]
    engine = (inside["after-event"] + inside["no-event"]) / 2
    found = {
        "requests": len(load),
        "median": statistics.median(both),
        "p99": cuts[98],
        "slowest": max(both),
        "score_in_process": scoring,
        "engine_in_process": engine,
        "median_over_score": statistics.median(both) / scoring,
        "p99_over_score": cuts[98] / scoring,
        "median_over_engine": statistics.median(both) / engine,
        "event_in_load": _median(load, "event"),
    }
    for name, cycles in {"1-50": (0, 50), "51-200": (50, 200), "201-400": (200, 400), "beyond": (400, 10**9)}.items():
        part = [answer for answer in growing if cycles[0] <= answer.cycle < cycles[1]]
        if not part:
            continue
        event, one, after = (_median(part, kind) for kind in ("event", "one", "one-after-event"))
        found |= {
            f"event_{name}": event,
            f"one_{name}": one,
            f"event_over_one_{name}": event / one,
            f"event_and_catching_up_over_one_{name}": (event + after - one) / one,
        }
    return found


def _median(answers: list[Answered], kind: str) -> float:
    return statistics.median(answer.seconds for answer in answers if answer.kind == kind)


def _show(figures: dict[str, dict[str, float]]) -> None:
    table = Table("", *figures)
    names = list(dict.fromkeys(name for found in figures.values() for name in found))
    for name in names:
        table.add_row(name, *(_said(name, found.get(name)) for found in figures.values()))
    console.print(table)


def _said(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if "over" in name:
        return f"{value:.2f} ×"
    if name == "peak_bytes":
        return f"{value / 2**20:.0f} MiB"
    return f"{value:,.0f}" if name == "requests" else f"{value * 1000:.2f} ms"


if __name__ == "__main__":
    main()
