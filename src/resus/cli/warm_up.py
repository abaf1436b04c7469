"""`resus warm-up`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from resus.baselines.base import MethodSpec

RIVALS = "user-bias,history-trees"


def command(
    runs: Annotated[list[Path], typer.Argument(help="One or more run folders, compared on the same users.")],
    up_to: Annotated[int, typer.Option(min=1, max=2000, help="Largest number of known events.")] = 300,
    rivals: Annotated[
        str,
        typer.Option(
            help="Methods to train and draw next to the runs, separated by commas: user-bias, history-trees, din, or "
            "names of `resus reproduce --methods`. Most train networks, which takes minutes. Use none for no rivals."
        ),
    ] = RIVALS,
    data: Annotated[str | None, typer.Option(help="Folder of the log, if it moved since training.")] = None,
    part: Annotated[str, typer.Option(help="Users to measure: test or validation.")] = "test",
    out: Annotated[
        Path | None, typer.Option(help="Folder for warm-up.json, .png and .html. [default: the first run]")
    ] = None,
) -> None:
    """Draw AUC and GAUC of the same queries after 0, 1, 2, 3, 5 … --up-to known events.

    The curve may go beyond the number of events in training. It ends early if fewer than 30 users have more events.
    Rivals use default hyperparameters, and the shared model and settings of the first run that has a shared model.
    """
    from resus.extras import need

    need("report", "resus warm-up")
    from resus.baselines.base import LazyMethod, Task, find_methods
    from resus.cli.arguments import check_part, load_runs, log_of_run
    from resus.cli.console import console, progress_bars, say
    from resus.data.log.log import InteractionLog
    from resus.estimator import Resus
    from resus.report.page import write_warm_up
    from resus.report.tables import warm_up_table

    check_part(part)
    names = [] if rivals == "none" else [name.strip() for name in rivals.split(",") if name.strip()]
    chosen = find_methods(names, _methods(names))
    models = load_runs(runs)
    log = log_of_run(runs[0], next(iter(models.values())), data)
    lead = next((model for model in models.values() if model.pretrained is not None), next(iter(models.values())))
    with progress_bars() as progress:
        task = Task(
            InteractionLog.open(log), lead.config.without_learner(), predictor=lead.pretrained, progress=progress
        )
        curve = Resus.warm_up(
            models,
            task.log,
            up_to=up_to,
            rivals={spec.label: LazyMethod(spec, task) for spec in chosen.values()},
            part="test" if part == "test" else "validation",
            progress=progress,
        )
    folder = out or runs[0]
    curve.write(folder / "warm-up.json")
    picture, page = write_warm_up(curve, folder)
    console.print(*warm_up_table(curve), sep="\n")
    say(f"picture: {picture}; page: {page}; the numbers: {folder / 'warm-up.json'}")


def _methods(names: Sequence[str]) -> "Mapping[str, MethodSpec]":
    """The baselines; the methods of the paper as well if one of them is named."""
    from resus.baselines import BASELINES

    if all(name in BASELINES for name in names):
        return BASELINES
    from resus.paper.rivals import METHODS

    return METHODS
