"""`resus export`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="Folder for the export. An older export in it is replaced.")],
    titles: Annotated[
        Path | None, typer.Option(help="Titles of items: CSV or TSV (item, title), movies.dat or meta.csv.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Folder of the prepared log, if it moved after training.")] = None,
    onnx: Annotated[
        bool | None,
        typer.Option(
            "--onnx/--no-onnx", help="Write ONNX files for other runtimes. [default: if resus[onnx] is installed]"
        ),
    ] = None,
    profiles: Annotated[
        bool, typer.Option("--profiles/--no-profiles", help="Write the profiles of the log's users, by user id.")
    ] = True,
    score_with: Annotated[
        Path | None,
        typer.Option(help="Your model file, if the run learned from its scores: the service then runs it."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="For --score-with: the table that the log was prepared from, if it moved."),
    ] = None,
) -> None:
    """Write a folder to serve: the model, a catalogue of items, test users for the playground, and ONNX files.

    An export holds data of the log: its items with their counts, the profiles of its users (such as age and country)
    with their user ids unless you say --no-profiles, and events of up to 200 test users without user ids. Share it only
    where you may share the log.

    With --score-with, the export holds your model, and requests bring the columns that it reads instead of scores. The
    table of the log is read again: your model must give its rows the scores that the run learned from.
    """
    from resus.cli.arguments import log_of_run
    from resus.cli.console import say
    from resus.errors import ConfigError
    from resus.estimator import Resus
    from resus.serving.export import check_out_folder, export, read_titles
    from resus.serving.profiles import PROFILES

    check_out_folder(out)
    if table is not None and score_with is None:
        raise ConfigError("--table is for --score-with: leave it out, or name your model as well")
    model = Resus.load(run)
    named = read_titles(titles) if titles else {}
    written = export(
        run,
        log_of_run(run, model, data),
        out,
        titles=named,
        onnx=onnx,
        profiles=profiles,
        score_with=score_with,
        table=table,
    )
    say(f"export in {out}: {', '.join(written)}")
    holds = "events of test users"
    if PROFILES in written:
        holds += " and profiles of users with their ids (--no-profiles leaves them out)"
    say(f"the export holds {holds}: share it only where you may share the log")
