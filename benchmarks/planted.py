"""RESUS+ in planted worlds, compared with the best possible answer from the same events.

    python -m benchmarks.planted [SEED ...] [--users 500,2000,10000] [--jobs 2]

A seed draws the world and the run. The exact posterior knows the world, but not the user's bias and taste: of these it
knows the prior and the events of the support. Its answer is the mean probability over that five-dimensional posterior,
by importance sampling (`exact_answers`).

Each finished cell (number of users, seed) is one line of runs/benchmarks/planted.jsonl. Only missing cells run, and a
killed one resumes from its last epoch.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.special import expit, logit
from scipy.stats import chi2, norm, qmc

from benchmarks.threads import threads_of_each
from resus import InteractionLog, PlantedWorld, Resus, planted_log
from resus.arrays import Doubles, Integers
from resus.cli.console import progress_bars, warn
from resus.config.resolve import resolve
from resus.data.datasets.planted import draw_world
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc
from resus.evaluation.results import Record
from resus.paper.cells.records import append_record, read_records
from resus.paper.cells.workers import run_missing
from resus.progress import Progress, silent

RUNS = Path("runs/benchmarks")
CELLS = "planted.jsonl"
SEEDS = (1, 2, 3, 4, 5)
SIZES = (5, 15, 30)
PLUS, EXACT, TRUE_KERNEL = "RESUS+", "exact posterior", "Ψ, true traits and prior"

POINTS = 4096
FREEDOM = 8  # degrees of the Student distribution to draw from: its tails are longer than the posterior's
NEWTON_STEPS = 30
USERS_AT_ONCE = 8
console = Console()


class WorldCell(Record):
    """The AUC of each model and bound by support size in one world; `effective` is of `exact_answers`, the smallest."""

    users: int
    seed: int
    effective: float
    aucs: dict[str, dict[int, float]]

    def closed(self, model: str, size: int) -> float:
        """Share of the gap from crowd to oracle that a model closes."""
        crowd, oracle, own = (self.aucs[name][size] for name in ("crowd", "oracle", model))
        return (own - crowd) / (oracle - crowd)


@dataclass(frozen=True)
class PlannedWorld:
    """A cell to run."""

    folder: Path
    users: int
    seed: int
    threads: int

    @property
    def name(self) -> str:
        return f"planted-{self.users}-{self.seed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", nargs="*", type=int, help=f"{', '.join(map(str, SEEDS))} [default: all]")
    parser.add_argument("--users", type=_numbers, default=(PlantedWorld().users,), help="separated by commas [3000]")
    parser.add_argument("--jobs", type=int, default=1, help="number of worlds to run at the same time [1]")
    options = parser.parse_args()
    threads, seeds = threads_of_each(options.jobs), options.seed or SEEDS
    planned = [PlannedWorld(RUNS, users, seed, threads) for seed in seeds for users in options.users]
    with progress_bars() as progress:
        failures = run_missing(planned, run_world, missing, jobs=options.jobs, progress=progress)
    for name, sentence in failures.items():
        warn(f"cell {name} failed: {sentence}")
    for users in options.users:
        finished = [cell for cell in read_worlds() if cell.users == users and cell.seed in seeds]
        if finished:
            _show(sorted(finished, key=lambda cell: cell.seed))
    sys.exit(1 if failures else 0)


def missing(planned: Sequence[PlannedWorld]) -> list[PlannedWorld]:
    finished = {
        (folder, cell.users, cell.seed) for folder in {p.folder for p in planned} for cell in read_worlds(folder)
    }
    return [cell for cell in planned if (cell.folder, cell.users, cell.seed) not in finished]


def read_worlds(folder: Path = RUNS) -> list[WorldCell]:
    return read_records(folder / CELLS, WorldCell)


def run_world(planned: PlannedWorld, progress: Progress = silent) -> None:
    torch.set_num_threads(planned.threads)
    world = PlantedWorld(users=planned.users, seed=planned.seed)
    log = planted_log(world)
    folder = planned.folder / planned.name
    models: dict[str, Resus] = {}
    for learner in ("plus", "ridge"):
        config = resolve({"seed": planned.seed, "learner.kind": learner}, data_set=log.data_set)
        first = next(iter(models.values()), None)
        models[config.model_name] = Resus.from_config(config).fit(
            log, folder=folder / learner, resume=True, predictor_from=first, progress=progress
        )
    results = Resus.compare(models, log, draws=0)
    aucs = {name: {k: found.sizes[k].auc for k in SIZES} for name, found in results.models.items()}
    bounds, effective = _bounds(world, log, models[PLUS])
    cell = WorldCell.model_validate(
        {"users": planned.users, "seed": planned.seed, "effective": effective, "aucs": aucs | bounds}
    )
    append_record(planned.folder / CELLS, cell)
    shutil.rmtree(folder)


def _bounds(world: PlantedWorld, log: InteractionLog, model: Resus) -> tuple[dict[str, dict[int, float]], float]:
    """AUCs of the exact posterior and of the same posterior on Ψ's logits; the smallest share of effective points."""
    hidden = draw_world(world)
    assert log.truth is not None
    assert model.pretrained is not None
    assert np.array_equal(log.truth, hidden.events["truth"].to_numpy().astype(np.float32)), "the log keeps the order"
    ordered = OrderedUsers.of(log, model.config.user_split(log.n_users).test, model.config.seed)
    labels = log.labels[ordered.rows].astype(np.float64)
    traits = hidden.traits[hidden.events["item"].to_numpy()[ordered.rows]]
    design = np.column_stack([np.ones(len(traits)), traits])
    prior = np.array([world.bias_spread**2] + [world.taste_spread**2] * world.traits)
    basis = model.pretrained.logits_of_rows(log, ordered.rows).astype(np.float64)
    aucs: dict[str, dict[int, float]] = {TRUE_KERNEL: {}, EXACT: {}}
    effective = 1.0
    for name, logits in ((TRUE_KERNEL, basis), (EXACT, hidden.known[ordered.rows])):
        for k in SIZES:
            chances, counting = exact_answers(logits, design, labels, ordered.lengths, prior, k)
            asked = ordered.positions >= k
            aucs[name][k] = auc(labels[asked], logit(chances[asked]))
            effective = min(effective, float(counting.min()))
    return aucs, effective


def exact_answers(
    known: Doubles, design: Doubles, labels: Doubles, lengths: Integers, prior: Doubles, size: int
) -> tuple[Doubles, Doubles]:
    """P(click) of each row `[N]` given its user's first `size` rows, and each user's share of effective points.

    The logit of a label is known + design · w, and a user's w is Gaussian with variances `prior`. The posterior mean is
    taken over `POINTS` Sobol points of a Student distribution around the mode, each weighted by posterior density over
    Student density. Rows of the support, and of users with no other rows, are NaN.
    """
    starts = np.cumsum(lengths) - lengths
    answers = np.full(len(known), np.nan)
    having = np.flatnonzero(lengths > size)
    having = having[np.argsort(lengths[having], kind="stable")]
    points = _student_points(design.shape[1])
    surplus = -0.5 * (FREEDOM + design.shape[1]) * np.log1p((points**2).sum(axis=1) / FREEDOM)
    counting = []
    for users in np.split(having, range(USERS_AT_ONCE, len(having), USERS_AT_ONCE)):
        within = np.arange(lengths[users].max())
        filled = within < lengths[users, None]
        places = np.where(filled, starts[users, None] + within, starts[users, None])
        rows, base = design[places], known[places]
        support, clicks = rows[:, :size], labels[places[:, :size]]
        mode, hessian = _mode(base[:, :size], support, clicks, prior)
        spread = np.linalg.cholesky(np.linalg.inv(hessian))
        drawn = mode[:, :, None] + spread @ points.T  # [U, D, M]
        logits = base[:, :, None] + rows @ drawn
        known_logits = logits[:, :size]
        density = (clicks[:, :, None] * known_logits - np.logaddexp(0, known_logits)).sum(axis=1)
        density -= 0.5 * (drawn**2 / prior[:, None]).sum(axis=1) + surplus
        weights = np.exp(density - density.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        chances = (expit(logits) @ weights[:, :, None]).squeeze(2)
        asked = filled & (within >= size)
        answers[places[asked]] = chances[asked]
        counting.append(1 / (weights**2).sum(axis=1) / len(points))
    return answers, np.concatenate(counting)


def _student_points(dimensions: int) -> Doubles:
    uniform = qmc.Sobol(dimensions + 1, scramble=True, seed=0).random(POINTS)
    points: Doubles = norm.ppf(uniform[:, :-1]) / np.sqrt(chi2.ppf(uniform[:, -1:], FREEDOM) / FREEDOM)
    return points


def _mode(base: Doubles, support: Doubles, clicks: Doubles, prior: Doubles) -> tuple[Doubles, Doubles]:
    """The mode of each user's posterior, by Newton's method, and the Hessian there."""
    mode = np.zeros((len(base), len(prior)))
    hessian = np.zeros((*mode.shape, len(prior)))
    for _ in range(NEWTON_STEPS):
        chance = expit(base + (support @ mode[:, :, None]).squeeze(2))
        weighted = support * (chance * (1 - chance))[:, :, None]
        hessian = support.transpose(0, 2, 1) @ weighted + np.diag(1 / prior)
        slope = (support * (clicks - chance)[:, :, None]).sum(axis=1) - mode / prior
        mode = mode + np.linalg.solve(hessian, slope[:, :, None]).squeeze(2)
    assert np.abs(slope).max() < 1e-6, "Newton's method ends at the mode"
    return mode, hessian


def share_closed(cells: Sequence[WorldCell], size: int, bound: str = EXACT) -> float:
    """The gap that RESUS+ closes over the gap that the bound closes, both as means over the seeds."""
    ours, theirs = (np.mean([cell.closed(name, size) for cell in cells]) for name in (PLUS, bound))
    return float(ours / theirs)


def _show(cells: Sequence[WorldCell]) -> None:
    seeds = ", ".join(str(cell.seed) for cell in cells)
    table = Table(
        title=f"{cells[0].users:,} users: AUC and closed share of the gap from crowd to oracle, mean over seeds {seeds}"
    )
    table.add_column("model", no_wrap=True)
    for k in SIZES:
        table.add_column(f"{k} events", justify="right", no_wrap=True)
    for name in cells[0].aucs:
        row = []
        for k in SIZES:
            value, closed = (
                np.mean([cell.aucs[name][k] for cell in cells]),
                np.mean([cell.closed(name, k) for cell in cells]),
            )
            row.append(f"{value:.4f} {closed:7.1%}")
        table.add_row(name, *row)
    console.print(table)
    shares = " / ".join(f"{share_closed(cells, k):.1%}" for k in SIZES)
    own = ", ".join(f"{share_closed([cell], SIZES[-1]):.1%}" for cell in cells)
    last = SIZES[-1]
    console.print(
        f"after {' / '.join(map(str, SIZES))} events RESUS+ closes {shares} of the gap that the exact posterior closes "
        f"(by seed after {last}: {own}), and after {last} {share_closed(cells, last, TRUE_KERNEL):.1%} of the gap that "
        "its own Ψ closes with the true traits and prior"
    )
    least = min(cell.effective for cell in cells)
    console.print(f"at least {least:.0%} of the {POINTS} points around a user's mode are effective", style="dim")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


if __name__ == "__main__":
    main()
