"""What exploring a whole catalogue costs, next to the greedy ranking of the same items.

    python -m benchmarks.explore [--items 1000000] [--events 30] [--repeat 3]

A made-up RESUS+ model: items, authors and genres that match, 32 directions of taste. It prints the seconds of a ranking
(the fastest of some) and the number of draws behind the propensities of thompson.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from resus.arrays import Floats
from resus.model.learners.plus.in_numpy.codes import CodeColumns
from resus.model.learners.plus.in_numpy.learner import LivePlus, PlusInNumpy
from resus.serving.explored import rank
from resus.serving.exploring import RULES, Exploring, exploring_of
from resus.serving.ranking import best_of

TASTE, CHOICE, TOP = 32, 16, 10
LAYOUT = CodeColumns(("item", "author", "genre"), (1, 1, 3), "item", TASTE, CHOICE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=30, help="of the user")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    codes = catalogue(options.items, random)
    learner = PlusInNumpy(LAYOUT, weights(), steps=30)
    user = learner.state()
    assert isinstance(user, LivePlus)
    labels = random.integers(2, size=options.events).astype(np.float64)
    user.fill(codes[random.integers(options.items, size=options.events)], labels, random.normal(size=options.events))
    prepared, crowd = learner.prepare(codes), random.normal(size=options.items).astype(np.float32)
    everything = np.ones(options.items, dtype=np.bool_)

    def greedy() -> int:
        best_of(crowd + user.answer_all(prepared, None), everything, TOP)
        return 0

    table = Table("ranking", "seconds", "draws", title=f"{options.items:,} items, {options.events} events")
    table.add_row("greedy", f"{best_seconds(greedy, options.repeat)[0]:.3f}", "")
    for rule in RULES:
        exploring = exploring_of(rule, seed=1, width=None, draws=None)
        assert exploring is not None

        def explored(exploring: Exploring = exploring) -> int:
            mean = crowd + user.answer_all(prepared, None)
            return rank(exploring, user.spread(), mean, codes.__getitem__, TOP).draws

        seconds, draws = best_seconds(explored, options.repeat)
        table.add_row(rule, f"{seconds:.3f}", str(draws) if draws else "")
    Console().print(table)


def catalogue(items: int, random: np.random.Generator) -> Floats:
    """An author has ten items, and an item three of forty genres."""
    numbers = np.arange(items)
    genres = items + items // 10 + random.integers(40, size=(items, 3))
    values = np.column_stack([numbers, items + numbers // 10, genres])
    shares = np.broadcast_to(np.array([1, 1, *[3**-0.5] * 3], dtype=np.float32), values.shape)
    vectors = random.normal(size=(items, TASTE + 2 * CHOICE + 1)) / TASTE**0.5
    return LAYOUT.pack(numbers, np.zeros((items, 2)), values, shares, vectors)


def weights() -> dict[str, Floats]:
    scales = {"bias": 0.5, "taste": 1.0, "choices": 0.5, "common": 0.5, "scale": 1.0}
    found = {f"log_{name}": np.log(np.float32(scale)) for name, scale in scales.items()}
    return {name: np.asarray(value) for name, value in found.items()} | {
        "log_matches": np.log(np.array([1.0, 0.5, 0.2], dtype=np.float32))
    }


def best_seconds(work: Callable[[], int], repeat: int) -> tuple[float, int]:
    seconds, found = [], 0
    for _ in range(repeat):
        start = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


if __name__ == "__main__":
    main()
