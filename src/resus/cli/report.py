"""`resus report`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    source: Annotated[Path, typer.Argument(help="A folder with results.json, or such a file.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the pictures and the page. [default: beside the results]")
    ] = None,
) -> None:
    """Curves over the support sizes and gains by stage as PNG, and one self-contained HTML page."""
    from resus.artifact import FACTS
    from resus.cli.console import say
    from resus.errors import ArtifactError
    from resus.evaluation.results import Results
    from resus.files import read_json
    from resus.report.figures import size_curves
    from resus.report.gain_figure import gain_picture
    from resus.report.html import write_report

    file = source / "results.json" if source.is_dir() else source
    if not file.is_file():
        advice = f"make it with 'resus evaluate {source}'" if source.is_dir() else "check the path"
        raise ArtifactError(f"{file} does not exist: {advice}")
    results = Results.read(file)
    facts = read_json(file.parent / FACTS) if (file.parent / FACTS).is_file() else {}
    folder = out or file.parent
    pictures = [*size_curves(results, folder), *gain_picture(results, folder)]
    page = write_report(results, folder / "report.html", config=facts.get("config"), history=facts.get("history"))
    say(f"{len(pictures)} pictures in {folder}")
    say(f"report: {page}")
