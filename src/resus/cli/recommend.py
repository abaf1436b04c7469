"""`resus recommend`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from resus.cli.side_tables import ItemsTable, UsersTable

if TYPE_CHECKING:
    from resus.serving.exploring import Rule


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    support: Annotated[Path, typer.Option(help="The users' events so far, with labels: CSV, TSV or Parquet.")],
    top: Annotated[int, typer.Option(min=1, help="Number of items per user.")] = 10,
    wanted: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", help="FIELD=VALUE or FIELD=LOW..HIGH: only such items. Repeat it for more values or fields."
        ),
    ] = None,
    context: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE of the situation. [default: as in the user's last event]")
    ] = None,
    explore: Annotated[
        str | None,
        typer.Option(help="Rank by thompson (a draw from the posterior) or ucb (an upper bound), not by the mean."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of --explore; the next user takes the next one. [default: a random one]")
    ] = None,
    width: Annotated[
        float | None, typer.Option(help="How far --explore goes from the mean; 0 is greedy. [default: 1]")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Draws behind the propensities of --explore thompson. [default: 1000]")
    ] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also recommend items of the support.")] = False,
    data: Annotated[str | None, typer.Option(help="Folder of the prepared log, if it moved after training.")] = None,
    users: UsersTable = None,
    items: ItemsTable = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the recommendations: .csv, .tsv or .parquet. [default: print them as CSV]"),
    ] = None,
) -> None:
    """Rank all items of the log for each user of the support, and keep the best.

    The answers are those of POST /v1/recommend for the same events and context. Fields of users and items that
    --support leaves out come from the side tables of the schema, as in resus prepare. A column of --support itself
    wins. With --explore, the table also says by which logit each item is ranked, its propensity, the item that would
    be there otherwise, and the seed that repeats the ranking.
    """
    from resus.cli.arguments import log_of_run
    from resus.cli.console import say
    from resus.data.readers.tables import check_ending, check_out, read_plain, write_plain
    from resus.estimator import Resus

    if out is not None:
        check_ending(out)
    model = Resus.load(run)
    if out is not None:
        check_out(out, support, users, items, *model.scorer.sides.files())
    table = model.recommend(
        read_plain(support, model.schema),
        log_of_run(run, model, data),
        top=top,
        exclude_seen=not include_seen,
        context=dict(_pairs("--context", context or [])),
        filter=_filter(wanted or []),
        explore=cast("Rule | None", explore),  # any other text is refused
        seed=seed,
        width=width,
        draws=draws,
        users=users,
        items=items,
    )
    if out is None:
        say(table.write_csv(float_precision=6).rstrip("\n"))
    else:
        write_plain(table, out)
        say(f"{table.height:,} recommendations in {out}")


def _filter(wanted: Sequence[str]) -> dict[str, Any]:
    """Values of one field by name, of which one must hold; or a range of numbers."""
    found: dict[str, Any] = {}
    for field, value in _pairs("--filter", wanted):
        low, dots, high = value.partition("..")
        if dots:
            found[field] = {end: number for end, number in (("at_least", low), ("at_most", high)) if number}
        elif isinstance(found.get(field, []), list):
            found.setdefault(field, []).append(value)
    return found


def _pairs(option: str, given: Sequence[str]) -> list[tuple[str, str]]:
    from resus.errors import ConfigError

    pairs = []
    for one in given:
        field, equals, value = one.partition("=")
        if not field or not equals:
            raise ConfigError(f"{option} is '{one}': write {option} FIELD=VALUE")
        pairs.append((field, value))
    return pairs
