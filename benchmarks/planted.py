"""RESUS+ in the planted world, against the best that anyone could answer from the same events.

    python -m benchmarks.planted [SEED ...]

A seed is that of the world and of the run. The exact posterior knows what the world was drawn from, but for the user's
own bias and taste: of these it knows the prior, and the events of the support. Its answer is the mean probability over
that posterior, of five dimensions, by importance sampling (`exact_answers`).

A finished seed is one line of runs/benchmarks/planted.jsonl; asked again, only missing seeds run, and a killed one goes
on from its last epoch.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from scipy.special import expit, logit
from scipy.stats import chi2, norm, qmc

from resus import InteractionLog, PlantedWorld, Resus, planted_log
from resus.cli.console import progress_bars
from resus.config.settings import resolve
from resus.data.datasets.planted import draw_world
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc
from resus.files import write_text

CELLS = Path("runs/benchmarks/planted.jsonl")
RUNS = Path("runs/benchmarks")
SEEDS = (1, 2, 3, 4, 5)
SIZES = (5, 15, 30)
TARGET = 0.9  # of what the exact posterior closes at the last size
EXACT, TRUE_KERNEL = "exact posterior", "Ψ, true traits and prior"

POINTS = 4096
FREEDOM = 8  # of the Student distribution that is drawn from: its tails are longer than a posterior's
NEWTON_STEPS = 30
USERS_AT_ONCE = 8
console = Console()

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def main(chosen: list[str]) -> None:
    strange = [seed for seed in chosen if not seed.isdigit()]
    if strange:
        sys.exit(f"{', '.join(strange)}: a seed is a whole number")
    seeds = tuple(map(int, chosen)) or SEEDS
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
    """AUCs of the exact posterior, and of the same on Ψ's logits; the smallest share of points that count."""
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
    """P(click) of each row `[N]` given its user's first `size` rows, and the share of points that count, by user.

    A label is a coin of logit known + design · w, and a user's w is Gaussian with variances `prior`. The mean over w's
    posterior is taken over `POINTS` Sobol points, as a Student distribution around the mode spreads them, each weighted
    by posterior over Student density. A row of the support, or of a user who has no other, is nan.
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
    """Of each user's posterior, by Newton's method, and the Hessian there."""
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
    met = np.mean(ratios[EXACT]) >= TARGET
    console.print(
        f"{'met' if met else 'MISSED'}: at {SIZES[-1]} events RESUS+ closes {_listed(ratios[EXACT])} of what the exact "
        f"posterior closes, target {TARGET:.0%}; of what its own Ψ closes with the true traits and prior, "
        f"{_listed(ratios[TRUE_KERNEL])}"
    )
    least = min(cell["effective"] for cell in cells)
    console.print(f"of {POINTS} points around a user's mode, at least {least:.0%} count", style="dim")


def _ratio(cell: dict[str, Any], bound: str) -> float:
    """Of what the bound closes at the last size, the share that RESUS+ closes."""
    return _closed(cell, "RESUS+", SIZES[-1]) / _closed(cell, bound, SIZES[-1])


def _listed(ratios: list[float]) -> str:
    each = f" ({', '.join(f'{ratio:.1%}' for ratio in ratios)})" if len(ratios) > 1 else ""
    return f"{np.mean(ratios):.1%}{each}"


def _closed(cell: dict[str, Any], name: str, k: int) -> float:
    """Share of the gap from crowd to oracle."""
    crowd, oracle, own = (float(cell["aucs"][model][str(k)]) for model in ("crowd", "oracle", name))
    return (own - crowd) / (oracle - crowd)


if __name__ == "__main__":
    main(sys.argv[1:])
