"""RESUS+ in the planted world, compared with the best possible answer from the same events.

    python -m benchmarks.planted [SEED ...]

A seed draws the world and the run. The exact posterior knows the world, but not the user's bias and taste: of these it
knows the prior and the events of the support. Its answer is the mean probability over that five-dimensional posterior,
by importance sampling (`exact_answers`).

Each finished seed is one line of runs/benchmarks/planted.jsonl. Only missing seeds run, and a killed one resumes from
its last epoch.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import expit, logit
from scipy.stats import chi2, norm, qmc

from resus import InteractionLog, PlantedWorld, Resus, planted_log
from resus.arrays import Doubles, Integers
from resus.cli.console import progress_bars
from resus.config.resolve import resolve
from resus.data.datasets.planted import draw_world
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc
from resus.files import write_text

CELLS = Path("runs/benchmarks/planted.jsonl")
RUNS = Path("runs/benchmarks")
SEEDS = (1, 2, 3, 4, 5)
SIZES = (5, 15, 30)
EXACT, TRUE_KERNEL = "exact posterior", "Ψ, true traits and prior"

POINTS = 4096
FREEDOM = 8  # degrees of the Student distribution to draw from: its tails are longer than the posterior's
NEWTON_STEPS = 30
USERS_AT_ONCE = 8
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", nargs="*", type=int, help=f"{', '.join(map(str, SEEDS))} [default: all]")
    seeds = parser.parse_args().seed or SEEDS
    for seed in seeds:
        if seed not in _finished():
            _run_cell(seed)
    _show([_finished()[seed] for seed in seeds])


def _run_cell(seed: int) -> None:
    world = PlantedWorld(seed=seed)
    log = planted_log(world)
    folder = RUNS / f"planted-{seed}"
    models: dict[str, Resus] = {}
    for learner in ("plus", "ridge"):
        config = resolve({"seed": seed, "learner.kind": learner}, data_set=log.data_set)
        console.print(f"planted, seed {seed}: {config.model_name}")
        first = next(iter(models.values()), None)
        with progress_bars() as progress:
            models[config.model_name] = Resus.from_config(config).fit(
                log, folder=folder / learner, resume=True, predictor_from=first, progress=progress
            )
    results = Resus.compare(models, log, draws=0)
    aucs = {name: {str(k): found.sizes[k].auc for k in SIZES} for name, found in results.models.items()}
    bounds, effective = _bounds(world, log, models["RESUS+"])
    cell = {"seed": seed, "base": results.base, "effective": effective, "aucs": aucs | bounds}
    write_text(CELLS, (CELLS.read_text() if CELLS.exists() else "") + json.dumps(cell) + "\n")
    shutil.rmtree(folder)


def _bounds(world: PlantedWorld, log: InteractionLog, model: Resus) -> tuple[dict[str, Any], float]:
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
    aucs: dict[str, dict[str, float]] = {TRUE_KERNEL: {}, EXACT: {}}
    effective = 1.0
    for name, logits in ((TRUE_KERNEL, basis), (EXACT, hidden.known[ordered.rows])):
        for k in SIZES:
            chances, counting = exact_answers(logits, design, labels, ordered.lengths, prior, k)
            asked = ordered.positions >= k
            aucs[name][str(k)] = auc(labels[asked], logit(chances[asked]))
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


def _finished() -> dict[int, dict[str, Any]]:
    if not CELLS.exists():
        return {}
    return {cell["seed"]: cell for cell in map(json.loads, CELLS.read_text().splitlines())}


def _show(cells: list[dict[str, Any]]) -> None:
    seeds = ", ".join(str(cell["seed"]) for cell in cells)
    table = Table(title=f"AUC and the share of the gap from crowd to oracle closed, mean over seeds {seeds}")
    table.add_column("model", no_wrap=True)
    for k in SIZES:
        table.add_column(f"{k} events", justify="right", no_wrap=True)
    for name in cells[0]["aucs"]:
        row = []
        for k in SIZES:
            value = np.mean([cell["aucs"][name][str(k)] for cell in cells])
            row.append(f"{value:.4f} {np.mean([_closed(cell, name, k) for cell in cells]):7.1%}")
        table.add_row(name, *row)
    console.print(table)
    ratios = {bound: [_ratio(cell, bound) for cell in cells] for bound in (EXACT, TRUE_KERNEL)}
    console.print(
        f"after {SIZES[-1]} events RESUS+ closes {_listed(ratios[EXACT])} of the gap that the exact posterior closes, "
        f"and {_listed(ratios[TRUE_KERNEL])} of the gap that its own Ψ closes with the true traits and prior"
    )
    least = min(cell["effective"] for cell in cells)
    console.print(f"at least {least:.0%} of the {POINTS} points around a user's mode are effective", style="dim")


def _ratio(cell: dict[str, Any], bound: str) -> float:
    """The gap that RESUS+ closes at the last size, as a share of the gap that the bound closes."""
    return _closed(cell, "RESUS+", SIZES[-1]) / _closed(cell, bound, SIZES[-1])


def _listed(ratios: list[float]) -> str:
    each = f" ({', '.join(f'{ratio:.1%}' for ratio in ratios)})" if len(ratios) > 1 else ""
    return f"{np.mean(ratios):.1%}{each}"


def _closed(cell: dict[str, Any], name: str, k: int) -> float:
    """Share of the gap from crowd to oracle that a model closes."""
    crowd, oracle, own = (float(cell["aucs"][model][str(k)]) for model in ("crowd", "oracle", name))
    return (own - crowd) / (oracle - crowd)


if __name__ == "__main__":
    main()
