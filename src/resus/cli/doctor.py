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
    draft: Annotated[
        bool, typer.Option("--draft-schema", help="Write a first schema for a table, as YAML with reasons.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="With --draft-schema: a new file for the schema. [default: print it]")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As for resus prepare, such as duplicates=first."),
    ] = None,
) -> None:
    """List everything that is wrong with an input, with row and column, and how to fix it.

    --draft-schema writes a first schema for a table that has none: it finds user, item, time and label, the kinds of
    the other columns, and which of them to leave out, each with a reason. Without a label, it draws negatives.
    """
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
    from resus.errors import ConfigError

    if draft:
        if schema is not None or assignments:
            raise ConfigError("--draft-schema finds a schema by itself: leave out --schema and --set")
        _draft(path, out)
        return
    if out is not None:
        raise ConfigError("--out needs --draft-schema: add it, or leave --out out")
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


def _draft(path: Path, out: Path | None) -> None:
    """Print a draft, or write it to a new file and say what to look at."""
    from resus.cli.console import say, warn
    from resus.data.drafting.draft import draft_schema
    from resus.data.sources import refuse_own_schema
    from resus.errors import ConfigError
    from resus.files import write_text

    if out is not None and out.exists():
        raise ConfigError(f"{out} exists already: name another file with --out, or delete it")
    refuse_own_schema(path)
    draft = draft_schema(path)
    if out is None:
        print(draft.text_for(None), end="")  # noqa: T201  # as it is, for a file
    else:
        write_text(out, draft.text_for(out))
        say(f"schema in {out}; check it, then: resus prepare {path} --schema {out}")
    for one in draft.suspicious:
        warn(one)
