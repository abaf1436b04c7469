"""`resus evaluate`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[list[Path], typer.Argument(help="One or more run folders, compared on the same users.")],
    data: Annotated[str | None, typer.Option(help="The log, if it moved since training.")] = None,
    part: Annotated[str, typer.Option(help="test or validation.")] = "test",
    base: Annotated[
        str | None, typer.Option(help="RelaImpr and gains are over this model. [default: the first run's Ψ]")
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            help="Draws of users for the 95 % intervals of the gains, 40 to 100,000; 0 leaves out the gains, and the "
            "coverage of RESUS+'s intervals."
        ),
    ] = 200,
    out: Annotated[Path | None, typer.Option(help="Folder for results.json. [default: the first run]")] = None,
) -> None:
    """AUC, GAUC, Logloss and calibration at every support size, and by cold-start stage, on users never trained on.

    Below: what each model gains over the base, and how sure that is.
    """
    from resus.cli.console import out as console
    from resus.cli.console import progress_bars, say
    from resus.cli.runs import check_part, load_runs, log_of_runs
    from resus.estimator import Resus
    from resus.evaluation.intervals import check_draws
    from resus.report.gain_table import GainTable
    from resus.report.terminal import results_table

    check_part(part)
    check_draws(draws)
    models = load_runs(runs)
    log = log_of_runs(models, runs, data)
    with progress_bars() as progress:
        results = Resus.compare(
            models,
            log,
            part="test" if part == "test" else "validation",
            base=base,
            draws=draws,
            progress=progress,
        )
    folder = out or runs[0]
    results.write(folder / "results.json")
    console.print(results_table(results), GainTable(results), sep="")
    say(f"results in {folder / 'results.json'}; next: resus report {folder}")
