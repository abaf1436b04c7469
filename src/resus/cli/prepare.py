"""`resus prepare`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    source: Annotated[
        str, typer.Argument(help="ml-1m, frappe, taobao, planted; or a .csv, .tsv, .parquet or RecBole .inter file")
    ],
    path: Annotated[
        Path | None, typer.Option(help="Where a published data set already lies; without it, it is downloaded.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="For a table of your own: YAML that says what its columns mean.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the prepared log. [default: data/NAME]")] = None,
    protocol: Annotated[str, typer.Option(help="paper, or authors-release (MovieLens).")] = "paper",
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="label_threshold, min_item_count, min_count, negatives, seed, duplicates (error, keep, first, last), "
            "single_events (error, keep, drop); for planted: users, items, events_per_user, seed, …",
        ),
    ] = None,
) -> None:
    """Turn a data set or a table of your own into a memory-mapped log. Asking for the same again is instant."""
    from resus.cli.console import progress_bars, say
    from resus.cli.locations import default_log_folder, planted_at
    from resus.config import parse_assignments
    from resus.data.options import PrepareOptions
    from resus.data.planted import PlantedWorld
    from resus.data.prepare import prepare
    from resus.errors import ConfigError
    from resus.validation import checked

    if source == "planted" and (path or schema or protocol != "paper"):
        raise ConfigError("the planted world is drawn, not read: leave out --path, --schema and --protocol")
    folder = out or default_log_folder(source, protocol)
    chosen = parse_assignments(assignments or [])
    with progress_bars() as progress:
        if source == "planted":
            log = planted_at(folder, checked(PlantedWorld, chosen))
        else:
            options = checked(PrepareOptions, {"protocol": protocol, **chosen})
            log = prepare(source, folder, path=path, schema=schema, options=options, progress=progress)
    counts = log.manifest["counts"]
    say(
        f"{log.name}: {counts['rows']:,} events of {counts['users']:,} users "
        f"on {counts['items']:,} items, {counts['positives'] / counts['rows']:.1%} clicked, "
        f"{counts['ids']:,} feature ids"
    )
    say(f"log in {folder}; next: resus train {folder}")
