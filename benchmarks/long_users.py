"""The time to take in one more event of a live user and score a hundred candidates, by the number of events.

python -m benchmarks.long_users
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import numpy as np
import torch

from resus.arrays import Integers
from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.model.build import build_personalizer
from resus.model.inference.in_torch import inference_of
from resus.model.inference.parts import Rows
from resus.serving.live.user import LiveUser
from resus.serving.store import Event

EVENTS = (10, 30, 100, 300, 1000, 3000)
CANDIDATES, REPEATS = 100, 30
NETWORK = {"hidden_units": [400, 400, 400], "embedding_dim": 10}


def live_user(learner: str, log: InteractionLog) -> LiveUser:
    """Networks of the published shape. Untrained weights cost as much as trained ones."""
    torch.manual_seed(1)
    predictor = {f"predictor.{key}": value for key, value in NETWORK.items()}
    encoder = {f"encoder.{key}": value for key, value in NETWORK.items()} if learner != "plus" else {}
    config = resolve({"learner.kind": learner, **predictor, **encoder})
    model = inference_of(config, log.features, build_personalizer(config, log.features).eval())
    return LiveUser(model, capacity=10_000)


def rows_of(log: InteractionLog, numbers: Integers) -> Rows:
    return Rows(log.ids[numbers], None if log.weights is None else log.weights[numbers])


def milliseconds(user: LiveUser, log: InteractionLog) -> Iterator[float]:
    """The time of each event and the scores after it; the user grows by one event each time."""
    candidates = rows_of(log, np.arange(CANDIDATES))
    for number in range(REPEATS):
        row = rows_of(log, np.array([CANDIDATES + number]))
        began = time.perf_counter()
        user.observe(f"new-{number}", row, float(number % 2), 1e6 + number)
        user.score(candidates)
        yield 1000 * (time.perf_counter() - began)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    log = planted_log(PlantedWorld(users=400, events_per_user=30))
    print(f"milliseconds per event and {CANDIDATES} candidates, median of {REPEATS}, one thread")
    print("events   " + "".join(f"{events:>9,}" for events in EVENTS))
    for learner, name in (("ridge", "RESUS-RR"), ("nearest", "RESUS-NN"), ("plus", "RESUS+")):
        found = []
        for events in EVENTS:
            user = live_user(learner, log)
            rows = np.arange(events)
            history = [Event(f"e{row:05}", float(row), float(row % 3 == 0), {}) for row in rows]
            user.start_from(history, rows_of(log, rows))
            found.append(statistics.median(milliseconds(user, log)))
        print(f"{name:<9}" + "".join(f"{value:>9.1f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
