"""Run cells, one after the other or in several processes.

Each process takes the next cell that is neither finished nor locked, so a killed reproduction can resume.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Protocol, TypeVar

from resus.checking import on_one_line
from resus.errors import ResusError
from resus.files import locked
from resus.progress import Progress, silent

POLL = 1.0  # seconds between two looks at the file of finished cells
Failures = dict[str, str]  # the name of a cell → what went wrong


class Runnable(Protocol):
    """A cell to run: locks are kept in its folder, under its name."""

    @property
    def folder(self) -> Path: ...

    @property
    def name(self) -> str: ...


AnyCell = TypeVar("AnyCell", bound=Runnable)
Run = Callable[[AnyCell, Progress], object]
Missing = Callable[[Sequence[AnyCell]], list[AnyCell]]  # those that are not finished


def run_missing(
    planned: Sequence[AnyCell],
    run: Run[AnyCell],
    missing: Missing[AnyCell],
    *,
    jobs: int,
    progress: Progress = silent,
) -> Failures:
    """Run what is missing. A cell that fails does not stop the others."""
    if jobs == 1:
        return _work(planned, run, missing, lambda: True, progress)
    context = multiprocessing.get_context("spawn")
    reports: SimpleQueue[Failures] = context.SimpleQueue()
    work = os.getpid(), list(planned), run, missing, reports
    workers = [context.Process(target=_worker, args=work, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    failures: Failures = {}
    try:
        while any(worker.is_alive() for worker in workers):
            progress("cells", len(planned) - len(missing(planned)), len(planned))
            time.sleep(POLL)
            while not reports.empty():
                failures |= reports.get()
    finally:
        for worker in workers:
            worker.terminate()
    while not reports.empty():
        failures |= reports.get()
    left = {cell.name for cell in missing(planned)} - set(failures)
    progress("cells", len(planned) - len(left) - len(failures), len(planned))
    return failures | dict.fromkeys(left, "its process ended early: run the same command again")


def _worker(
    parent: int,
    planned: list[AnyCell],
    run: Run[AnyCell],
    missing: Missing[AnyCell],
    reports: "SimpleQueue[Failures]",
) -> None:
    """A worker process. It stops between two cells when its parent is gone."""
    reports.put(_work(planned, run, missing, lambda: os.getppid() == parent, silent))


def _work(
    planned: Sequence[AnyCell],
    run: Run[AnyCell],
    missing: Missing[AnyCell],
    wanted: Callable[[], bool],
    progress: Progress,
) -> Failures:
    """First the cells that no process holds, then the others: their process may have been killed."""
    failures: Failures = {}
    for wait in (False, True):
        for cell in planned:
            if not wanted():
                return failures
            if cell.name in failures:
                continue
            with locked(cell.folder / "locks" / f"{cell.name}.lock", wait=wait) as mine:
                if not mine or not missing([cell]):
                    continue
                try:
                    run(cell, _named(cell, progress))
                except ResusError as error:
                    failures[cell.name] = str(error)
                except Exception as error:  # one failing cell must not stop the others
                    if os.environ.get("RESUS_DEBUG"):
                        raise
                    failures[cell.name] = (
                        f"{type(error).__name__}: {on_one_line(error)}; set RESUS_DEBUG=1 for the traceback"
                    )
            progress("cells", len(planned) - len(missing(planned)), len(planned))
    return failures


def _named(cell: Runnable, progress: Progress) -> Progress:
    """Progress that also names the cell."""
    return lambda task, done, total, unit="": progress(f"{cell.name}: {task}", done, total, unit)
