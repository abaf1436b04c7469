"""`resus export`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="Folder for the export; an older export there is replaced.")],
    titles: Annotated[
        Path | None, typer.Option(help="Titles of the items: CSV or TSV (item, title), movies.dat or meta.csv.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The log, if it moved since training.")] = None,
) -> None:
    """One folder to serve from: model, catalogue of items, test users for the playground, ONNX files of Ψ and Φ.

    An export holds data of the log: its items and their counts, and events of up to 200 test users, without user ids.
    Share it only where you may share the log.
    """
    from resus.cli.console import say
    from resus.cli.locations import find_log
    from resus.errors import ConfigError
    from resus.estimator import Resus
    from resus.serving.catalogue.titles import read_titles
    from resus.serving.export.export import export, refuse_foreign

    refuse_foreign(out)
    model = Resus.load(run)
    log = find_log(data) if data else model.log_path
    if not log.is_dir():
        raise ConfigError(f"the log {log} on which {run} was trained is gone: say where it is with --data")
    written = export(run, log, out, titles=read_titles(titles) if titles else {})
    say(f"export in {out}: {', '.join(written)}")
    say("it holds events of test users: share it only where you may share the log")
