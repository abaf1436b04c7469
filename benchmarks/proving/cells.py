"""One cell: a method on a data set with one seed. Finished cells are lines of a file; only missing ones run."""

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.proving.draws import METRICS, draws_of_cell
from benchmarks.proving.methods import SHARED
from resus.arrays import Doubles
from resus.baselines.base import Task
from resus.cli.console import peak_memory
from resus.config.resolve import PLAIN, resolve
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.errors import ConfigError
from resus.evaluation.intervals import StageDraws
from resus.evaluation.population import staged_results
from resus.evaluation.results import MetricValue, Record
from resus.files import locked, write_text
from resus.paper.cells.measure import measure
from resus.paper.cells.records import Seconds, append_record, read_records
from resus.paper.rivals import METHODS
from resus.progress import Progress, silent
from resus.tensor_files import load_tensors, save_tensors

CELLS = "cells.jsonl"
VALIDATING = 2 / 7  # validation users per training user, as in a 7:2:1 split
Key = tuple[str, int | None, str, int]


class Values(Record):
    auc: MetricValue
    gauc: MetricValue
    logloss: MetricValue


class ProvedCell(Record):
    """The result of one cell.

    `sizes` holds the middle size of each stage. `elapsed` and `cpu` are the seconds of this cell itself, which may
    have found the shared model on the shelf; a busy machine makes `elapsed` longer.
    """

    format: Literal[1] = 1
    data_set: str
    training_users: int | None  # None: as many as a 7:2:1 split gives
    method: str
    seed: int
    mark: str  # a short hash of the settings and the data
    test_users: int
    stages: dict[str, Values]
    sizes: dict[int, Values]
    seconds: Seconds
    elapsed: float
    cpu: float
    peak_bytes: int
    threads: int

    @property
    def key(self) -> Key:
        return self.data_set, self.training_users, self.method, self.seed


@dataclass(frozen=True)
class PlannedCell:
    """A cell to run."""

    folder: Path
    log: Path
    data_set: str
    training_users: int | None
    method: str
    seed: int
    mark: str
    threads: int

    @property
    def key(self) -> Key:
        return self.data_set, self.training_users, self.method, self.seed

    @property
    def name(self) -> str:
        return name_of(self.key)


def plan(
    logs: Mapping[str, Path],
    *,
    folder: Path,
    methods: Sequence[str],
    seeds: Sequence[int],
    training_users: int | None,
    threads: int,
) -> list[PlannedCell]:
    """Seed by seed, Ψ first. Neighbours are of different data sets, so that no process waits for another's Ψ."""
    opened = {name: InteractionLog.open(path) for name, path in logs.items()}
    first = sorted(methods, key=lambda method: method != SHARED)
    return [
        PlannedCell(
            folder=folder,
            log=logs[data_set],
            data_set=data_set,
            training_users=training_users,
            method=method,
            seed=seed,
            mark=_mark(config_of(log, seed, training_users), log),
            threads=threads,
        )
        for seed in seeds
        for method in first
        for data_set, log in opened.items()
    ]


def config_of(log: InteractionLog, seed: int, training_users: int | None) -> Config:
    """The default settings; methods bring their own on top. All users who neither train nor validate are test users."""
    settings: dict[str, Any] = {**PLAIN, "seed": seed}
    if training_users is not None:
        validating = round(training_users * VALIDATING)
        left = log.n_users - training_users - validating
        if left < 1 or validating < 1:
            raise ConfigError(
                f"'{log.name}' has {log.n_users:,} users, and {training_users:,} training users with {validating:,} "
                "validation users leave none to test: choose another number with --training-users"
            )
        settings["split.ratios"] = (training_users, validating, left)
    return resolve(settings, data_set=log.data_set)


def missing(planned: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Cells that are not finished with the same data and settings."""
    finished = {(folder, cell.key, cell.mark) for folder in {p.folder for p in planned} for cell in read_cells(folder)}
    return [cell for cell in planned if (cell.folder, cell.key, cell.mark) not in finished]


def read_cells(folder: Path) -> list[ProvedCell]:
    """Finished cells. Of several with the same key the last counts."""
    return list({cell.key: cell for cell in read_records(folder / CELLS, ProvedCell)}.values())


def forget(folder: Path, unwanted: Iterable[Key]) -> None:
    """Delete cells, so that they run again."""
    keys = set(unwanted)
    with locked(folder / f".{CELLS}.lock"):
        kept = [cell for cell in read_records(folder / CELLS, ProvedCell) if cell.key not in keys]
        write_text(folder / CELLS, "".join(cell.model_dump_json() + "\n" for cell in kept))
    for key in keys:
        draws_path(folder, key).unlink(missing_ok=True)
        shutil.rmtree(_unfinished(folder, name_of(key)), ignore_errors=True)


def run_cell(planned: PlannedCell, progress: Progress = silent) -> None:
    """Run the cell, or resume it. Its line is written last."""
    began, cpu = time.perf_counter(), time.process_time()
    torch.set_num_threads(planned.threads)
    _forget_peak()
    log = InteractionLog.open(planned.log)
    config = config_of(log, planned.seed, planned.training_users)
    work, shelf = _unfinished(planned.folder, planned.name), planned.folder / "shelf" / planned.data_set
    task = Task(log, config, folder=work, shelf=shelf, progress=progress)
    measured = measure(planned.method, METHODS[planned.method], task, {})
    peak, scored, stages = _peak(), measured.scored, config.evaluation.stages
    results = staged_results(scored, stages=stages, base=planned.method)[planned.method]
    progress("drawing users", 0, None)
    draws = draws_of_cell(scored, n_users=log.n_users, stages=stages)
    save_tensors(
        draws_path(planned.folder, planned.key),
        {f"{stage} {metric}": torch.from_numpy(values) for (stage, metric), values in draws.items()},
        {"mark": planned.mark},
    )
    cell = ProvedCell(
        data_set=planned.data_set,
        training_users=planned.training_users,
        method=planned.method,
        seed=planned.seed,
        mark=planned.mark,
        test_users=len(task.split.test),
        stages={stage: _values(found.metrics) for stage, found in results.stages.items()},
        sizes={k: _values(results.sizes[k].metrics) for k in middle_sizes(config)},
        seconds=measured.seconds,
        elapsed=round(time.perf_counter() - began, 1),
        cpu=round(time.process_time() - cpu, 1),
        peak_bytes=peak,
        threads=planned.threads,
    )
    append_record(planned.folder / CELLS, cell)
    shutil.rmtree(work, ignore_errors=True)


def middle_sizes(config: Config) -> list[int]:
    """One support size per stage: 5, 15 and 25 events by default."""
    return [members[(len(members) - 1) // 2] for members in config.evaluation.stages.values()]


def name_of(key: Key) -> str:
    data_set, training_users, method, seed = key
    return f"{data_set}-{method}-{seed}" + (f"-{training_users}-users" if training_users else "")


def draws_path(folder: Path, key: Key) -> Path:
    return folder / "draws" / f"{name_of(key)}.safetensors"


def read_draws(folder: Path, cell: ProvedCell) -> StageDraws | None:
    """What `draws_of_cell` gave; None if the file is gone or belongs to another run of the cell."""
    path = draws_path(folder, cell.key)
    if not path.is_file():
        return None
    tensors, facts = load_tensors(path)
    if facts["mark"] != cell.mark:
        return None
    found: dict[tuple[str, str], Doubles] = {}
    for name, values in tensors.items():
        stage, metric = name.split(" ")
        found[stage, metric] = values.numpy()
    return found


def _values(metrics: Mapping[str, float | None]) -> Values:
    return Values.model_validate({metric: metrics[metric] for metric in METRICS})


def _mark(config: Config, log: InteractionLog) -> str:
    return config.fingerprint(log.content_hash)[:12]


def _unfinished(folder: Path, name: str) -> Path:
    return folder / "unfinished" / name


def _forget_peak() -> None:
    """Linux keeps the peak memory of a process until told to start again; other systems count earlier cells too."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def _peak() -> int:
    """Peak memory since `_forget_peak`, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return peak_memory()
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
