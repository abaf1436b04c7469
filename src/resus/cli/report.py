"""`resus report`."""

from pathlib import Path
from typing import Annotated

import typer

RESULTS = "results.json"
WARM_UP = "warm-up.json"


def command(
    source: Annotated[Path, typer.Argument(help="A folder with results.json or warm-up.json, or such a file.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the pictures and the page. [default: beside the results]")
    ] = None,
) -> None:
    """Curves over the support sizes and gains by stage as PNG, and one HTML page; a warm-up curve is drawn again."""
    from resus.errors import ArtifactError

    found = [source / name for name in (RESULTS, WARM_UP) if (source / name).is_file()] if source.is_dir() else [source]
    if not found:
        raise ArtifactError(
            f"{source} holds neither {RESULTS} nor {WARM_UP}: make one with 'resus evaluate' or 'resus warm-up' of a "
            "run, and point to the folder that it names"
        )
    if not found[0].is_file():
        raise ArtifactError(f"{source} does not exist: check the path")
    for file in found:
        (_draw_warm_up if file.name == WARM_UP else _draw_results)(file, out or file.parent)


def _draw_results(file: Path, folder: Path) -> None:
    from resus.artifact import FACTS
    from resus.cli.console import say
    from resus.evaluation.results import Results
    from resus.files import read_json
    from resus.report.figures import size_curves
    from resus.report.gain_figure import gain_picture
    from resus.report.html import write_report

    results = Results.read(file)
    facts = read_json(file.parent / FACTS) if (file.parent / FACTS).is_file() else {}
    pictures = [*size_curves(results, folder), *gain_picture(results, folder)]
    page = write_report(results, folder / "report.html", config=facts.get("config"), history=facts.get("history"))
    say(f"{len(pictures)} pictures in {folder}")
    say(f"report: {page}")


def _draw_warm_up(file: Path, folder: Path) -> None:
    from resus.cli.console import say
    from resus.evaluation.results import WarmUp
    from resus.report.warm_up_page import draw_warm_up

    picture, page = draw_warm_up(WarmUp.read(file), folder)
    say(f"warm-up: {picture} and {page}")
