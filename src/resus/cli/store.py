"""`resus store`: check where events are kept, salvage them, and delete old ones."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Check where events are kept, salvage them, and delete old ones.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def options() -> None:
    """Check where events are kept, salvage them, and delete old ones."""


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


@app.command("forget", short_help="Delete events that are older than a time.")
def forget(
    store: Annotated[str, typer.Argument(help="The SQLite file of a store, or redis://…")],
    after: Annotated[str, typer.Option(help="Delete events that are older, such as 90d, 12h or 30m.")],
) -> None:
    """Delete events that are older than a time, and users who then have none, once and at full speed.

    A service may use the store meanwhile; its next answers know nothing of the events. To delete continuously, serve
    with --forget-after.
    """
    import time
    from contextlib import closing

    from resus.cli.console import interruptible, say
    from resus.errors import ConfigError
    from resus.serving.expiry import expiring, seconds_in
    from resus.serving.store import is_address, open_store
    from resus.serving.store.checking import EVERYTHING

    before = time.time() - seconds_in(after)
    if not is_address(store) and not Path(store.removeprefix("sqlite:")).is_file():
        raise ConfigError(f"{store} is not a file: name the SQLite file of a store, or the address of a Redis")
    events = users = 0
    with closing(open_store(store, capacity=EVERYTHING)) as opened, interruptible("the same command continues"):
        step = expiring(opened).expire(before)
        events, users = step.events, step.users
        while step.cursor:
            step = expiring(opened).expire(before, step.cursor)
            events, users = events + step.events, users + step.users
    say(f"events older than {after} that were deleted: {events:,}; users deleted with their last event: {users:,}")
