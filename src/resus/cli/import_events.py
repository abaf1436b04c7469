"""`resus import`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="Folder of an export, or of a run: says what the columns mean.")],
    table: Annotated[
        Path, typer.Argument(help="The events, with labels and times: CSV, TSV or Parquet; also a folder of parts.")
    ],
    store: Annotated[
        str | None, typer.Option(help="Where events are kept: a file, or redis://… [default: FOLDER.events.sqlite]")
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option("--id", help="Column with the id of each event. [default: the item and the time are the id]"),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip and count rows that are no events, instead of refusing the table.")
    ] = False,
    remember: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of events to keep per user, as for resus serve.")
    ] = 200,
) -> None:
    """Store the events of a table, as the service would have stored them one by one.

    Every row is checked first, as POST /v1/events checks it, and nothing is stored if one is wrong. An event counts
    once, by its id, however often it is imported. A service may use the store meanwhile; its next answers count the new
    events. After a kill, the same command goes on where it was.
    """
    from resus.cli.console import interruptible, progress_bars, say, warn
    from resus.extras import need

    need("serve", "resus import")
    from resus.ingest.importing import import_events

    place = f"{run}.events.sqlite" if store is None else store
    with interruptible("the same command continues"), progress_bars() as progress:
        found = import_events(
            run, table, place, capacity=remember, id_column=event_id, skip_bad=skip_bad, progress=progress
        )
    for sentence in found.first_skipped:
        warn(f"skipped: {sentence}")
    if found.skipped:
        warn(f"skipped {found.skipped:,} of {found.rows:,} rows")
    events = found.events
    say(
        f"{found.handled:,} events of {found.users:,} users: {events['added']:,} added, {events['known']:,} known, "
        f"{events['corrected']:,} corrected, {events['too old']:,} older than the latest {remember} of their user; "
        f"{found.handled / max(found.seconds, 1e-9):,.0f} events/s"
    )
