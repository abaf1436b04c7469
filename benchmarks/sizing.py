"""How much memory a worker of the service takes: with the model alone, and for each live user.

    python -m benchmarks.sizing EXPORT [--users 2000]

EXPORT is a folder that `resus export` wrote. Users like random items of its catalogue, and each is asked for once.
"""

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np

from resus.serving import Engine, LoadedModel, open_store
from resus.serving.messages import PostedEvent, PredictRequest

EVENTS = (10, 50, 200)  # per user
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def per_user(loaded: LoadedModel, users: int, events: int) -> tuple[float, float]:
    """Bytes per live user, as the worker counts them and as the process grows."""
    assert loaded.catalogue is not None, "name an export: a run has no catalogue"
    draw = np.random.default_rng(0)
    context = {field.name: field.values[0] for field in loaded.fields() if field.role != "item" and field.values}
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(loaded, open_store(f"{folder}/events.sqlite", capacity=events), capacity=events)
        for user in range(users):
            liked = draw.choice(len(loaded.catalogue.items), events)
            engine.observe(
                [
                    PostedEvent(
                        id=f"e{number}",
                        user=f"u{user}",
                        time=float(number),
                        label=float(number % 2),
                        item=loaded.catalogue.items[item],
                        features=context,
                    )
                    for number, item in enumerate(liked.tolist())
                ]
            )
        before = resident()
        first = [loaded.catalogue.items[0]]
        for user in range(users):
            engine.predict(PredictRequest(user=f"u{user}", items=first, context=context))
        live = len(engine.live_users)
        found = engine.live_users.nbytes / live, (resident() - before) / live
        engine.store.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path)
    parser.add_argument("--users", type=int, default=2000)
    chosen = parser.parse_args()
    loaded = LoadedModel.load(chosen.export)
    print(f"a process with the model of {chosen.export} ({loaded.name}): {resident() / 2**20:.0f} MiB")
    for events in EVENTS:
        counted, grown = per_user(loaded, chosen.users, events)
        print(f"a live user with {events} events: {counted / 1024:.1f} KiB as counted, {grown / 1024:.1f} KiB resident")


if __name__ == "__main__":
    main()
