"""`resus report`."""

from pathlib import Path
from typing import Annotated

import typer

RESULTS = "results.json"
WARM_UP = "warm-up.json"


def command(
    source: Annotated[Path, typer.Argument(help="A folder with results.json or warm-up.json, or one of these files.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the pictures and the page. [default: the folder of the results]")
    ] = None,
) -> None:
    """Draw results or a warm-up curve: PNG pictures and one HTML page."""
    from resus.errors import ArtifactError
    from resus.extras import need

    need("report", "resus report")
    found = [source / name for name in (RESULTS, WARM_UP) if (source / name).is_file()] if source.is_dir() else [source]
    if not found:
        raise ArtifactError(
            f"{source} has no {RESULTS} and no {WARM_UP}: run 'resus evaluate' or 'resus warm-up' first, and name the "
            "folder it writes to"
        )
    if not found[0].is_file():
        raise ArtifactError(f"{source} does not exist: check the path")
    for file in found:
        (_draw_warm_up if file.name == WARM_UP else _draw_results)(file, out or file.parent)


def _draw_results(file: Path, folder: Path) -> None:
    from resus.artifact import FACTS, history_of
    from resus.checked_folder import CheckedFolder
    from resus.cli.console import say
    from resus.evaluation.results import Results
    from resus.report.figures import write_pictures
    from resus.report.page import write_report

    results = Results.read(file)
    run = CheckedFolder.open(file.parent) if (file.parent / FACTS).exists() else None
    history = history_of(run) if run else []
    pictures = write_pictures(results, folder)
    page = write_report(results, folder / "report.html", config=run.facts["config"] if run else None, history=history)
    say(f"{len(pictures)} pictures in {folder}")
    say(f"report: {page}")


def _draw_warm_up(file: Path, folder: Path) -> None:
    from resus.cli.console import say
    from resus.evaluation.results import WarmUp
    from resus.report.page import write_warm_up

    picture, page = write_warm_up(WarmUp.read(file), folder)
    say(f"warm-up: {picture} and {page}")
