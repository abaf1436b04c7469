"""Where the command line talks: results to standard output, progress and errors to standard error."""

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from resus.progress import Progress as ProgressCall

out = Console(soft_wrap=False)
err = Console(stderr=True)


def say(text: str) -> None:
    """A line as it is: paths and names may hold brackets, which rich would take for markup."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def progress_bars() -> Iterator[ProgressCall]:
    """One line per task, with an estimate; a task's line stays when the next one begins."""
    bars = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        transient=False,
    )
    tasks: dict[str, TaskID] = {}

    def show(task: str, done: int, total: int | None) -> None:
        if task not in tasks:
            tasks[task] = bars.add_task(task, total=total)
            if not err.is_terminal:
                err.print(f"{task} …")
        bars.update(tasks[task], completed=done, total=total)

    if not err.is_terminal:
        yield show
        return
    with bars:
        yield show
