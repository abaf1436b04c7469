"""RESUS and its shared model on the published data sets, by cold-start stage, mean over seeds.

    python -m benchmarks.quality [ml-1m | authors-release | frappe]

Each finished cell (data set, protocol, seed) is one line of benchmarks/quality.jsonl. Only missing cells run, and a
killed cell resumes from its last epoch. `resus report runs/benchmarks/ml-1m-1.json` draws the curves of a cell.
"""

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.published import published_log
from resus import Results, Resus
from resus.cli.console import progress_bars
from resus.config.resolve import resolve
from resus.files import write_text

CELLS = Path("benchmarks/quality.jsonl")
RUNS = Path("runs/benchmarks")
STAGES = ("I", "II", "III")
console = Console()


@dataclass(frozen=True)
class Suite:
    """One data set under one protocol."""

    data_set: str
    protocol: str
    seeds: tuple[int, ...]
    learners: tuple[str, ...]


SUITES = {
    "frappe": Suite("frappe", "paper", (1, 2, 3, 4, 5), ("ridge", "nearest")),
    "authors-release": Suite("ml-1m", "authors-release", (1, 2, 3), ("ridge",)),
    "ml-1m": Suite("ml-1m", "paper", (1, 2, 3), ("ridge", "nearest")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="*", type=_known_suite, help=f"{', '.join(SUITES)} [default: all]")
    for name in parser.parse_args().suite or SUITES:
        for seed in SUITES[name].seeds:
            if seed not in _finished(name):
                _run_cell(name, SUITES[name], seed)
        _show(name, SUITES[name])


def _known_suite(name: str) -> str:
    if name not in SUITES:
        raise argparse.ArgumentTypeError(f"unknown suite '{name}', choose from {', '.join(SUITES)}")
    return name


def _run_cell(name: str, suite: Suite, seed: int) -> None:
    path, log = published_log(suite.data_set, suite.protocol)
    folder = RUNS / f"{name}-{seed}"
    models: dict[str, Resus] = {}
    for learner in suite.learners:
        run = folder / learner
        config = resolve({"protocol": suite.protocol, "seed": seed, "learner.kind": learner}, data_set=log.data_set)
        if (run / "artifact.json").exists():
            model = Resus.load(run)
        else:
            with progress_bars() as progress:
                console.print(f"{name}, seed {seed}: {config.model_name}")
                first = next(iter(models.values()), None)
                model = Resus.from_config(config).fit(
                    path, folder=run, resume=True, predictor_from=first, progress=progress
                )
        models[model.name] = model
    results = Resus.compare(models, log, draws=0)
    results.write(RUNS / f"{name}-{seed}.json")
    cell = {"suite": name, "seed": seed, "base": results.base}
    cell |= {"population": _population(results), "stages": _stages(results)}
    write_text(CELLS, (CELLS.read_text() if CELLS.exists() else "") + json.dumps(cell) + "\n")
    shutil.rmtree(folder)


def _stages(results: Results) -> dict[str, Any]:
    return {
        model: {
            stage: {key: round(value, 5) for key, value in metrics.model_dump(exclude={"sizes", "gap_closed"}).items()}
            for stage, metrics in found.stages.items()
        }
        for model, found in results.models.items()
    }


def _population(results: Results) -> dict[str, int]:
    sizes = results.models[results.base].sizes
    return {f"users at k={k}": sizes[k].users for k in (results.sizes[0], results.sizes[-1])}


def _finished(name: str) -> dict[int, dict[str, Any]]:
    if not CELLS.exists():
        return {}
    cells = [json.loads(line) for line in CELLS.read_text().splitlines()]
    return {cell["seed"]: cell for cell in cells if cell["suite"] == name}


def _show(name: str, suite: Suite) -> None:
    cells = [cell for seed, cell in sorted(_finished(name).items()) if seed in suite.seeds]
    table = Table(title=f"{suite.data_set}, protocol {suite.protocol}, mean ± sd of {len(cells)} seeds")
    for column in ("model", "stage", "AUC", "GAUC", "Logloss", "RelaImpr"):
        table.add_column(column, justify="left" if column in ("model", "stage") else "right")
    for model in cells[0]["stages"]:
        for stage in STAGES:
            row = [_over_seeds(cells, model, stage, key) for key in ("auc", "gauc", "logloss", "rela_impr")]
            table.add_row(
                model, stage, *(f"{np.mean(v):.4f} ± {np.std(v):.4f}" for v in row[:3]), f"{np.mean(row[3]):+.1f} %"
            )
    console.print(table)


def _over_seeds(cells: list[dict[str, Any]], model: str, stage: str, metric: str) -> Any:
    return np.array([cell["stages"][model][stage][metric] for cell in cells])


if __name__ == "__main__":
    main()
