"""`resus warm-up`."""

from pathlib import Path
from typing import Annotated

import typer

QUICK = "user-bias,history-trees"  # they stand on the run's Ψ and train no network of their own


def command(
    runs: Annotated[list[Path], typer.Argument(help="One or more run folders, compared on the same users.")],
    up_to: Annotated[int, typer.Option(min=1, max=2000, help="The most events known of a user.")] = 300,
    rivals: Annotated[
        str,
        typer.Option(
            help="Methods to fit here and draw beside, separated by commas, as `resus reproduce --methods` names them; "
            "most train a network, which takes minutes; none for none."
        ),
    ] = QUICK,
    data: Annotated[str | None, typer.Option(help="The log, if it moved since training.")] = None,
    part: Annotated[str, typer.Option(help="test or validation.")] = "test",
    out: Annotated[
        Path | None, typer.Option(help="Folder for warm-up.json, .png and .html. [default: the first run]")
    ] = None,
) -> None:
    """AUC and GAUC of Ψ, the runs and rivals on the same queries after 0, 1, 2, 3, 5 … --up-to events of their users.

    Sizes beyond those of training are answered, too. Where fewer than 30 users have more than that many events, the
    curve ends earlier. Rivals have their default hyperparameters, and Ψ and settings of the first run that has a Ψ.
    """
    from resus.baselines.method import Task
    from resus.cli.console import out as console
    from resus.cli.console import progress_bars, say
    from resus.cli.runs import check_part, load_runs, log_of_runs
    from resus.data.log.log import InteractionLog
    from resus.estimator import Resus
    from resus.paper.rivals.rivals import rivals as rivals_by_name
    from resus.report.page import write_warm_up
    from resus.report.tables import warm_up_table

    check_part(part)
    names = [] if rivals == "none" else [name.strip() for name in rivals.split(",") if name.strip()]
    models = load_runs(runs)
    log = log_of_runs(models, runs, data)
    lead = next((model for model in models.values() if model.pretrained is not None), next(iter(models.values())))
    with progress_bars() as progress:
        task = Task(
            InteractionLog.open(log), lead.config.without_learner(), predictor=lead.pretrained, progress=progress
        )
        curve = Resus.warm_up(
            models,
            task.log,
            up_to=up_to,
            rivals=rivals_by_name(names, task),
            part="test" if part == "test" else "validation",
            progress=progress,
        )
    folder = out or runs[0]
    curve.write(folder / "warm-up.json")
    picture, page = write_warm_up(curve, folder)
    console.print(*warm_up_table(curve), sep="\n")
    say(f"picture: {picture}; page: {page}; the numbers: {folder / 'warm-up.json'}")
