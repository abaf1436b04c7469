"""`resus evaluate`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[list[Path], typer.Argument(help="One or more run folders, compared on the same users.")],
    data: Annotated[
        str | None,
        typer.Option(help="Another log with the same fields, such as a newer one. [default: the log of the first run]"),
    ] = None,
    users: Annotated[
        str,
        typer.Option(
            help="Users of --data to measure: unseen by the runs in training and validation; new: in no log of theirs; "
            "or all."
        ),
    ] = "unseen",
    part: Annotated[str, typer.Option(help="Users to measure: test or validation.")] = "test",
    base: Annotated[
        str | None, typer.Option(help="Model to compare the others with. [default: the shared model of the first run]")
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            help="Number of draws of users for the 95 % intervals, 40 to 100,000. 0 skips gains and coverage."
        ),
    ] = 200,
    device: Annotated[
        str, typer.Option(help="Where networks run: cpu, cuda, mps, or auto for the first that is there.")
    ] = "cpu",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results.json. [default: the first run, or its folder on-NAME for the newer log NAME; in "
            "it the folder validation for --part validation]"
        ),
    ] = None,
) -> None:
    """Measure runs on users they were not trained on, by number of known events and by stage.

    Prints AUC, GAUC, Logloss, calibration error, and what each model gains over the base with 95 % intervals. The
    results of test users of the run's own log stay when it is measured on other users or another log.
    """
    from resus.cli.arguments import check_device, check_part, check_users, load_runs, log_of_run
    from resus.cli.console import console, progress_bars, say
    from resus.cli.news import tell_news
    from resus.estimator import Resus
    from resus.evaluation.intervals import check_draws
    from resus.report.tables import GainTable, StageTable

    check_part(part)
    asked = check_users(users, part)
    check_draws(draws)
    models = load_runs(runs, check_device(device))
    log = log_of_run(runs[0], next(iter(models.values())), data)
    with progress_bars() as progress:
        results = Resus.compare(
            models,
            log,
            part="test" if part == "test" else "validation",
            users=asked,
            base=base,
            draws=draws,
            progress=progress,
        )
    is_newer = next(iter(models)) in results.news
    beside = runs[0] / f"on-{log.resolve().name}" if is_newer else runs[0]
    folder = out or (beside if part == "test" else beside / part)
    results.write(folder / "results.json")
    tell_news(results, users)
    console.print(StageTable(results), GainTable(results), sep="")
    say(f"results in {folder / 'results.json'}; next: resus report {folder}")
