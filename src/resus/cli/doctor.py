"""`resus doctor`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    path: Annotated[Path, typer.Argument(help="A data file or a folder of a published data set.")],
    schema: Annotated[
        Path | None, typer.Option(help="For a table of your own: YAML that says what its columns mean.")
    ] = None,
) -> None:
    """Explain everything that is wrong with an input, with row and column, and what to do about it."""
    from rich.table import Table

    from resus.cli.console import out as console
    from resus.data.doctor import diagnose
    from resus.data.schema import TableSchema

    problems = diagnose(path, TableSchema.read(schema) if schema else None)
    if not problems:
        console.print(f"{path}: nothing wrong found; 'resus prepare' will take it", soft_wrap=True)
        return
    table = Table("file", "row", "column", "what is wrong", "what to do", show_lines=True)
    for problem in problems:
        row = "" if problem.row is None else f"{problem.row:,}"
        table.add_row(Path(problem.where).name, row, problem.column or "", problem.what, problem.fix)
    console.print(table)
    noun = "problem" if len(problems) == 1 else "problems"
    console.print(f"{len(problems)} {noun} in {path}", soft_wrap=True)
    raise typer.Exit(2)
