"""Cells spread over processes: each takes the next one that nobody has finished or holds, so a killed run goes on."""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.queues import SimpleQueue

from resus.checking import on_one_line
from resus.errors import ResusError
from resus.files import locked
from resus.paper.cells.cells import Key, read_cells
from resus.paper.cells.experiment import Request, run_cell
from resus.progress import Progress, silent

POLL = 1.0  # seconds between two looks at the file of finished cells
Failures = dict[str, str]


def missing(requests: Sequence[Request]) -> list[Request]:
    """Those not finished yet; one that must run alone is finished only by a cell that did."""
    folders = {request.folder for request in requests}
    finished: set[tuple[Key, bool]] = set()
    for folder in folders:
        for cell in read_cells(folder):
            finished |= {(cell.key, False), (cell.key, cell.alone)}
    return [request for request in requests if (request.key, request.alone) not in finished]


def run_cells(requests: Sequence[Request], *, jobs: int, progress: Progress = silent) -> Failures:
    """Run what is missing; a cell that fails is told of at the end and does not stop the others."""
    if jobs == 1:
        return _work(requests, lambda: True, progress)
    context = multiprocessing.get_context("spawn")
    told: SimpleQueue[Failures] = context.SimpleQueue()
    workers = [
        context.Process(target=_work_for, args=(os.getpid(), list(requests), told), daemon=True) for _ in range(jobs)
    ]
    for worker in workers:
        worker.start()
    failures: Failures = {}
    try:
        while any(worker.is_alive() for worker in workers):
            progress("cells", len(requests) - len(missing(requests)), len(requests))
            time.sleep(POLL)
            while not told.empty():
                failures |= told.get()
    finally:
        for worker in workers:
            worker.terminate()
    while not told.empty():
        failures |= told.get()
    left = {request.name for request in missing(requests)} - set(failures)
    progress("cells", len(requests) - len(left) - len(failures), len(requests))
    return failures | dict.fromkeys(left, "its process ended before it did: run the same command again")


def _work_for(parent: int, requests: list[Request], told: "SimpleQueue[Failures]") -> None:
    """A worker process; it stops between two cells when its parent is gone."""
    told.put(_work(requests, lambda: os.getppid() == parent, silent))


def _work(requests: Sequence[Request], wanted: Callable[[], bool], progress: Progress) -> Failures:
    """First what nobody holds, then what others held: they may have been killed."""
    failures: Failures = {}
    for wait in (False, True):
        for request in requests:
            if not wanted():
                return failures
            if request.name in failures:
                continue
            with locked(request.folder / "locks" / f"{request.name}.lock", wait=wait) as mine:
                if not mine or not missing([request]):
                    continue
                try:
                    run_cell(request, _told_of(request, progress))
                except ResusError as error:
                    failures[request.name] = str(error)
                except Exception as error:  # one cell's trouble must not cost the others
                    if os.environ.get("RESUS_DEBUG"):
                        raise
                    failures[request.name] = f"{type(error).__name__}: {on_one_line(error)}; see it whole with --debug"
    return failures


def _told_of(request: Request, progress: Progress) -> Progress:
    """Progress that says which cell it is of."""
    return lambda task, done, total, unit="": progress(f"{request.name}: {task}", done, total, unit)
