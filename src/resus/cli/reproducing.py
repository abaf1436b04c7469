"""The work of `resus reproduce`: run the missing cells, compare methods, write the report."""

import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import typer

from resus.baselines.base import find_methods
from resus.cli.arguments import find_log, planted_at
from resus.cli.console import progress_bars, say, warn
from resus.config.resolve import PLAIN, resolve
from resus.data.datasets.planted import PlantedWorld
from resus.data.log.log import InteractionLog
from resus.errors import ArtifactError, ConfigError
from resus.paper.cells.plan import PlannedCell, missing, plan_cells
from resus.paper.cells.records import first_of_each, fix_settings, read_cells, read_settings, read_trials
from resus.paper.cells.run import run_cells
from resus.paper.cells.workers import Failures
from resus.paper.comparisons import compare_all
from resus.paper.questions import DATA_SET_LABELS
from resus.paper.report.page import write_reproduction
from resus.paper.rivals import METHODS
from resus.training.run import check_log
from resus.version import __version__

OF_METHODS = {"predictor.kind", "predictor.pretrain", "encoder.kind", "learner.kind"}
QUICK_WORLD = PlantedWorld(users=400, items=80, events_per_user=45)
QUICK_SETTINGS: dict[str, Any] = {
    "predictor.hidden_units": [32],
    "encoder.hidden_units": [32],
    "predictor.cin_maps": [8],
    "encoder.cin_maps": [8],
    "predictor.epochs": 2,
    "training.epochs": 2,
    "training.batch_size": 512,
    "predictor.batch_size": 512,
}


def reproduce(
    questions: Sequence[str],
    *,
    data_sets: Sequence[str] | None,
    runs: int,
    methods: Sequence[str] | None,
    quick: bool,
    jobs: int,
    folder: Path,
    settings: Mapping[str, Any],
    replicates: int,
    report_only: bool,
) -> None:
    _refuse_mistakes(methods, settings, quick and bool(data_sets))
    logs, absent = ({"planted": folder / "planted"}, {}) if quick else _logs(data_sets)
    if quick:
        planted_at(logs["planted"], QUICK_WORLD)
    cores = 1 if quick else os.cpu_count() or 1  # small networks are slower with several threads
    planned = plan_cells(
        questions,
        logs,
        runs=1 if quick else runs,
        methods=methods,
        folder=folder,
        settings=(QUICK_SETTINGS if quick else {}) | dict(settings),
        cores=cores,
        jobs=1 if quick else jobs,
        search=not quick,
    )
    if not planned:
        raise ConfigError(f"{', '.join(questions)} compares none of {', '.join(methods or ())}: choose other methods")
    failures: Failures = {}
    if not report_only:
        for data_set, path in logs.items():
            log = InteractionLog.open(path)
            check_log(resolve({**PLAIN, **planned[0].settings}, data_set=log.data_set), log)
            fix_settings(folder, data_set, planned[0].settings, log.content_hash)
        failures = _run(planned, jobs, folder)
    finished = [cell for cell in read_cells(folder) if cell.method in METHODS]  # not those of a method that is gone
    cells = list(first_of_each(finished).values())
    if not cells:
        raise ArtifactError(f"{folder} holds no finished cell yet: run the same command without --report-only")
    with progress_bars() as progress:
        comparisons = compare_all(folder, cells, questions, replicates=replicates, progress=progress)
    written = write_reproduction(
        folder / "beyond" if list(questions) == ["beyond"] else folder,
        finished,
        comparisons,
        questions=questions,
        labels={name: spec.label for name, spec in METHODS.items()},
        trials=read_trials(folder),
        facts=_facts(folder),
        missing=absent,
    )
    for name, sentence in failures.items():
        warn(f"cell {name} failed: {sentence}")
    say(f"report in {next(path for path in written if path.suffix == '.html')}")
    if failures:
        raise typer.Exit(1)


def _refuse_mistakes(methods: Sequence[str] | None, settings: Mapping[str, Any], both: bool) -> None:
    find_methods(methods or (), METHODS)
    if "seed" in settings:
        raise ConfigError(
            "a reproduction chooses the seeds itself: leave out --set seed, and set the number of seeds with --runs"
        )
    if own := OF_METHODS & set(settings):
        raise ConfigError(
            f"each method has its own {min(own)}: leave out --set {min(own)}, and choose methods with --methods"
        )
    if both:
        raise ConfigError("--quick brings its own data set: leave out --dataset or --quick")


def _run(planned: Sequence[PlannedCell], jobs: int, folder: Path) -> Failures:
    left = missing(planned)
    say(f"{len(planned)} cells, {len(planned) - len(left)} of them finished; cells in {folder / 'cells.jsonl'}")
    failures: Failures = {}
    try:
        with progress_bars() as progress:
            failures |= run_cells([cell for cell in left if cell.alone], jobs=1, progress=progress)
            failures |= run_cells([cell for cell in left if not cell.alone], jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        warn("stopped; run the same command again to resume")
        raise typer.Exit(130) from None
    return failures


def _logs(data_sets: Sequence[str] | None) -> tuple[dict[str, Path], dict[str, str]]:
    """Prepared logs by name, and why a published data set is not among them. A named data set must be there."""
    if data_sets:
        chosen: dict[str, Path] = {}
        for asked in data_sets:
            path = find_log(asked)
            name = InteractionLog.open(path).data_set
            name = name if name in DATA_SET_LABELS else path.resolve().name
            if name in chosen:
                raise ConfigError(
                    f"--dataset {asked} is a second log of '{name}': run one at a time, each with its own --out"
                )
            chosen[name] = path
        return chosen, {name: "not selected" for name in DATA_SET_LABELS if name not in chosen}
    found, absent = {}, {}
    for name in DATA_SET_LABELS:
        try:
            found[name] = find_log(name)
        except ArtifactError:
            absent[name] = "data not available"
    if not found:
        raise ArtifactError(
            "no published data set is prepared: run 'resus prepare ml-1m' or 'resus prepare frappe', or try --quick"
        )
    return found, absent


def _facts(folder: Path) -> dict[str, str]:
    cells = read_cells(folder)
    hours = sum(cell.seconds.training + cell.seconds.scoring for cell in cells) / 3600
    return {
        "command": shlex.join(["resus", *sys.argv[1:]]),
        "settings": "; ".join(f"{data_set}: {own}" for data_set, own in read_settings(folder).items()),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": f"resus {__version__}, Python {platform.python_version()}, torch {torch.__version__}",
        "cells": f"{len({cell.key for cell in cells})}, {hours:.1f} hours of training and scoring",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )
