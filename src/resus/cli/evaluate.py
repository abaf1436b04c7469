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
        int, typer.Option(help="Draws of users for the 95 % intervals of the gains; 0 leaves the gains out.")
    ] = 200,
    out: Annotated[Path | None, typer.Option(help="Folder for results.json. [default: the first run]")] = None,
) -> None:
    """AUC, GAUC, Logloss and calibration at every support size, and by cold-start stage, on users never trained on.

    Below: what each model gains over the base, and how sure that is.
    """
    from resus.cli.console import out as console
    from resus.cli.console import progress_bars, say
    from resus.cli.locations import find_log
    from resus.errors import ConfigError
    from resus.estimator import Resus
    from resus.evaluation.gains import check_draws
    from resus.report.gain_table import GainTable
    from resus.report.terminal import results_table

    if part not in ("test", "validation"):
        raise ConfigError(f"--part is '{part}': choose test or validation")
    check_draws(draws)
    models = [Resus.load(run) for run in runs]
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        names = [f"{name} [{run}]" for name, run in zip(names, runs, strict=True)]
    if len({run.resolve() for run in runs}) < len(runs):
        raise ConfigError("the same run is named twice: name each run once")
    log = find_log(data) if data else models[0].log_path
    if not log.is_dir():
        raise ConfigError(f"the log {log} on which {runs[0]} was trained is gone: say where it is with --data")
    with progress_bars() as progress:
        results = Resus.compare(
            dict(zip(names, models, strict=True)),
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
