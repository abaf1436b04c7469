"""Output of the command line: results on standard output, progress and errors on standard error."""

import contextlib
import sys
import time
from collections.abc import Iterator

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from resus.progress import Progress as ProgressCall

LINE_SECONDS = 30.0  # between two lines about a long task, if there is no terminal for progress bars

console = Console(soft_wrap=False)
err = Console(stderr=True)


def say(text: str) -> None:
    """Print a line literally: paths and names may hold brackets, which rich would read as markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line literally on standard error."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def progress_bars() -> Iterator[ProgressCall]:
    """One progress bar per task, with the time left.

    If standard error is not a terminal: one line when a task starts, and one every half minute.
    """
    if not err.is_terminal:
        yield _Lines()
        return
    bars = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        _Counted(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=err,
        transient=False,
    )
    tasks: dict[str, TaskID] = {}

    def show(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task not in tasks:
            tasks[task] = bars.add_task(task, total=total, unit=unit)
        bars.update(tasks[task], completed=done, total=total)

    with bars:
        yield show


@contextlib.contextmanager
def interruptible(advice: str) -> Iterator[None]:
    """On Ctrl-C, say how to continue and exit with 130."""
    try:
        yield
    except KeyboardInterrupt:
        warn(f"stopped; {advice}")
        raise typer.Exit(130) from None


class _Counted(ProgressColumn):
    """How much is done; with a unit, also the speed and the peak memory."""

    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text(_counted(int(task.completed), task.total, task.fields["unit"], rate))


class _Lines:
    """Plain lines for a log file."""

    def __init__(self) -> None:
        self._began: dict[str, tuple[float, int]] = {}
        self._said = 0.0

    def __call__(self, task: str, done: int, total: int | None, unit: str = "") -> None:
        now = time.monotonic()
        if task not in self._began:
            self._began[task] = now, done
            warn(f"{task} …")
        elif now - self._said < LINE_SECONDS:
            return
        else:
            then, before = self._began[task]
            rate = (done - before) / (now - then) if done > before else None
            left = f", {(total - done) / rate:,.0f} s left" if total and rate else ""
            warn(f"{task}: {_counted(done, total, unit, rate)}{left}")
        self._said = now


def _counted(done: int, total: float | None, unit: str, rate: float | None) -> str:
    count = f"{_short(done)}/{'?' if total is None else _short(total)}"
    if not unit:
        return count
    speed = f", {_short(rate)}/s" if rate else ""
    memory = "" if sys.platform == "win32" else f", {peak_memory() / 1e9:.1f} GB"
    return f"{count} {unit}{speed}{memory}"


def _short(number: float) -> str:
    """A large number with three digits."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 10 * size:
            return f"{number / size:.3g}{letter}"
    return f"{number:,.0f}"


def peak_memory() -> int:
    """Peak memory of this process, in bytes."""
    import resource  # not available on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
