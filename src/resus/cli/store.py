"""`resus store check`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check where events are kept.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def options() -> None:
    """Check where events are kept."""


@app.command("check", short_help="Say what is readable in a store, and salvage it.")
def check(
    store: Annotated[str, typer.Argument(help="The SQLite file of a store, or redis://…")],
    salvage: Annotated[
        Path | None, typer.Option(help="Copy every readable event to this new SQLite file, to serve from it.")
    ] = None,
) -> None:
    """Say what is readable in a store, and salvage it. The exit code is 2 if something is damaged.

    The store itself is not changed. Stop the service before you salvage, so that no event is added meanwhile.
    """
    from resus.cli.console import say
    from resus.serving.store import checking

    found = checking.salvage(store, salvage) if salvage else checking.check(store)
    profiles = f" and {found.profiles:,} profile{'' if found.profiles == 1 else 's'}" if found.profiles else ""
    say(f"{found.events:,} events{profiles} of {found.users:,} users are readable")
    for problem in found.problems:
        say(f"damage: {problem}")
    if found.outside:
        say(
            f"{found.outside:,} of the events were found outside of the damaged tables; "
            "some of them may have been deleted by users"
        )
    if salvage:
        say(f"they are in {salvage}: serve them with --store {salvage}")
    elif found.problems:
        say("to save the readable events, add --salvage NEW.sqlite")
    if found.problems:
        raise typer.Exit(2)
