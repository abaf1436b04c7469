"""Speed and memory: compared with a naive implementation and with bare matrix products, and in seconds and bytes.

    python -m benchmarks.speed            MovieLens-1M, about six minutes on two idle cores
    python -m benchmarks.speed --quick    a smoke test on a small planted world

Both times of a ratio come from one run. The naive implementation is too slow for all users, so both work on the same
sample of users. Ours counts with the best of several repetitions, the naive one runs once.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.memory import cost_of
from benchmarks.naive import NaiveResus, events_of, score_sizes, train_epoch
from benchmarks.published import RAW
from resus import InteractionLog
from resus.cli.console import progress_bars
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.evaluation.metrics import auc
from resus.files import write_text
from resus.model.build import build_personalizer
from resus.model.encoders.deepfm import DeepFM
from resus.model.personalizer import Personalizer
from resus.model.predictors import GradientSettings
from resus.model.predictors.base import NeuralPredictor
from resus.progress import Progress
from resus.training.episodes import fit_on_episodes
from resus.training.loop import Schedule
from resus.training.predictor import fit_network
from resus.training.run import METRICS_FILE

FIGURES = Path("benchmarks/speed.json")
RESUS = Path(sys.executable).with_name("resus")
LEARNERS = {"RESUS-RR": "ridge", "RESUS-NN": "nearest"}
PLUS = "RESUS+"  # has no naive implementation
Users = npt.NDArray[np.int64]
Result = TypeVar("Result")
console = Console()

ONE_EPOCH = Schedule("benchmark", validate=lambda: 0.0, epochs=1, patience=1)


@dataclass(frozen=True)
class Scale:
    """The data to prepare, and how many users each part of the benchmark takes."""

    prepare: tuple[str, ...]
    naive_epoch_users: int
    naive_sizes_users: int
    epoch_share: float
    repeats: int


def _movielens() -> Scale:
    raw = RAW / "ml-1m"
    where = ("--path", str(raw)) if raw.is_dir() else ()
    return Scale(("ml-1m", *where), 100, 16, 0.25, 3)


QUICK = Scale(("planted", "--set", "users=150", "--set", "events_per_user=40"), 20, 5, 0.5, 2)


@dataclass(frozen=True)
class Figure:
    """One measured number and what it was measured on."""

    figure: str
    on: str
    measured: float
    unit: Literal["×", "s", "GB", "rows/s"]


@dataclass(frozen=True)
class Bench:
    """A log, and everything that is timed on it."""

    log: InteractionLog
    scale: Scale
    progress: Progress

    @cached_property
    def configs(self) -> dict[str, Config]:
        kinds = LEARNERS | {PLUS: "plus"}
        return {name: resolve({"learner.kind": kind}, data_set=self.log.name) for name, kind in kinds.items()}

    @cached_property
    def train_users(self) -> Users:
        return self.configs["RESUS-RR"].user_split(self.log.n_users).train

    @cached_property
    def test_users(self) -> Users:
        return self.configs["RESUS-RR"].user_split(self.log.n_users).test

    def population(self, part: str, users: Users) -> tuple[str, int]:
        """A description of some users, and their number of rows."""
        rows = int(self.log.lengths[users].sum())
        return f"{len(users):,} {part} users, {rows:,} rows", rows

    def parts(self, name: str) -> tuple[NeuralPredictor, Personalizer]:
        """Untrained weights: the speed hardly depends on them (only the number of steps of RESUS+ does)."""
        torch.manual_seed(1)
        predictor = self.configs[name].predictor.build_predictor(self.log.features)
        assert isinstance(predictor, NeuralPredictor)
        return predictor, build_personalizer(self.configs[name], self.log.features, predictor)

    def sampler(self, name: str, users: Users) -> EpisodeSampler:
        config = self.configs[name]
        return EpisodeSampler(
            self.log,
            users,
            max_size=config.max_support,
            batch_size=config.training.batch_size,
            sizes=config.training.support_sizes,
            seed=config.seed,
        )

    def predictor_epoch(self, users: Users) -> Callable[[], object]:
        """One epoch of Ψ over the users' rows."""
        config = GradientSettings.sharing(self.configs["RESUS-RR"].predictor)
        return partial(
            fit_network,
            self.parts("RESUS-RR")[0],
            self.log,
            self.log.rows_of(users),
            ONE_EPOCH,
            config,
            seed=1,
        )

    def residual_epoch(self, name: str, users: Users) -> Callable[[], object]:
        """One meta-training epoch over the users' rows. Computes Ψ's logits first, as a run does once."""
        config = self.configs[name].training
        predictor, model = self.parts(name)
        rows = self.log.rows_of(users)
        basis = np.full(self.log.n_rows, np.nan, dtype=np.float32)
        basis[rows] = predictor.logits_of_rows(self.log, rows)
        return partial(
            fit_on_episodes,
            model,
            basis,
            self.log,
            self.sampler(name, users).epoch,
            ONE_EPOCH,
            config,
        )

    def all_sizes(self, name: str, users: Users) -> Callable[[], list[float]]:
        """From raw rows to the AUC of every support size."""
        predictor, model = self.parts(name)
        sizes = self.configs[name].evaluation.sizes[1:]

        def work() -> list[float]:
            ordered = OrderedUsers.of(self.log, users, seed=1)
            basis = predictor.logits_of_rows(self.log, ordered.rows)
            logits = model.score_prefixes(self.log, ordered, sizes, basis=basis)
            labels, positions = self.log.labels[ordered.rows], ordered.positions
            queries = [positions >= size for size in sizes]
            return [auc(labels[query], logits[query, column]) for column, query in enumerate(queries)]

        return work

    def naive_epoch(self, name: str, users: Users) -> Callable[[], None]:
        """The queries and supports of our first epoch."""
        config = self.configs[name]
        batches = self.sampler(name, users).epoch(0)
        firsts = np.concatenate([batch.rows[np.cumsum(batch.lengths) - batch.lengths] for batch in batches])
        owners = np.searchsorted(self.log.offsets, firsts, side="right") - 1
        return partial(
            train_epoch,
            NaiveResus(*self.parts(name)),
            events_of(self.log, users),
            pd.Series(np.concatenate([batch.support_sizes for batch in batches]), index=owners),
            slots=config.max_support,
            learning_rate=config.training.learning_rate,
            progress=self.progress,
        )

    def naive_sizes(self, name: str, users: Users) -> Callable[[], list[float]]:
        naive, events, largest = (
            NaiveResus(*self.parts(name)),
            events_of(self.log, users),
            self.configs[name].max_support,
        )
        sizes = range(1, largest + 1)
        return lambda: [found for _, found in score_sizes(naive, events, sizes, slots=largest, progress=self.progress)]

    def matrix_products(self, users: Users) -> Callable[[], None]:
        """The matrix products of an epoch of Ψ and nothing else: one forward and two backward per layer."""
        predictor = self.parts("RESUS-RR")[0]
        batch = GradientSettings.sharing(self.configs["RESUS-RR"].predictor).batch_size
        assert isinstance(predictor.encoder, DeepFM)
        weights = [module.weight.detach() for module in predictor.modules() if isinstance(module, torch.nn.Linear)]
        inputs = [torch.randn(batch, weight.shape[1]) for weight in weights]
        outputs = [torch.randn(batch, weight.shape[0]) for weight in weights]
        to_weights, to_inputs = [w.clone() for w in weights], [x.clone() for x in inputs]

        def work() -> None:
            for _ in range(int(self.log.lengths[users].sum()) // batch):
                for x, w, y, dw, dx in zip(inputs, weights, outputs, to_weights, to_inputs, strict=True):
                    torch.mm(x, w.T, out=y)
                    torch.mm(y.T, x, out=dw)
                    torch.mm(y, w, out=dx)

        return work


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure speed and memory.")
    parser.add_argument("--quick", action="store_true", help="a smoke test on a small planted world")
    parser.add_argument(
        "--out", type=Path, help=f"file for the figures as JSON lines [default: {FIGURES}; none with --quick]"
    )
    chosen = parser.parse_args()
    scale = QUICK if chosen.quick else _movielens()
    out = chosen.out or (None if chosen.quick else FIGURES)
    with progress_bars() as progress, tempfile.TemporaryDirectory() as folder:
        figures = _measure(scale, Path(folder), progress)
    _show(figures, f"{scale.prepare[0]}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    if out:
        lines = [asdict(figure) | {"measured": float(f"{figure.measured:.4g}")} for figure in figures]
        write_text(out, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def _measure(scale: Scale, folder: Path, progress: Progress) -> list[Figure]:
    figures = [_help_time(progress), *_commands(scale, folder, progress)]
    bench = Bench(InteractionLog.open(folder / "log"), scale, progress)
    figures += _our_epochs(bench)
    figures += _our_sizes(bench)
    for name in LEARNERS:
        figures += _against_naive(bench, name)
    return figures


def _help_time(progress: Progress) -> Figure:
    seconds = []
    for done in range(10):
        progress("resus --help", done, 10)
        seconds.append(_timed(partial(subprocess.run, [RESUS, "--help"], check=True, stdout=subprocess.DEVNULL))[0])
    progress("resus --help", 10, 10)
    return Figure("resus --help", "median of 10 processes", statistics.median(seconds), "s")


def _commands(scale: Scale, folder: Path, progress: Progress) -> list[Figure]:
    """Real commands in separate processes: prepare, then one epoch of each stage, then the evaluation."""
    short = ("--set", "predictor.epochs=1", "--set", "training.epochs=1")
    log, ridge, nearest = (str(folder / name) for name in ("log", "ridge", "nearest"))
    commands = {
        "prepare": ("prepare", *scale.prepare, "--out", log),
        "train RESUS-RR": ("train", log, "--out", ridge, "--learner", "ridge", *short),
        "evaluate RESUS-RR": ("evaluate", ridge, "--draws", "0"),
        "train RESUS-NN": ("train", log, "--out", nearest, "--learner", "nearest", "--predictor-from", ridge, *short),
        "evaluate RESUS-NN": ("evaluate", nearest, "--draws", "0"),
    }
    figures = []
    for name, command in commands.items():
        progress(f"resus {name}", 0, 1)
        cost = cost_of(str(RESUS), *command)
        figures.append(Figure(f"resus {name}: peak memory", "the whole data set", cost.peak_bytes / 1e9, "GB"))
        if "train" not in name:
            figures.append(Figure(f"resus {name}", "the whole data set", cost.seconds, "s"))
        progress(f"resus {name}", 1, 1)
    for name, run in (("RESUS-RR", ridge), ("RESUS-NN", nearest)):
        for line in map(json.loads, (Path(run) / METRICS_FILE).read_text().splitlines()):
            what = "Ψ" if line["stage"] == "predictor" else name
            figures.append(Figure(f"{what}: epoch and validation", "all training users", line["seconds"], "s"))
    return figures


def _our_epochs(bench: Bench) -> list[Figure]:
    users = _sample(bench.train_users, round(bench.scale.epoch_share * len(bench.train_users)))
    works = {
        "bare matrix products of Ψ": bench.matrix_products(users),
        "Ψ": bench.predictor_epoch(users),
        **{name: bench.residual_epoch(name, users) for name in LEARNERS},
    }
    seconds = _best(works, bench, "our epochs")
    on, rows = bench.population("training", users)
    figures = [
        Figure("epoch of RESUS-RR over epoch of Ψ", on, seconds["RESUS-RR"] / seconds["Ψ"], "×"),
        Figure("epoch of Ψ over its bare matrix products", on, seconds["Ψ"] / next(iter(seconds.values())), "×"),
    ]
    for name, spent in seconds.items():
        figures.append(Figure(f"{name}: epoch", on, spent, "s"))
        figures.append(Figure(f"{name}: speed of an epoch", on, rows / spent, "rows/s"))
    return figures


def _our_sizes(bench: Bench) -> list[Figure]:
    users = bench.test_users
    on, rows = bench.population("test", users)
    seconds = _best({name: bench.all_sizes(name, users) for name in (*LEARNERS, PLUS)}, bench, "our support sizes")
    figures = [Figure(f"{PLUS}: all support sizes, over RESUS-RR's", on, seconds[PLUS] / seconds["RESUS-RR"], "×")]
    for name, spent in seconds.items():
        figures.append(Figure(f"{name}: all support sizes", on, spent, "s"))
        figures.append(Figure(f"{name}: speed at all support sizes", on, rows / spent, "rows/s"))
    return figures


def _against_naive(bench: Bench, name: str) -> list[Figure]:
    """Our time includes Ψ's logits of all rows, which a run computes once and the naive epoch every time."""
    trained = _sample(bench.train_users, bench.scale.naive_epoch_users)
    tested = _sample(bench.test_users, bench.scale.naive_sizes_users)
    sizes = bench.all_sizes(name, tested)
    ours = _best(
        {"epoch": lambda: bench.residual_epoch(name, trained)(), "sizes": sizes}, bench, f"{name} on the sampled users"
    )
    naive_epoch, _ = _timed(bench.naive_epoch(name, trained))
    naive_sizes, aucs = _timed(bench.naive_sizes(name, tested))
    assert np.allclose(aucs, sizes(), atol=1e-3), "the naive implementation and ours must give the same AUCs"
    figures = []
    for what, naive, mine, on in (
        ("epoch", naive_epoch, ours["epoch"], bench.population("training", trained)[0]),
        ("all support sizes", naive_sizes, ours["sizes"], bench.population("test", tested)[0]),
    ):
        figures.append(Figure(f"{name}: {what}, naive", on, naive, "s"))
        figures.append(Figure(f"{name}: {what}, ours", on, mine, "s"))
        figures.append(Figure(f"{name}: {what}, naive over ours", on, naive / mine, "×"))
    return figures


def _sample(users: Users, count: int) -> Users:
    return np.sort(np.random.default_rng(1).choice(users, size=count, replace=False))


def _best(works: Mapping[str, Callable[[], object]], bench: Bench, task: str) -> dict[str, float]:
    """The fewest seconds of each. Repetitions alternate, so that a slow phase of the machine affects all alike."""
    found = dict.fromkeys(works, float("inf"))
    turns = [name for _ in range(bench.scale.repeats) for name in works]
    for done, name in enumerate(turns):
        bench.progress(task, done, len(turns))
        found[name] = min(found[name], _timed(works[name])[0])
    bench.progress(task, len(turns), len(turns))
    return found


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def _show(figures: list[Figure], title: str) -> None:
    table = Table(title=title)
    for column in ("figure", "on", "measured"):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for figure in figures:
        table.add_row(figure.figure, figure.on, f"{_readable(figure.measured)} {figure.unit}")
    console.print(table)


def _readable(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    main()
