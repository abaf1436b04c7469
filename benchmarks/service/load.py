"""How fast the service answers, measured with wrk on loopback beside the bare matrix products of its networks.

    python -m benchmarks.service.load                      MovieLens-1M, DeepFM; about 15 minutes on two idle cores
    python -m benchmarks.service.load --against COMMIT     the requests of another commit as well, in the same run
    python -m benchmarks.service.load --quick              one second per part; the figures go to runs/

One worker. The parts take turns, several times over, so that a machine whose speed varies is slow or fast for all of
them; ratios are medians of the ratios of each round. With "kept", the context of all requests is the same; with
"nothing kept", each request has a context of its own, so that all networks run. "fresh" requests come right after an
event of their user.
"""

import argparse
import contextlib
import itertools
import json
import random
import re
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.service.figures import Figures
from benchmarks.service.served import LEARNERS, Served, ask, exported, items_of, served
from resus.model.encoders import FMSettings, LRSettings, NetworkSettings
from resus.model.predictors.in_numpy import MeanInNumpy
from resus.serving.engine import Engine
from resus.serving.limits import EVENTS_PER_USER
from resus.serving.loaded import LoadedModel
from resus.serving.messages import PostedEvent, PredictRequest, RecommendRequest
from resus.serving.store import open_store

REPLAY = Path(__file__).with_name("replay.lua")
MANY = Path(__file__).with_name("many.lua")
USERS, KNOWN = 200, 15
SIZES = (100, 1000)  # candidates
CONNECTIONS = 16
MILLION = 1_000_000
MOST_PER_SECOND = 50_000  # requests of one connection
BEGAN = time.perf_counter()
console = Console()


class Line(NamedTuple):
    """One request. FRESH in its body is replaced by the number of the request."""

    kind: str
    path: str
    body: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit as well")
    chosen = parser.parse_args()
    seconds, rounds = (1, 2) if chosen.quick else (6, 7)
    kept = Figures("load", smoke=chosen.quick, seconds=seconds, rounds=rounds, against=chosen.against)
    figures = {}
    with _checkout(chosen.against) as other:
        for learner in LEARNERS:
            figures[learner] = _of_learner(learner, seconds, rounds, other, partial(kept.note, learner))
    _show(figures)


@contextlib.contextmanager
def _checkout(commit: str | None) -> Iterator[Path | None]:
    """A worktree of another commit, as long as the block lasts."""
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "against")
        subprocess.run(["git", "worktree", "add", "--detach", str(place), commit], check=True, capture_output=True)
        try:
            yield place
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(place)], check=True)


def _of_learner(
    learner: str, seconds: int, rounds: int, other: Path | None, note: Callable[[dict[str, float]], None]
) -> dict[str, float]:
    """Medians of the rounds, noted after each of them."""
    run = exported(learner)
    console.print(f"{learner}: {rounds} rounds of {seconds} s per part …")
    figures = _at_rest(run) | {"networks_of_the_shared_model": _networks(LoadedModel.load(run))}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        began = time.perf_counter()
        ours = stack.enter_context(served(run, f"{folder}/ours.sqlite"))
        figures["start_seconds"] = time.perf_counter() - began
        figures["start_bytes"] = ours.peak_and_now()[1]
        services = {"": ours}
        if other is not None:
            theirs = exported(learner, source=other)
            services["against "] = stack.enter_context(served(theirs, f"{folder}/other.sqlite", source=other))
        items = items_of(ours.address, 1000)
        for service in services.values():
            _learn(service, items)
        parts = list(_parts(services, folder, items, seconds, LoadedModel.load(run)))
        seen: dict[str, list[float]] = defaultdict(list)
        for _ in range(rounds):
            found = {name: value for part in parts for name, value in part().items()}
            for name, value in (found | _ratios(found)).items():
                seen[name].append(value)
            figures |= {name: statistics.median(values) for name, values in seen.items()}
            figures["peak_bytes"] = ours.peak_and_now()[0]
            note(figures)
    return figures


def _learn(service: Served, items: Sequence[str]) -> None:
    chance = random.Random(4)
    known = [_event(f"u{n % USERS}", f"k{n // USERS}", chance, items) for n in range(USERS * KNOWN)]
    for first in range(0, len(known), 1000):
        ask(service.address, "/v1/events", {"events": known[first : first + 1000]})


def _event(user: str, name: str, chance: random.Random, items: Sequence[str]) -> dict[str, Any]:
    item = chance.choice(items)
    return {"id": name, "user": user, "time": 0.0, "label": chance.randint(0, 1), "item": item}


def _parts(
    services: dict[str, Served], folder: str, items: Sequence[str], seconds: int, loaded: LoadedModel
) -> Iterator[Callable[[], dict[str, float]]]:
    """What takes turns."""
    chance = random.Random(5)
    context = next(field.name for field in loaded.fields() if field.role != "item")
    for size in SIZES:
        yield partial(_bare_products, loaded, size)
        kept = [_predict(f"u{n % USERS}", chance.sample(items, size)) for n in range(600)]
        for name, service in services.items():
            yield partial(_replayed, f"{name}kept_{size}", service, folder, kept, seconds)
        alone = [_predict(f"u{n % USERS}", chance.sample(items, size), context) for n in range(600)]
        yield partial(_replayed, f"nothing_kept_{size}", services[""], folder, alone, seconds)
    fresh = [line for n in range(300) for line in _after_event(f"u{n % USERS}", chance, items)]
    many = [_predict(f"u{n % USERS}", chance.sample(items, SIZES[0])) for n in range(600)]
    for name, service in services.items():
        yield partial(_replayed, f"{name}fresh", service, folder, fresh, seconds)
        yield partial(_many, f"{name}many", service, folder, many, seconds)


def _predict(user: str, asked: Sequence[str], context: str | None = None) -> Line:
    more = {} if context is None else {"context": {context: "n FRESH"}}
    return Line("predict", "/v1/predict", json.dumps({"user": user, "items": asked, **more}))


def _after_event(user: str, chance: random.Random, items: Sequence[str]) -> Iterator[Line]:
    text = json.dumps({"events": [_event(user, "FRESH", chance, items)]})
    yield Line("event", "/v1/events", text.replace('"time": 0.0', '"time": FRESH'))
    yield _predict(user, chance.sample(items, SIZES[0]))


def _bare_products(loaded: LoadedModel, rows: int) -> dict[str, float]:
    """Seconds of the matrix products of Ψ, of all its networks, and of Φ if it is a network, on so many rows."""
    generator, layers = np.random.default_rng(1), []
    for part in (*[loaded.config.predictor] * _networks(loaded), loaded.config.encoder):
        if isinstance(part, NetworkSettings) and not isinstance(part, LRSettings | FMSettings):
            widths = [len(loaded.features.fields) * part.embedding_dim, *part.hidden_units]
            layers.append([generator.standard_normal(pair, dtype=np.float32) for pair in itertools.pairwise(widths)])
    taken = []
    for _ in range(15):
        inputs = [generator.standard_normal((rows, matrices[0].shape[0]), dtype=np.float32) for matrices in layers]
        began = time.perf_counter()
        for values, matrices in zip(inputs, layers, strict=True):
            for matrix in matrices:
                values = values @ matrix
        taken.append(time.perf_counter() - began)
    return {f"products_{rows}": statistics.median(taken)}


def _networks(loaded: LoadedModel) -> int:
    """How many networks the shared model has: RESUS+ may answer with the mean of those that cross-fitting trained."""
    predictor = loaded.model.predictor
    return len(predictor.members) if isinstance(predictor, MeanInNumpy) else 1


def _replayed(name: str, service: Served, folder: str, lines: Sequence[Line], seconds: int) -> dict[str, float]:
    """What wrk measured over one connection. An error ends the benchmark."""
    asked, answered = Path(folder, "asked.txt"), Path(folder, "answered.txt")
    asked.write_text("".join("\t".join(line) + "\n" for line in lines))
    _wrk(service, 1, seconds, REPLAY, str(asked), str(answered), str(_first_number()))
    taken = [line.split() for line in answered.read_text().splitlines()]
    if {status for *_, status in taken} != {"200"}:
        raise SystemExit(f"{name}: not all answers were 200")
    times = defaultdict(list)
    for kind, _, microseconds, _ in taken:
        times[kind].append(int(microseconds) / 1e6)
    cuts = statistics.quantiles(times.pop("predict"), n=100)
    others = {f"{name}_{kind}_p50": statistics.median(seen) for kind, seen in times.items()}
    return {f"{name}_p50": cuts[49], f"{name}_p99": cuts[98], **others, f"{name}_per_second": len(taken) / seconds}


def _first_number() -> int:
    """Of the requests of one replay: larger than all before, and small enough for the time of an event in seconds."""
    return int((time.perf_counter() - BEGAN) * MOST_PER_SECOND)


def _many(name: str, service: Served, folder: str, lines: Sequence[Line], seconds: int) -> dict[str, float]:
    """The same over several connections at a time."""
    asked = Path(folder, "asked.txt")
    asked.write_text("".join("\t".join(line) + "\n" for line in lines))
    report = _wrk(service, CONNECTIONS, seconds, MANY, str(asked))
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    cuts = {cut: float(value) * units[unit] for cut, value, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s)", report)}
    rate = re.search(r"Requests/sec:\s+([\d.]+)", report)
    assert rate is not None
    return {f"{name}_p50": cuts["50"], f"{name}_p99": cuts["99"], f"{name}_per_second": float(rate[1])}


def _wrk(service: Served, connections: int, seconds: int, script: Path, *words: str) -> str:
    command = ["wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s"]
    options = ["--timeout", "10s", "--latency", "--script", str(script), service.address, "--", *words]
    report = subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout
    if "Socket errors" in report or "Non-2xx" in report:
        raise SystemExit(f"wrk saw errors:\n{report}")
    return report


def _at_rest(run: Path) -> dict[str, float]:
    """In this process: seconds of a recommendation, and the memory of live users with all their events."""
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(LoadedModel.load(run), open_store(f"{folder}/events.sqlite", capacity=EVENTS_PER_USER))
        assert engine.loaded.catalogue is not None
        chance, items = random.Random(6), engine.loaded.catalogue.items
        for user in range(50):
            batch = (_event(f"u{user}", f"e{n}", chance, items) for n in range(EVENTS_PER_USER))
            engine.observe([PostedEvent.model_validate(one) for one in batch])
        engine.predict(PredictRequest(items=list(items[:100])))
        before = _resident()
        for user in range(50):
            engine.predict(PredictRequest(user=f"u{user}", items=list(items[:100])))
        figures = {
            "live_user_bytes": (_resident() - before) / 50,
            "live_user_bytes_counted": engine.live_users.nbytes / len(engine.live_users),
            "recommend_seconds": _recommending(engine),
        }
        if engine.loaded.config.learner.kind == "plus":
            console.print("plus: a million items …")
            figures["recommend_million_seconds"] = _recommending(_with_a_million_items(engine))
        engine.store.close()
    return figures


def _recommending(engine: Engine) -> float:
    """The median, once the logits of the context are kept."""
    taken = []
    for _ in range(31):
        began = time.perf_counter()
        engine.recommend(RecommendRequest(user="u1", top=10))
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _with_a_million_items(engine: Engine) -> Engine:
    """The catalogue again and again, under other ids."""
    made = engine.loaded.catalogue
    assert made is not None
    rows = np.arange(MILLION) % len(made.items)
    ids = made.ids[rows]
    item = engine.loaded.features.block(engine.loaded.item)
    ids[len(made.items) :, item.columns.start] = item.first
    larger = replace(
        made,
        items=(*made.items, *(f"more {n}" for n in range(len(made.items), MILLION))),
        titles=(None,) * MILLION,
        counts=(0,) * MILLION,
        means=(None,) * MILLION,
        ids=ids,
        weights=None if made.weights is None else made.weights[rows],
    )
    return Engine(replace(engine.loaded, catalogue=larger), engine.store)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def _ratios(figures: dict[str, float]) -> dict[str, float]:
    """What one round says, whatever the speed of the machine was."""
    found = {"fresh_over_kept": figures["fresh_p50"] / figures["kept_100_p50"]}
    for size in SIZES:
        for kind in ("kept", "nothing_kept"):
            found[f"{kind}_{size}_over_products"] = figures[f"{kind}_{size}_p50"] / figures[f"products_{size}"]
    found["many_p99_over_p50"] = figures["many_p99"] / figures["many_p50"]
    for part in ("kept_100", "kept_1000", "fresh", "many"):
        if f"against {part}_per_second" in figures:
            rate = figures[f"{part}_per_second"] / figures[f"against {part}_per_second"]
            found[f"{part}_per_second_over_against"] = rate
    return found


def _show(figures: dict[str, dict[str, float]]) -> None:
    table = Table("", *figures)
    names = list(dict.fromkeys(name for found in figures.values() for name in found))
    for name in names:
        table.add_row(name, *(_said(name, found.get(name)) for found in figures.values()))
    console.print(table)


def _said(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name.startswith("networks"):
        return f"{value:.0f}"
    if "_over_" in name:
        return f"{value:.2f} ×"
    if "bytes" in name:
        return f"{value / 2**20:.2f} MiB"
    return f"{value:,.0f}" if name.endswith("per_second") else f"{value * 1000:.2f} ms"


if __name__ == "__main__":
    main()
