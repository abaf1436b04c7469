"""`resus doctor`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    path: Annotated[
        Path, typer.Argument(help="A data file, the folder of a published data set, a prepared log or a run.")
    ],
    schema: Annotated[
        Path | None, typer.Option(help="Schema of your own table: a YAML file that says what the columns mean.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As for resus prepare, such as duplicates=first."),
    ] = None,
) -> None:
    """List everything that is wrong with an input, with row and column, and how to fix it."""
    from rich.markup import escape
    from rich.table import Table

    from resus.artifact import FACTS, Artifact
    from resus.checking import checked
    from resus.cli.console import console, say
    from resus.config.resolve import parse_assignments
    from resus.data.doctor import examine
    from resus.data.log.log import MANIFEST, InteractionLog
    from resus.data.options import PrepareOptions
    from resus.data.schema import TableSchema

    if (path / MANIFEST).exists():
        log = InteractionLog.open(path)
        log.check_content(path)
        say(f"{path} is a complete prepared log: '{log.name}' with {log.n_rows:,} events of {log.n_users:,} users")
        return
    if (path / FACTS).exists():
        say(f"{path} is a trained run of {Artifact.load(path).config.model_name}; doctor checks data")
        return
    options = checked(PrepareOptions, parse_assignments(assignments or []))
    problems, notices = examine(path, TableSchema.read(schema) if schema else None, options)
    for notice in notices:
        say(notice)
    if not problems:
        say(f"{path}: no problems found; 'resus prepare' accepts it")
        return
    table = Table("file", "row", "column", "problem", "how to fix it", show_lines=True)
    for problem in problems:
        row = "" if problem.row is None else f"{problem.row:,}"
        cells = (Path(problem.where).name, row, problem.column or "", problem.what, problem.fix)
        table.add_row(*map(escape, cells))
    console.print(table)
    noun = "problem" if len(problems) == 1 else "problems"
    say(f"{len(problems)} {noun} in {path}")
    raise typer.Exit(2)
