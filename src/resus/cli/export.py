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
) -> None:
    """Write a folder to serve: the model, a catalogue of items, test users for the playground, and ONNX files.

    An export holds data of the log: its items with their counts, and events of up to 200 test users without user ids.
    Share it only where you may share the log.
    """
    from resus.cli.arguments import log_of_run
    from resus.cli.console import say
    from resus.estimator import Resus
    from resus.serving.export import check_out_folder, export, read_titles

    check_out_folder(out)
    model = Resus.load(run)
    written = export(run, log_of_run(run, model, data), out, titles=read_titles(titles) if titles else {}, onnx=onnx)
    say(f"export in {out}: {', '.join(written)}")
    say("the export holds events of test users: share it only where you may share the log")
